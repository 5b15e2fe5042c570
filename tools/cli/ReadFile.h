// SPDX-License-Identifier: Apache-2.0
//
// A whole file in memory, for files that are read once and are small beside a
// model's weights: tensors, prompts.
#ifndef LLMC_TOOLS_CLI_READ_FILE_H
#define LLMC_TOOLS_CLI_READ_FILE_H

#include "tools/cli/OwnedTensor.h"

namespace llmc::cli {

/// NotFound or Unavailable, with the path and the system's reason.
Result<Bytes> readFile(const std::string &path);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_READ_FILE_H
