// SPDX-License-Identifier: Apache-2.0
//
// A file written whole or not at all: beside its place, then renamed.
#ifndef LLMC_TOOLS_CLI_WRITE_FILE_H
#define LLMC_TOOLS_CLI_WRITE_FILE_H

#include "runtime/core/Status.h"

#include <span>
#include <string>
#include <string_view>

namespace llmc::cli {

/// `head`, then `body`. Unavailable, with the path and the system's reason, where it can't.
Status writeFile(const std::string &path, std::string_view head,
                 std::span<const std::byte> body = {});

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_WRITE_FILE_H
