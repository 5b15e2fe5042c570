// SPDX-License-Identifier: Apache-2.0
//
// A new op that multiplies and adds more than it reads belongs in the switch.
#include "compiler/ir/llm/Arithmetic.h"

#include "compiler/ir/llm/Dims.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace llmc::llm {

static AffineExpr elementsOf(Type type) { return productOf(dimsOf(type), type.getContext()); }

/// The right side has the depth as such; a quantized left side has records in its place.
static AffineExpr matmulArithmetic(MatmulOp op) {
  SmallVector<AffineExpr> weight = dimsOf(op.getRhs().getType());
  AffineExpr depth = weight[weight.size() - (op.getTransposeRhs() ? 1 : 2)];
  return elementsOf(op.getType()) * depth * 2;
}

static AffineExpr convArithmetic(ConvOp op) {
  SmallVector<AffineExpr> taps = dimsOf(op.getWeight().getType());
  return elementsOf(op.getType()) * productOf(ArrayRef(taps).drop_front(), op.getContext()) * 2;
}

static AffineExpr attentionArithmetic(AttentionOp op) {
  SmallVector<AffineExpr> query = dimsOf(op.getQuery().getType());
  AffineExpr keys = op.getKeys() ? op.getKeys()->getExprs()[0] : dimsOf(op.getKey().getType())[2];
  AffineExpr size = query[3], valueSize = dimsOf(op.getType())[3];
  return query[0] * query[1] * query[2] * keys * (size + valueSize) * 2;
}

AffineExpr arithmeticOf(Operation *op) {
  AffineExpr count =
      llvm::TypeSwitch<Operation *, AffineExpr>(op)
          .Case([](MatmulOp matmul) { return matmulArithmetic(matmul); })
          .Case([](ConvOp conv) { return convArithmetic(conv); })
          .Case([](AttentionOp attention) { return attentionArithmetic(attention); })
          .Default([](Operation *other) { return getAffineConstantExpr(0, other->getContext()); });
  return canonical(count);
}

} // namespace llmc::llm
