// SPDX-License-Identifier: Apache-2.0
//
// Exporters wrap products in reshapes to two dimensions and back. The one
// behind a product would keep what follows from joining its kernel, so it moves
// in front, where the two cancel. Likewise heads are formed before query, keys
// and values are cut apart.
#include "compiler/ir/llm/Dims.h"
#include "passes/Passes.h"
#include "passes/fuse/ProductChain.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace llmc {

#define GEN_PASS_DEF_HOISTRESHAPES
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// Whether only dimensions before the last are regrouped.
bool keepsLast(llm::ReshapeOp reshape) {
  SmallVector<AffineExpr> from = llm::dimsOf(reshape.getInput().getType()),
                          to = llm::dimsOf(reshape.getType());
  return !from.empty() && !to.empty() && from.back() == to.back();
}

/// `value`, whose dimensions before the last multiply to the same as those of `like`, in its form.
Value regrouped(PatternRewriter &rewriter, Value value, llm::ReshapeOp like) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<AffineExpr> dims = llm::dimsOf(like.getType());
  dims.back() = llm::dimsOf(type).back();
  Type result = llm::tensorOf(dims, type.getElementType());
  if (result == type)
    return value;
  auto reshape = llm::ReshapeOp::create(rewriter, like.getLoc(), result, value);
  reshape->setDiscardableAttrs(like->getDiscardableAttrDictionary());
  return reshape;
}

bool onOneDevice(Operation *a, Operation *b) {
  return a->getAttr(rt::kDeviceAttr) == b->getAttr(rt::kDeviceAttr);
}

struct HoistOverProduct : OpRewritePattern<llm::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ReshapeOp reshape, PatternRewriter &rewriter) const override {
    auto product = reshape.getInput().getDefiningOp<llm::MatmulOp>();
    if (!product || !product->hasOneUse() || !onOneDevice(product, reshape) ||
        !keepsLast(reshape) || cast<RankedTensorType>(reshape.getType()).getRank() < 2 ||
        cast<RankedTensorType>(product.getRhs().getType()).getRank() != 2 ||
        cast<RankedTensorType>(product.getLhs().getType()).getRank() < 2)
      return failure();
    rewriter.setInsertionPoint(product);
    Value lhs = regrouped(rewriter, product.getLhs(), reshape);
    rewriter.modifyOpInPlace(product, [&] {
      product.getLhsMutable().assign(lhs);
      product.getResult().setType(cast<RankedTensorType>(reshape.getType()));
    });
    rewriter.replaceOp(reshape, product.getResult());
    return success();
  }
};

struct HoistOverElements : OpRewritePattern<llm::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ReshapeOp reshape, PatternRewriter &rewriter) const override {
    auto op = reshape.getInput().getDefiningOp<llm::ElementwiseOp>();
    if (!op || !onOneDevice(op, reshape) || !keepsLast(reshape) || !followsProduct(op.getResult()))
      return failure();
    SmallVector<AffineExpr> dims = llm::dimsOf(op.getType());
    for (Value operand : op.getOperands_()) {
      SmallVector<AffineExpr> own = llm::dimsOf(operand.getType());
      if (own != dims && own.size() > 1)
        return failure();
    }
    rewriter.setInsertionPoint(op);
    SmallVector<Value> operands;
    for (Value operand : op.getOperands_())
      operands.push_back(
          llm::dimsOf(operand.getType()) == dims ? regrouped(rewriter, operand, reshape) : operand);
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperands(operands);
      op.getResult().setType(cast<RankedTensorType>(reshape.getType()));
    });
    rewriter.replaceOp(reshape, op.getResult());
    return success();
  }
};

/// A slice of whole heads, then cut into heads, is a slice of the heads: what is cut into them then
/// lies in memory and costs nothing.
struct HoistOverSlice : OpRewritePattern<llm::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ReshapeOp reshape, PatternRewriter &rewriter) const override {
    auto slice = reshape.getInput().getDefiningOp<llm::SliceOp>();
    if (!slice || !slice->hasOneUse() || !onOneDevice(slice, reshape))
      return failure();
    SmallVector<AffineExpr> whole = llm::dimsOf(slice.getInput().getType()),
                            part = llm::dimsOf(slice.getType()),
                            heads = llm::dimsOf(reshape.getType());
    size_t last = whole.size() - 1;
    if (heads.size() != whole.size() + 1 ||
        ArrayRef(part).drop_back() != ArrayRef(whole).drop_back() ||
        ArrayRef(heads).drop_back(2) != ArrayRef(whole).drop_back())
      return failure();
    ArrayRef<AffineExpr> starts = slice.getStarts().getExprs();
    for (size_t i = 0; i < last; ++i)
      if (!llm::isConstant(starts[i], 0))
        return failure();
    std::optional<int64_t> start = llm::constantOf(starts[last]),
                           length = llm::constantOf(whole[last]),
                           width = llm::constantOf(heads[last + 1]);
    if (!start || !length || !width || *width <= 0 || *start % *width || *length % *width ||
        llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
      return failure();
    MLIRContext *context = rewriter.getContext();
    SmallVector<AffineExpr> dims = heads, from(starts.begin(), starts.end());
    dims[last] = getAffineConstantExpr(*length / *width, context);
    from[last] = getAffineConstantExpr(*start / *width, context);
    from.push_back(getAffineConstantExpr(0, context));
    Type element = cast<RankedTensorType>(slice.getType()).getElementType();
    auto view = llm::ReshapeOp::create(rewriter, reshape.getLoc(), llm::tensorOf(dims, element),
                                       slice.getInput());
    auto cut = llm::SliceOp::create(rewriter, slice.getLoc(), reshape.getType(), view,
                                    llm::DimsAttr::get(context, from),
                                    SmallVector<int64_t>(from.size(), 1));
    for (Operation *op : {view.getOperation(), cut.getOperation()})
      op->setDiscardableAttrs(reshape->getDiscardableAttrDictionary());
    rewriter.replaceOp(reshape, cut.getResult());
    return success();
  }
};

struct HoistReshapesPass : impl::HoistReshapesBase<HoistReshapesPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<HoistOverProduct, HoistOverElements, HoistOverSlice>(&getContext());
    llm::ReshapeOp::getCanonicalizationPatterns(patterns, &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
  }
};

} // namespace
} // namespace llmc
