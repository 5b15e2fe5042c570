// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary in which recovery patterns are written: constants by value
// whatever their type and shape, operands in either order, and a note of what
// stopped a match.
#ifndef LLMC_PASSES_RECOVER_GRAPH_MATCH_H
#define LLMC_PASSES_RECOVER_GRAPH_MATCH_H

#include "compiler/ir/llm/Dims.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

#include <optional>
#include <string>

namespace llmc {

/// The element type and rank of a tensor value.
mlir::Type elementTypeOf(mlir::Value tensor);
int64_t rankOf(mlir::Value tensor);

/// The number when all elements of a constant are equal.
std::optional<double> numberOf(mlir::Value value);
/// Whether `value` is that constant, up to the rounding of 16-bit exporters.
bool isAbout(mlir::Value value, double number, double relativeTolerance = 1e-3);

/// The op when `value` is made by that scalar function, else null.
llm::ElementwiseOp scalarOp(mlir::Value value, llm::ElementKind kind);

/// `value` without ops that only add or drop dimensions of size 1, or repeat elements.
mlir::Value stripShape(mlir::Value value);

/// The constant factor and the other factors of a tree of products, divisions by constants and
/// negations.
struct Product {
  double constant = 1;
  llvm::SmallVector<mlir::Value, 4> factors;
};
Product productOf(mlir::Value value);

/// Coefficients of `value` as a polynomial in `x` of degree at most 3, if it is one.
std::optional<std::array<double, 4>> polynomialIn(mlir::Value value, mlir::Value x);

/// Why a pattern that began to match did not.
struct NearMiss {
  std::optional<mlir::Location> where; // not the op, which may be gone by then
  std::string why;

  /// Keeps the first reason; always false, to end a match with.
  bool stop(mlir::Operation *at, const llvm::Twine &text) {
    if (!where) {
      where = at->getLoc();
      why = text.str();
    }
    return false;
  }
};

/// A remark at the op that stopped a pattern, with the name of its ONNX node.
void remark(const NearMiss &miss, llvm::StringRef pattern);

} // namespace llmc

#endif // LLMC_PASSES_RECOVER_GRAPH_MATCH_H
