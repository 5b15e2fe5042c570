// SPDX-License-Identifier: Apache-2.0
//
// How the compiler's diagnostics reach people and machines: a line of text, or
// a line of JSON with the code, the ONNX node and the message apart.
#ifndef LLMC_TOOLS_LLMC_DIAGNOSTICS_H
#define LLMC_TOOLS_LLMC_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"

namespace llmc::cli {

class DiagnosticPrinter {
public:
  /// From now on every diagnostic of `context` is printed to stderr.
  DiagnosticPrinter(mlir::MLIRContext &context, bool json);

  unsigned errors() const { return errorCount; }

private:
  void print(mlir::Diagnostic &diagnostic);

  bool json;
  unsigned errorCount = 0;
  llvm::StringSet<> remarks; ///< printed already: equal layers give equal remarks
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace llmc::cli

#endif // LLMC_TOOLS_LLMC_DIAGNOSTICS_H
