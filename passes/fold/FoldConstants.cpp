// SPDX-License-Identifier: Apache-2.0
//
// Replaces ops on constants by their values, in program order, so that chains
// fold in one walk. Results stay small: the IR never grows by folding.
#include "passes/Passes.h"
#include "passes/fold/ConstantEvaluator.h"

#include "mlir/IR/Matchers.h"

namespace llmc {

#define GEN_PASS_DEF_FOLDCONSTANTS
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// Bytes of a tensor; nothing when its shape isn't static.
std::optional<int64_t> bytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || !tensor.getElementType().isIntOrFloat())
    return std::nullopt;
  int64_t bytes = (tensor.getElementTypeBitWidth() + 7) / 8;
  for (int64_t size : tensor.getShape())
    if (llvm::MulOverflow(bytes, size, bytes))
      return std::nullopt;
  return bytes;
}

struct FoldConstantsPass : impl::FoldConstantsBase<FoldConstantsPass> {
  using FoldConstantsBase::FoldConstantsBase;

  void runOnOperation() override {
    getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<rt::KernelOp>(op))
        return WalkResult::skip();
      return fold(op) ? WalkResult::skip() : WalkResult::advance();
    });
  }

private:
  /// Whether `op` is gone.
  bool fold(Operation *op) {
    if (!isa<llm::LlmDialect>(op->getDialect()) || isa<llm::ConstantOp, llm::WeightOp>(op) ||
        op->getNumResults() != 1 ||
        bytesOf(op->getResult(0).getType()).value_or(maxBytes + 1) > maxBytes)
      return false;
    SmallVector<DenseElementsAttr> operands;
    for (Value operand : op->getOperands()) {
      ElementsAttr value;
      matchPattern(operand, m_Constant(&value));
      operands.push_back(dyn_cast_or_null<DenseElementsAttr>(value));
    }
    DenseElementsAttr value = evaluateConstant(op, operands);
    if (!value)
      return false;
    OpBuilder builder(op);
    auto constant = llm::ConstantOp::create(builder, op->getLoc(), value);
    op->replaceAllUsesWith(constant);
    op->erase();
    ++numFolded;
    return true;
  }
};

} // namespace
} // namespace llmc
