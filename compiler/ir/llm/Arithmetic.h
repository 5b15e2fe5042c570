// SPDX-License-Identifier: Apache-2.0
//
// How much an op computes, as a polynomial of its sizes: what profiles compare
// with the machine's peak. Only products are counted; everything else is
// bound by memory.
#ifndef LLMC_COMPILER_IR_LLM_ARITHMETIC_H
#define LLMC_COMPILER_IR_LLM_ARITHMETIC_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Operation.h"

namespace llmc::llm {

/// Multiplications and additions of products, convolutions and attention, each counted as one; 0
/// for other ops. Attention counts every pair of query and key, visible or not.
mlir::AffineExpr arithmeticOf(mlir::Operation *op);

} // namespace llmc::llm

#endif // LLMC_COMPILER_IR_LLM_ARITHMETIC_H
