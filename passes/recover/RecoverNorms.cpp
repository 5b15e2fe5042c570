// SPDX-License-Identifier: Apache-2.0
//
// Norms from their arithmetic, in small steps: first the division by the root
// mean square, then scale, bias and casts move in. A norm computes in f32
// whatever its type, so each step is exact or drops a rounding.
#include "passes/Passes.h"
#include "passes/recover/GraphMatch.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace llmc {

#define GEN_PASS_DEF_RECOVERNORMS
#include "passes/Passes.h.inc"

using namespace mlir;
using llm::ElementKind;

namespace {

/// `x / sqrt(mean(x^2) + epsilon)`, with `x = input - mean(input)` when centered.
struct NormMatch {
  Value input;
  int64_t axis = 0;
  double epsilon = 0;
  bool centered = false;
};

/// The first of the reduced axes when they are all the last ones.
std::optional<int64_t> trailingAxis(llm::ReduceOp mean) {
  SmallVector<int64_t> axes(mean.getAxes());
  llvm::sort(axes);
  int64_t rank = rankOf(mean.getInput());
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis != rank - int64_t(axes.size()) + int64_t(i))
      return std::nullopt;
  return axes.empty() ? std::nullopt : std::optional(axes.front());
}

llm::ReduceOp meanOf(Value value) {
  auto mean = value.getDefiningOp<llm::ReduceOp>();
  return mean && mean.getKind() == llm::ReduceKind::Mean ? mean : llm::ReduceOp();
}

/// `square` = y * y; null when it is no square.
Value squareRoot(Value square) {
  auto mul = scalarOp(square, ElementKind::Mul);
  return mul && mul.getOperands_()[0] == mul.getOperands_()[1] ? mul.getOperands_()[0] : Value();
}

bool sameDifference(Value a, Value b) {
  if (a == b)
    return true;
  auto x = scalarOp(a, ElementKind::Sub), y = scalarOp(b, ElementKind::Sub);
  return x && y && x.getOperands_() == y.getOperands_();
}

/// `x` times `1 / sqrt(square)`.
bool matchQuotient(llm::ElementwiseOp op, Value x, Value square, NormMatch &norm, NearMiss &miss) {
  auto add = scalarOp(square, ElementKind::Add);
  if (!add)
    return false;
  llm::ReduceOp mean;
  std::optional<double> epsilon;
  for (unsigned i : {0, 1})
    if (auto reduce = meanOf(add.getOperands_()[i])) {
      mean = reduce;
      epsilon = numberOf(add.getOperands_()[1 - i]);
    }
  Value y = mean ? squareRoot(mean.getInput()) : Value();
  if (!y)
    return false;
  if (!epsilon)
    return miss.stop(add, "the epsilon isn't a constant");
  std::optional<int64_t> axis = trailingAxis(mean);
  if (!axis)
    return miss.stop(mean, "the mean isn't over the last dimensions");
  if (!sameDifference(x, y))
    return miss.stop(op, "what is divided isn't what was squared");
  if (op.getType() != x.getType())
    return miss.stop(op, "the result has another shape than the input");
  norm = {x, *axis, *epsilon, false};
  if (auto difference = scalarOp(x, ElementKind::Sub)) {
    auto inner = meanOf(difference.getOperands_()[1]);
    if (inner && inner.getInput() == difference.getOperands_()[0] && trailingAxis(inner) == axis &&
        inner.getInput().getType() == x.getType())
      norm = {inner.getInput(), *axis, *epsilon, true};
  }
  return true;
}

bool matchNorm(llm::ElementwiseOp op, NormMatch &norm, NearMiss &miss) {
  if (op.getKind() == ElementKind::Div) {
    auto root = scalarOp(op.getOperands_()[1], ElementKind::Sqrt);
    return root && matchQuotient(op, op.getOperands_()[0], root.getOperands_()[0], norm, miss);
  }
  if (op.getKind() != ElementKind::Mul)
    return false;
  for (unsigned i : {0, 1}) {
    Value inverse = op.getOperands_()[i], x = op.getOperands_()[1 - i], root;
    if (auto rsqrt = scalarOp(inverse, ElementKind::Rsqrt))
      root = rsqrt.getOperands_()[0];
    else if (auto reciprocal = scalarOp(inverse, ElementKind::Reciprocal))
      if (auto sqrt = scalarOp(reciprocal.getOperands_()[0], ElementKind::Sqrt))
        root = sqrt.getOperands_()[0];
    if (root && matchQuotient(op, x, root, norm, miss))
      return true;
  }
  return false;
}

