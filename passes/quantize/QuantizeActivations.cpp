// SPDX-License-Identifier: Apache-2.0
//
// Products with quantized weights get a quantized left side. Equal left sides
// are quantized once, and a norm that feeds one does it in its own kernel.
#include "compiler/ir/llm/Dims.h"
#include "compiler/ir/llm/QuantizedRows.h"
#include "passes/Passes.h"

namespace llmc {

#define GEN_PASS_DEF_QUANTIZEACTIVATIONS
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// The group in which the left side of a product with this weight is quantized; 0: not at all.
int64_t activationGroupFor(RankedTensorType weight) {
  auto format = dyn_cast_or_null<StringAttr>(weight.getEncoding());
  if (!format || weight.getRank() != 2 || weight.getNumElements() == 0)
    return 0;
  StringRef name = format.getValue();
  if (!name.starts_with("int4") && !name.starts_with("int8"))
    return 0;
  return name.contains(":g32") ? 32 : 64;
}

struct QuantizeActivationsPass : impl::QuantizeActivationsBase<QuantizeActivationsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        quantize(block);
  }

private:
  void quantize(Block &block);
  /// Puts a norm and the quantization of its result in one kernel, where that can be had.
  void joinNorm(llm::QuantizeOp quantize);
};

/// What kernels would not find in memory as rows.
bool isImmediate(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return value.getDefiningOp<llm::ConstantOp>() || isa_and_nonnull<StringAttr>(type.getEncoding());
}

/// Whether kernels can take the norm `op` along: f32, over the last dimension.
bool isLastDimensionNorm(Operation *op) {
  auto rankOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getRank(); };
  auto isF32 = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType().isF32();
  };
  int64_t axis;
  if (auto layer = dyn_cast_or_null<llm::LayerNormOp>(op))
    axis = layer.getAxis();
  else if (auto rms = dyn_cast_or_null<llm::RmsNormOp>(op))
    axis = rms.getAxis();
  else
    return false;
  AffineExpr depth = llm::dimsOf(op->getOperand(0).getType()).back();
  return axis == rankOf(op->getOperand(0)) - 1 && llvm::all_of(op->getOperands(), isF32) &&
         llvm::none_of(op->getOperands(), isImmediate) &&
         llvm::all_of(op->getOperands().drop_front(), [&](Value parameter) {
           return rankOf(parameter) == 1 && llm::dimsOf(parameter.getType())[0] == depth;
         });
}

void QuantizeActivationsPass::joinNorm(llm::QuantizeOp quantize) {
  Operation *norm = quantize.getInput().getDefiningOp();
  OpBuilder builder(norm);
  SmallVector<Value> results = {quantize.getResult()};
  if (!norm->hasOneUse())
    results.push_back(norm->getResult(0));
  auto fusion = llm::FusionOp::create(builder, norm->getLoc(), ValueRange(results).getTypes());
  fusion->setDiscardableAttrs(norm->getDiscardableAttrDictionary());
  Block *body = builder.createBlock(&fusion.getBody());
  for (auto [value, replacement] : llvm::zip_equal(results, fusion.getResults()))
    value.replaceAllUsesExcept(replacement, quantize);
  norm->moveBefore(body, body->end());
  quantize->moveBefore(body, body->end());
  builder.setInsertionPointToEnd(body);
  llm::FusionYieldOp::create(builder, norm->getLoc(), results);
  ++numJoined;
}

void QuantizeActivationsPass::quantize(Block &block) {
  DenseMap<std::pair<Value, int64_t>, llm::QuantizeOp> known;
  SmallVector<llm::QuantizeOp> behindNorms;
  for (auto matmul : llvm::make_early_inc_range(block.getOps<llm::MatmulOp>())) {
    auto lhs = cast<RankedTensorType>(matmul.getLhs().getType());
    int64_t group = activationGroupFor(cast<RankedTensorType>(matmul.getRhs().getType()));
    std::optional<int64_t> depth = llm::constantOf(llm::dimsOf(lhs).back());
    if (!group || !depth || isImmediate(matmul.getLhs()) || !lhs.getElementType().isF32() ||
        !cast<RankedTensorType>(matmul.getType()).getElementType().isF32())
      continue;
    Value input = matmul.getLhs();
    llm::QuantizeOp &quantize = known[{input, group}];
    if (!quantize) {
      OpBuilder builder(matmul);
      Operation *norm = input.getDefiningOp();
      bool join = isLastDimensionNorm(norm) &&
                  norm->getAttr(rt::kDeviceAttr) == matmul->getAttr(rt::kDeviceAttr);
      if (join)
        builder.setInsertionPointAfter(norm); // other users of the norm may come first
      SmallVector<AffineExpr> dims = llm::dimsOf(lhs);
      dims.back() = builder.getAffineConstantExpr(llm::QuantizedRecord{group}.rowBytes(*depth));
      quantize = llm::QuantizeOp::create(
          builder, matmul.getLoc(),
          llm::tensorOf(dims, builder.getIntegerType(8, /*isSigned=*/false)), input, group);
      quantize->setDiscardableAttrs(matmul->getDiscardableAttrDictionary());
      if (join && llvm::none_of(behindNorms,
                                [&](llm::QuantizeOp other) { return other.getInput() == input; }))
        behindNorms.push_back(quantize);
    }
    matmul.getLhsMutable().assign(quantize);
    matmul.setQuantized(group);
    ++numProducts;
  }
  for (llm::QuantizeOp quantize : behindNorms)
    joinNorm(quantize);
}

} // namespace
} // namespace llmc
