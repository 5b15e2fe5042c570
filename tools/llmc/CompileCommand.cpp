// SPDX-License-Identifier: Apache-2.0
//
// Flags to options, and progress to a person's terminal.
#include "tools/llmc/CompileCommand.h"

#include "codegen/Targets.h"
#include "compiler/driver/Compiler.h"
#include "tools/cli/Commands.h"
#include "tools/llmc/Diagnostics.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <unistd.h>

namespace llmc::cli {
namespace {

struct Flags {
  CompileOptions compile;
  std::string diagnostics = "text";
  bool quiet = false;
};

/// A line per step on a terminal, with a bar while weights are written; nothing elsewhere.
class Progress {
public:
  explicit Progress(bool shown) : shown(shown) {}

  CompileEvents events() {
    if (!shown)
      return {};
    CompileEvents events;
    events.stepStarted = [this](unsigned step, unsigned steps, const std::string &what) {
      line = "[" + std::to_string(step) + "/" + std::to_string(steps) + "] " + what + " … ";
      std::fprintf(stderr, "%s", line.c_str());
      std::fflush(stderr);
    };
    events.stepFinished = [this](double seconds) {
      std::fprintf(stderr, "\r\033[K%s%.1f s\n", line.c_str(), seconds);
    };
    events.weightsWritten = [this](uint64_t done, uint64_t total) {
      int percent = total ? int(100 * done / total) : 100;
      if (percent == lastPercent)
        return;
      lastPercent = percent;
      std::string bar(size_t(percent) / 5, '#');
      std::fprintf(stderr, "\r\033[K%s[%-20s] %d %%", line.c_str(), bar.c_str(), percent);
      std::fflush(stderr);
    };
    return events;
  }

private:
  bool shown;
  std::string line;
  int lastPercent = -1;
};

int runCompile(const Flags &flags) {
  if (flags.compile.stopAfter == Stage::Bundle && flags.compile.output.empty()) {
    std::fprintf(stderr, "llmc compile: where should the bundle go? Give -o OUT.llmc\n");
    return kUsage;
  }
  mlir::DialectRegistry registry;
  registerCompilerDialects(registry);
  registerTargets(registry);
  mlir::MLIRContext context(registry);
  DiagnosticPrinter diagnostics(context, flags.diagnostics == "json");
  Progress progress(!flags.quiet && flags.diagnostics == "text" && isatty(STDERR_FILENO));
  CompileSummary summary;
  std::string printed;
  Outcome outcome = compileModel(flags.compile, context, progress.events(), summary, &printed);
  if (outcome != Outcome::Done)
    return int(outcome);
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  if (flags.compile.stopAfter == Stage::Bundle && !flags.quiet && flags.diagnostics == "text") {
    for (const std::string &note : summary.notes)
      std::fprintf(stderr, "note: %s\n", note.c_str());
    std::fprintf(stderr, "%s: %.1f MB, of it weights %.1f MB; %u kernels for %u calls\n",
                 flags.compile.output.c_str(), double(summary.fileSize) / 1e6,
                 double(summary.weightBytes) / 1e6, summary.kernels, summary.dispatches);
  }
  return kOk;
}

} // namespace

void addCompileCommand(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("compile", "Compile an ONNX model into a bundle");
  CompileOptions &options = flags->compile;
  command->add_option("model", options.input, "An .onnx file, or the folder an exporter wrote")
      ->required();
  command->add_option("-o,--output", options.output, "The bundle to write");
  command
      ->add_option("--target", options.target,
                   "CPU levels, e.g. avx2,avx512; host = the highest of this machine")
      ->capture_default_str();
  command
      ->add_option("--weights", options.weights,
                   "How weights are stored: f32, f16, bf16, int8, int4:g32|g64|g128[:asym], "
                   "int4x2:g32; or rules, e.g. \"int4:g64; lm_head=int8; *.down_proj=bf16\", of "
                   "which the last that matches a node, weight or module wins")
      ->capture_default_str();
  command
      ->add_option("--kv-cache", options.kvCache,
                   "Storage of a session's keys and values; attention computes in f32")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  command->add_option(
      "--device-map", options.deviceMap,
      "Where nodes run, e.g. \"layers[0-5]=cpu0; *=cpu1\"; the last rule that matches wins");
  command
      ->add_option("--max-context", options.maxContext,
                   "Default capacity of a session, in tokens (default: the model's)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24));
  static const std::map<std::string, bool> kLevels = {{"0", false}, {"2", true}};
  command
      ->add_option("-O", options.optimize,
                   "-O0: no fusion, plain kernels; -O2: everything (default)")
      ->transform(CLI::CheckedTransformer(kLevels));
  static const std::map<std::string, Stage> kStages = {{"import", Stage::Import},
                                                       {"legalize", Stage::Legalize},
                                                       {"graph", Stage::Graph},
                                                       {"codegen", Stage::Codegen}};
  command->add_option("--stop-after", options.stopAfter, "Stop after a stage and print the program")
      ->transform(CLI::CheckedTransformer(kStages, CLI::ignore_case));
  command->add_option("--print-ir-after", options.printAfter,
                      "Print the program after this pass, e.g. llmc-outline-kernels");
  command->add_flag("--remarks", options.remarks, "Say why a pattern that nearly matched did not");
  command->add_flag("--timing", options.timing, "Print how long each pass took");
  command->add_option("--diagnostics", flags->diagnostics, "How errors are printed")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->add_flag("-q,--quiet", flags->quiet, "No progress and no summary");
  command->footer(examples(app, {"$0 compile model.onnx -o model.llmc",
                                 "$0 compile exported-folder/ -o model.llmc --target=avx2,avx512",
                                 "$0 compile model.onnx --stop-after=legalize"}));
  command->callback([flags, &exitCode] { exitCode = runCompile(*flags); });
}

} // namespace llmc::cli
