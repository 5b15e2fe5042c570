// SPDX-License-Identifier: Apache-2.0
//
// Elementwise ops on vectors of their result: bias, residual and activation
// behind a matrix product, or a kernel of nothing else. What this cannot do as
// vectors, callers leave to scalar code.
#ifndef LLMC_CODEGEN_CPU_VECTOR_EPILOGUE_H
#define LLMC_CODEGEN_CPU_VECTOR_EPILOGUE_H

#include "codegen/cpu/RegisterTile.h"
#include "compiler/ir/llm/LlmDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace llmc::cpu {

class VectorEpilogue {
public:
  /// `value` is what the kernel yields, `root` the product's result, of equal type, or null where
  /// everything comes from memory.
  VectorEpilogue(KernelEmitter &emitter, mlir::Value value, mlir::Value root)
      : e(emitter), tile(emitter), value(value), root(root) {}

  bool isEmpty() const { return value == root; }
  /// Whether every op and operand between root and value has a vector form.
  bool supported() const { return supports(value); }

  /// The vector of the yielded value at row `row` (all dimensions but the last, flattened) and
  /// columns from `column` on, where the product is `x`. `mask` (or null) tells the valid lanes.
  mlir::Value apply(mlir::Value x, mlir::Value row, mlir::Value column, mlir::Value mask);

private:
  /// How an operand's elements follow from a position in the result.
  enum class Access { None, Full, Row, Column, Scalar };
  Access accessOf(mlir::Value operand) const;
  bool supports(mlir::Value x) const;
  mlir::Value evaluate(mlir::Value x, mlir::Value row, mlir::Value column, mlir::Value mask,
                       llvm::DenseMap<mlir::Value, mlir::Value> &known);

  KernelEmitter &e;
  RegisterTile tile;
  mlir::Value value, root;
};

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_VECTOR_EPILOGUE_H
