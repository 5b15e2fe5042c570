// SPDX-License-Identifier: Apache-2.0
//
// Collects an import's problems: all are reported, up to a limit that keeps a
// hostile model from printing forever. Text begins with its code, e.g. "[LLMC1020] ".
#ifndef LLMC_COMPILER_ONNX_IMPORTDIAGNOSTICS_H
#define LLMC_COMPILER_ONNX_IMPORTDIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"

namespace llmc {

class ImportDiagnostics {
public:
  /// `text` may come from an llvm::Error that already begins with its code.
  void error(mlir::Location location, const llvm::Twine &text) {
    failed = true;
    if (stopped)
      return;
    if (++errors <= kLimit)
      mlir::emitError(location) << text;
    else if (errors == kLimit + 1)
      mlir::emitError(location) << "[LLMC1099] more than " << kLimit
                                << " errors; further ones are not shown";
  }
  void error(mlir::Location location, int code, const llvm::Twine &text) {
    error(location, "[LLMC" + llvm::Twine(code) + "] " + text);
  }
  void warning(mlir::Location location, int code, const llvm::Twine &text) {
    if (++warnings <= kLimit)
      mlir::emitWarning(location) << "[LLMC" << code << "] " << text;
  }
  bool hasErrors() const { return failed; }
  /// The import is given up: what follows from that is no news to anyone.
  void stop() { stopped = true; }
  bool isStopped() const { return stopped; }

private:
  static constexpr int kLimit = 100;
  int errors = 0, warnings = 0;
  bool failed = false, stopped = false;
};

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_IMPORTDIAGNOSTICS_H
