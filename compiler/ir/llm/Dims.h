// SPDX-License-Identifier: Apache-2.0
//
// Tensor types with symbolic sizes. A type has an `#llm.dims` encoding exactly
// when a dimension is not constant; build types with `tensorOf` to keep it so.
#ifndef LLMC_COMPILER_IR_LLM_DIMS_H
#define LLMC_COMPILER_IR_LLM_DIMS_H

#include "compiler/ir/llm/LlmDialect.h"

#include <optional>

namespace llmc::llm {

/// One canonical expression per dimension, outermost first.
llvm::SmallVector<mlir::AffineExpr> dimsOf(mlir::Type type);

mlir::RankedTensorType tensorOf(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::Type elementType);
mlir::RankedTensorType tensorOf(llvm::ArrayRef<int64_t> dims, mlir::Type elementType);

/// The value when `expr` is a constant.
std::optional<int64_t> constantOf(mlir::AffineExpr expr);
inline bool isConstant(mlir::AffineExpr expr, int64_t value) { return constantOf(expr) == value; }

/// A polynomial in normal form: terms in a fixed order, equal expressions are equal pointers.
/// Accepts sums, products, constants and symbols only.
mlir::AffineExpr canonical(mlir::AffineExpr expr);

/// Product of sizes in normal form; 1 for none.
mlir::AffineExpr productOf(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::MLIRContext *context);

/// `a / b` when it is exact as polynomials, e.g. s0 * 64 / 16 = s0 * 4.
std::optional<mlir::AffineExpr> exactQuotient(mlir::AffineExpr a, mlir::AffineExpr b);

/// Whether `expr` is >= 0 when all its symbols are. False when unknown. `Symbols::nonNegative`
/// also knows what computed symbols are made of, some of which may be negative.
bool provablyNonNegative(mlir::AffineExpr expr);

/// Calls `use` for each term of the polynomial: its symbols (ascending, repeated for powers) and
/// its coefficient.
void forEachTerm(
    mlir::AffineExpr expr,
    llvm::function_ref<void(llvm::ArrayRef<unsigned> symbols, int64_t coefficient)> use);

/// Positions of all symbols in `expr`, ascending.
llvm::SmallVector<unsigned> symbolsIn(mlir::AffineExpr expr);

/// `expr` with symbols replaced by expressions (null: kept), in normal form.
mlir::AffineExpr substitute(mlir::AffineExpr expr,
                            llvm::function_ref<mlir::AffineExpr(unsigned)> value);

} // namespace llmc::llm

#endif // LLMC_COMPILER_IR_LLM_DIMS_H
