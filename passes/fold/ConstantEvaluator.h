// SPDX-License-Identifier: Apache-2.0
//
// Values of ops whose operands are constants, worked out at compile time in
// double or int64 and rounded to the element type as the kernels would. What
// would be an error at run time (division by 0, an index out of range) has no
// value, so that the program still meets the error.
#ifndef LLMC_PASSES_FOLD_CONSTANT_EVALUATOR_H
#define LLMC_PASSES_FOLD_CONSTANT_EVALUATOR_H

#include "compiler/ir/llm/LlmDialect.h"

namespace llmc {

/// The value of `op`'s only result, given its operands' values (null where one isn't constant).
/// Null when it can't be told.
mlir::DenseElementsAttr evaluateConstant(mlir::Operation *op,
                                         llvm::ArrayRef<mlir::DenseElementsAttr> operands);

} // namespace llmc

#endif // LLMC_PASSES_FOLD_CONSTANT_EVALUATOR_H
