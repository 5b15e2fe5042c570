// SPDX-License-Identifier: Apache-2.0
//
// One compile from model file to bundle: import, legalise, the graph pipeline,
// codegen, bundle. The pipeline is found by name and targets through the
// context, so that this layer depends on neither.
#ifndef LLMC_COMPILER_DRIVER_COMPILER_H
#define LLMC_COMPILER_DRIVER_COMPILER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace llmc {

enum class Stage { Import, Legalize, Graph, Codegen, Bundle };

struct CompileOptions {
  std::string input;           ///< an .onnx file, or a folder with model.onnx
  std::string output;          ///< bundle path; unused when stopping earlier
  std::string target = "host"; ///< level list, "avx2,avx512"
  std::string weights = "f32"; ///< ordered rules "int4:g64; lm_head=int8"
  std::string kvCache = "f32"; ///< storage of the session's keys and values: f32, f16 or bf16
  std::string deviceMap;       ///< ordered rules "layers[0-1]=cpu0; *=cpu1"
  int64_t maxContext = 0;      ///< 0: what config.json says
  bool optimize = true;        ///< -O2; false is -O0
  Stage stopAfter = Stage::Bundle;
  std::vector<std::string> printAfter; ///< pass names whose result goes to stderr
  bool timing = false;                 ///< a table of passes and their seconds on stderr
  bool remarks = false;                ///< why patterns nearly matched
};

/// What a compile tells while it runs; each member may be empty.
struct CompileEvents {
  std::function<void(unsigned step, unsigned steps, const std::string &what)> stepStarted;
  std::function<void(double seconds)> stepFinished;
  std::function<void(uint64_t done, uint64_t total)> weightsWritten;
};

struct CompileSummary {
  uint64_t fileSize = 0;
  uint64_t weightBytes = 0;
  unsigned kernels = 0;
  unsigned dispatches = 0;
  std::map<std::string, unsigned> calls; ///< what kernels do ("matmul") -> calls in all entries
  std::vector<std::string> entries;      ///< "run", and "session" where a cache was formed
  std::vector<std::string> notes; ///< things a user should know, e.g. why there is no tokenizer
};

/// How a compile ended; the numbers are the process's exit codes.
enum class Outcome { Done = 0, ModelError = 1, EnvironmentError = 3 };

/// Runs a compile in `context`, whose registry must hold the passes' and targets' dialects.
/// Diagnostics go through the context's handler. When stopping early, `printed` gets the module.
Outcome compileModel(const CompileOptions &options, mlir::MLIRContext &context,
                     const CompileEvents &events, CompileSummary &summary, std::string *printed);

/// The dialects that this layer needs, for the registry of a main.
void registerCompilerDialects(mlir::DialectRegistry &registry);

} // namespace llmc

#endif // LLMC_COMPILER_DRIVER_COMPILER_H
