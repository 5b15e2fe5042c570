// SPDX-License-Identifier: Apache-2.0
//
// Seeds of the tokenizer fuzzer: TokenizerSeeds FOLDER.
#include "tests/fuzz/GoodTokenizer.h"

#include <cstdio>
#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::string folder = argv[1];
  std::ofstream(folder + "/tokenizer.json") << llmc::goodTokenizer();
  std::ofstream damage(folder + "/damage");
  damage.write("\0\0\0L\0\1\0\0", 8);
  return damage.good() ? 0 : 1;
}
