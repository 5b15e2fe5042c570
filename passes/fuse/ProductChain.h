// SPDX-License-Identifier: Apache-2.0
//
// What follows a matrix product belongs to the product's kernel, which has its
// elements in registers; passes that group ops ask here.
#ifndef LLMC_PASSES_FUSE_PRODUCTCHAIN_H
#define LLMC_PASSES_FUSE_PRODUCTCHAIN_H

#include "compiler/ir/llm/LlmDialect.h"

namespace llmc {

/// Whether elementwise ops of one type, each used once, lead from `value` back to a product.
inline bool followsProduct(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse())
    return false;
  if (mlir::isa<llm::MatmulOp>(op))
    return true;
  return mlir::isa<llm::ElementwiseOp>(op) &&
         llvm::any_of(op->getOperands(), [&](mlir::Value operand) {
           return operand.getType() == value.getType() && followsProduct(operand);
         });
}

} // namespace llmc

#endif // LLMC_PASSES_FUSE_PRODUCTCHAIN_H
