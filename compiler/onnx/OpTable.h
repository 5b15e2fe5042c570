// SPDX-License-Identifier: Apache-2.0
//
// Which ONNX operators the compiler knows: one row per (domain, op, opset in
// which that behaviour began). The table is the list of what is supported;
// docs/onnx-support.md is printed from it.
#ifndef LLMC_COMPILER_ONNX_OPTABLE_H
#define LLMC_COMPILER_ONNX_OPTABLE_H

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/ArrayRef.h"

namespace llmc::onnx {

class Lowering;

/// Sets the node's results, or reports why it can't.
using LowerFn = mlir::LogicalResult (*)(Lowering &);

struct OpRow {
  const char *domain;
  const char *op;
  int since;
  LowerFn lower;         // null: known, but refused for the reason in `note`
  const char *note = ""; // restrictions, for the docs and for errors
};

/// The newest opset of the default domain that the rows were checked against.
inline constexpr int64_t kNewestOpset = 28;

/// The newest row for the op with `since` <= `version`. Null when there is none, or when `version`
/// is newer than the compiler knows.
const OpRow *findRow(llvm::StringRef domain, llvm::StringRef op, int64_t version);

/// All rows, sorted by domain, op, opset.
llvm::ArrayRef<OpRow> allRows();

/// The table as Markdown.
void printSupportTable(llvm::raw_ostream &os);

// The families, each sorted by op.
llvm::ArrayRef<OpRow> attentionRows();
llvm::ArrayRef<OpRow> contribAttentionRows();
llvm::ArrayRef<OpRow> contribRows();
llvm::ArrayRef<OpRow> controlRows();
llvm::ArrayRef<OpRow> convRows();
llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> indexRows();
llvm::ArrayRef<OpRow> mathRows();
llvm::ArrayRef<OpRow> normRows();
llvm::ArrayRef<OpRow> quantRows();
llvm::ArrayRef<OpRow> shapeRows();

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_OPTABLE_H