struct FormNorm : OpRewritePattern<llm::ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ElementwiseOp op, PatternRewriter &rewriter) const override {
    NormMatch norm;
    NearMiss miss;
    if (!matchNorm(op, norm, miss))
      return failure();
    auto axis = rewriter.getI64IntegerAttr(norm.axis);
    auto epsilon = rewriter.getF64FloatAttr(norm.epsilon);
    if (norm.centered)
      rewriter.replaceOpWithNewOp<llm::LayerNormOp>(op, op.getType(), norm.input, Value(), Value(),
                                                    axis, epsilon);
    else
      rewriter.replaceOpWithNewOp<llm::RmsNormOp>(op, op.getType(), norm.input, Value(), axis,
                                                  epsilon);
    return success();
  }
};

/// `value` as a scale or bias of a norm of `type` from `axis` on: reshaped where it only lacks
/// leading dimensions of size 1. Null when it has other dimensions.
Value trailing(Value value, Type type, int64_t axis, PatternRewriter &rewriter) {
  SmallVector<AffineExpr> whole = llm::dimsOf(type), dims = llm::dimsOf(value.getType());
  ArrayRef<AffineExpr> wanted = ArrayRef(whole).drop_front(axis);
  if (dims.size() < wanted.size() || ArrayRef(dims).take_back(wanted.size()) != wanted ||
      elementTypeOf(value) != cast<RankedTensorType>(type).getElementType())
    return {};
  if (dims.size() == wanted.size())
    return value;
  for (AffineExpr dim : ArrayRef(dims).drop_back(wanted.size()))
    if (!llm::isConstant(dim, 1))
      return {};
  return llm::ReshapeOp::create(rewriter, value.getLoc(),
                                llm::tensorOf(wanted, elementTypeOf(value)), value);
}

/// norm(x) * w, or norm(x) + b.
template <typename Norm> struct AddParameter : OpRewritePattern<llm::ElementwiseOp> {
  using OpRewritePattern<llm::ElementwiseOp>::OpRewritePattern;
  static constexpr bool kHasBias = std::is_same_v<Norm, llm::LayerNormOp>;

  LogicalResult matchAndRewrite(llm::ElementwiseOp op, PatternRewriter &rewriter) const override {
    bool scales = op.getKind() == ElementKind::Mul;
    if (!scales && (!kHasBias || op.getKind() != ElementKind::Add))
      return failure();
    for (unsigned i : {0, 1}) {
      auto norm = op.getOperands_()[i].template getDefiningOp<Norm>();
      if (!norm || norm.getType() != op.getType() || !norm->hasOneUse())
        continue;
      Value scale = norm.getScale(), bias;
      if constexpr (kHasBias)
        bias = norm.getBias();
      if (bias || (scales && scale))
        continue;
      rewriter.setInsertionPoint(op);
      Value parameter = trailing(op.getOperands_()[1 - i], op.getType(), norm.getAxis(), rewriter);
      if (!parameter)
        continue;
      (scales ? scale : bias) = parameter;
      if constexpr (kHasBias)
        rewriter.replaceOpWithNewOp<llm::LayerNormOp>(op, op.getType(), norm.getInput(), scale,
                                                      bias, norm.getAxisAttr(),
                                                      norm.getEpsilonAttr());
      else
        rewriter.replaceOpWithNewOp<llm::RmsNormOp>(op, op.getType(), norm.getInput(), scale,
                                                    norm.getAxisAttr(), norm.getEpsilonAttr());
      return success();
    }
    return failure();
  }
};

/// 16 bits -> f32 -> norm -> 16 bits: a norm computes in f32 anyway.
struct DropCasts : OpRewritePattern<llm::ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementKind::Cast)
      return failure();
    Operation *norm = op.getOperands_()[0].getDefiningOp();
    if (!norm || !isa<llm::RmsNormOp, llm::LayerNormOp>(norm) || norm->getNumOperands() != 1 ||
        !norm->hasOneUse() || !elementTypeOf(norm->getResult(0)).isF32())
      return failure();
    auto widened = scalarOp(norm->getOperand(0), ElementKind::Cast);
    if (!widened || widened.getOperands_()[0].getType() != op.getType() ||
        !isa<FloatType>(elementTypeOf(op)))
      return failure();
    Operation *narrow = rewriter.clone(*norm);
    narrow->setOperand(0, widened.getOperands_()[0]);
    narrow->getResult(0).setType(op.getType());
    rewriter.replaceOp(op, narrow->getResults());
    return success();
  }
};

struct RecoverNormsPass : impl::RecoverNormsBase<RecoverNormsPass> {
  using RecoverNormsBase::RecoverNormsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FormNorm, AddParameter<llm::RmsNormOp>, AddParameter<llm::LayerNormOp>, DropCasts>(
        &getContext());
    // Where the rewriter stops early, less is recovered.
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
    getOperation()->walk([&](Operation *op) {
      numRecovered += isa<llm::RmsNormOp, llm::LayerNormOp>(op);
      auto elementwise = dyn_cast<llm::ElementwiseOp>(op);
      NormMatch norm;
      NearMiss miss;
      if (remarks && elementwise && !matchNorm(elementwise, norm, miss))
        remark(miss, "a norm");
    });
  }
};

} // namespace
} // namespace llmc
