// SPDX-License-Identifier: Apache-2.0
//
// `llmc check`.
#ifndef LLMC_TOOLS_LLMC_CHECK_COMMAND_H
#define LLMC_TOOLS_LLMC_CHECK_COMMAND_H

namespace CLI {
class App;
}

namespace llmc::cli {

/// Adds the subcommand; its exit code goes to `exitCode`, which must outlive the parsing.
void addCheckCommand(CLI::App &app, int &exitCode);

} // namespace llmc::cli

#endif // LLMC_TOOLS_LLMC_CHECK_COMMAND_H
