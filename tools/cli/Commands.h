// SPDX-License-Identifier: Apache-2.0
//
// The commands that need only the runtime. llmc and llmc-run register the same
// ones, so that both behave alike. A command reports to stdout and stderr and
// ends with an exit code; nothing else in the project does.
#ifndef LLMC_TOOLS_CLI_COMMANDS_H
#define LLMC_TOOLS_CLI_COMMANDS_H

#include "runtime/core/Status.h"

#include <string>

namespace CLI {
class App;
}

namespace llmc::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,      // the model or the request can't be compiled or run
  kUsage = 2,       // the command line is wrong
  kEnvironment = 3, // missing file, full disk, unsuitable CPU, missing driver
  kDifferent = 4,   // it ran, and what came out isn't what was expected
};

/// Prints "error: message" to stderr and gives the exit code of a failure. A `NotFound` counts as a
/// missing file.
int reportFailure(const Status &status);

// Each adds one subcommand to `app`. When it is the one called, its exit code goes to `exitCode`,
// which must outlive the parsing.
void addBenchCommand(CLI::App &app, int &exitCode);
void addGenerateCommand(CLI::App &app, int &exitCode);
void addInspectCommand(CLI::App &app, int &exitCode);
void addMachineCommand(CLI::App &app, int &exitCode);
void addRunCommand(CLI::App &app, int &exitCode);

/// Parses the command line, which runs the command called, and gives the process's exit code. Help
/// goes to stdout; a wrong command line is explained on stderr with the nearest flag or command.
int parseCommandLine(CLI::App &app, int argc, const char *const *argv, const int &exitCode);

/// Footer text of a command's help: "Examples:" and one line each, with `$0` for the program's
/// name.
std::string examples(const CLI::App &app, std::initializer_list<const char *> lines);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_COMMANDS_H
