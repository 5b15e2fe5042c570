// SPDX-License-Identifier: Apache-2.0
//
// Writes the first inputs of BundleReaderFuzzer into a folder, so that no
// binary file lies in the repository.
#include "tests/unit/bundle/TestBundle.h"
#include "tests/unit/bundle/TestProgram.h"

#include <cstdio>
#include <filesystem>

int main(int count, char **arguments) {
  using namespace llmc::test;
  if (count != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
    return 2;
  }
  std::string folder = arguments[1];
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  TestBundle bundle = makeTestBundle(/*small=*/true);
  std::string manifest;
  bundle.changeManifest = [&](const std::string &text) { return manifest = text; };
  std::string error = bundle.write(folder + "/bundle");
  if (!error.empty()) {
    fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  writeFile(folder + "/bundle", "B" + readFile(folder + "/bundle"));
  writeFile(folder + "/program", "P" + makeTestProgram().encode());
  writeFile(folder + "/manifest", "M" + manifest);
  return 0;
}
