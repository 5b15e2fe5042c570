// SPDX-License-Identifier: Apache-2.0
//
// The runtime's own program: generates, runs and measures bundles where no
// compiler is installed.
#include "llmc/llmc.h"
#include "tools/cli/Commands.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  CLI::App app("Runs models that llmc compiled.", "llmc-run");
  app.set_version_flag("--version", llmc_version());
  app.require_subcommand(1);
  int exitCode = 0;
  llmc::cli::addGenerateCommand(app, exitCode);
  llmc::cli::addRunCommand(app, exitCode);
  llmc::cli::addBenchCommand(app, exitCode);
  llmc::cli::addMachineCommand(app, exitCode);
  llmc::cli::addInspectCommand(app, exitCode);
  return llmc::cli::parseCommandLine(app, argc, argv, exitCode);
}
