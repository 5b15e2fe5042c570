// SPDX-License-Identifier: Apache-2.0
//
// llmc: compiles models, and runs what it compiled.
#include "llmc/llmc.h"
#include "passes/Passes.h"
#include "tools/cli/Commands.h"
#include "tools/llmc/CheckCommand.h"
#include "tools/llmc/CompileCommand.h"

#include <CLI/CLI.hpp>

int main(int argc, char **argv) {
  llmc::registerLlmcPasses();
  CLI::App app("Compiles ONNX models into bundles, and runs them.", "llmc");
  app.set_version_flag("--version", llmc_version());
  app.require_subcommand(1);
  int exitCode = 0;
  llmc::cli::addCompileCommand(app, exitCode);
  llmc::cli::addCheckCommand(app, exitCode);
  llmc::cli::addGenerateCommand(app, exitCode);
  llmc::cli::addRunCommand(app, exitCode);
  llmc::cli::addBenchCommand(app, exitCode);
  llmc::cli::addMachineCommand(app, exitCode);
  llmc::cli::addInspectCommand(app, exitCode);
  return llmc::cli::parseCommandLine(app, argc, argv, exitCode);
}
