// SPDX-License-Identifier: Apache-2.0
//
// Opening a bundle as the command line says.
#include "tools/cli/ModelOptionsFlags.h"

#include <CLI/CLI.hpp>

namespace llmc::cli {

void addModelFlags(CLI::App &command, std::string &bundlePath, ModelOptions &options) {
  command.add_option("bundle", bundlePath, "The compiled model")->required();
  command.add_option("--threads", options.threads, "Worker threads (default: one per core)")
      ->check(CLI::Range(1, 1024));
  command.add_option("--isa", options.isa,
                     "The highest instruction set level to use, such as avx2 (default: the best)");
  command.add_flag("--verify", options.verify, "Check the weights' SHA-256 too, not only the rest");
  command.add_flag("!--no-huge-pages", options.hugePages,
                   "Leave weights in the mapped file instead of moving them into 2 MB pages after "
                   "the first call");
}

Result<std::shared_ptr<Model>> openModel(const std::string &bundlePath,
                                         const ModelOptions &options) {
  auto model = Model::open(bundlePath, options);
  if (!model.isOk() && model.status().message().find(bundlePath) == std::string::npos)
    return model.status().inContext(bundlePath);
  return model;
}

} // namespace llmc::cli
