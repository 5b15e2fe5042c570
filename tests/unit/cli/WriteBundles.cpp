// SPDX-License-Identifier: Apache-2.0
//
// Puts the bundles that cli_cases.py runs into a folder.
#include "tests/unit/llm/CountingModel.h"

#include <cstdio>

int main(int argc, char **argv) {
  using llmc::test::CountingModel;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::string folder = argv[1];
  llmc::test::writeIdentityBundle(folder + "/identity.llmc");
  CountingModel model;
  model.maxContext = 64;
  model.write(folder + "/recompute.llmc");
  model.way = CountingModel::Cache;
  model.write(folder + "/cache.llmc");
  model.way = CountingModel::Foreign;
  model.write(folder + "/foreign.llmc");
  model.way = CountingModel::Blocks;
  model.hasTokenizer = true;
  model.generation = R"({"eos_token_ids": [256]})";
  model.write(folder + "/blocks.llmc");
  return 0;
}
