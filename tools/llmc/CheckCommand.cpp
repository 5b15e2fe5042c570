// SPDX-License-Identifier: Apache-2.0
//
// A compile up to the graph passes, for what it says rather than what it makes.
#include "tools/llmc/CheckCommand.h"

#include "codegen/Targets.h"
#include "compiler/driver/Compiler.h"
#include "compiler/onnx/OpTable.h"
#include "tools/cli/Commands.h"
#include "tools/llmc/Diagnostics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace llmc::cli {
namespace {

struct Flags {
  CompileOptions compile;
  std::string diagnostics = "text";
  bool operators = false;
};

int runCheck(const Flags &flags) {
  if (flags.operators) {
    onnx::printSupportTable(llvm::outs());
    return kOk;
  }
  mlir::DialectRegistry registry;
  registerCompilerDialects(registry);
  registerTargets(registry);
  mlir::MLIRContext context(registry);
  DiagnosticPrinter diagnostics(context, flags.diagnostics == "json");
  CompileSummary summary;
  Outcome outcome = compileModel(flags.compile, context, {}, summary, nullptr);
  if (outcome != Outcome::Done) {
    std::printf("%s can't be compiled: %u error%s\n", flags.compile.input.c_str(),
                diagnostics.errors(), diagnostics.errors() == 1 ? "" : "s");
    return int(outcome);
  }
  std::printf("%s can be compiled: %u kernels for %u calls\n", flags.compile.input.c_str(),
              summary.kernels, summary.dispatches);
  bool session =
      std::find(summary.entries.begin(), summary.entries.end(), "session") != summary.entries.end();
  std::printf("cache: %s\n", session ? "kept by the runtime in blocks"
                                     : "none formed; pasts, if any, are fed back");
  std::vector<std::pair<std::string, unsigned>> calls(summary.calls.begin(), summary.calls.end());
  llvm::sort(calls, [](const auto &a, const auto &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  for (const auto &[name, count] : calls)
    std::printf("  %6u  %s\n", count, name.c_str());
  return kOk;
}

} // namespace

void addCheckCommand(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<Flags>();
  flags->compile.stopAfter = Stage::Graph;
  flags->compile.remarks = true;
  CLI::App *command = app.add_subcommand("check", "Say whether a model can be compiled, and how");
  command->add_option("model", flags->compile.input,
                      "An .onnx file, or the folder an exporter wrote");
  command->add_flag("--operators", flags->operators, "Print the table of operators instead");
  command->add_option("--diagnostics", flags->diagnostics, "How problems and remarks are printed")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->footer(
      examples(app, {"$0 check model.onnx", "$0 check exported-folder/ --diagnostics=json"}));
  command->callback([flags, &exitCode] {
    if (flags->compile.input.empty() && !flags->operators)
      throw CLI::RequiredError("model");
    exitCode = runCheck(*flags);
  });
}

} // namespace llmc::cli
