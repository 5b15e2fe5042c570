// SPDX-License-Identifier: Apache-2.0
//
// The flags that say how a bundle is opened, the same for every command.
#ifndef LLMC_TOOLS_CLI_MODEL_OPTIONS_FLAGS_H
#define LLMC_TOOLS_CLI_MODEL_OPTIONS_FLAGS_H

#include "runtime/llm/Model.h"

namespace CLI {
class App;
}

namespace llmc::cli {

/// Adds the bundle's path, --threads, --isa and --verify to `command`.
void addModelFlags(CLI::App &command, std::string &bundlePath, ModelOptions &options);

/// Model::open, with the bundle's path in the error.
Result<std::shared_ptr<Model>> openModel(const std::string &bundlePath,
                                         const ModelOptions &options);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_MODEL_OPTIONS_FLAGS_H
