// SPDX-License-Identifier: Apache-2.0
//
// Canonicalization of the `llm` ops: every way to spell the same thing becomes
// one, so that later passes match one form. No pattern changes a result's type
// or any of its values, special floats included, except that pow(x, 0.5) is
// the square root.
#include "compiler/ir/llm/Dims.h"
#include "compiler/ir/llm/LlmDialect.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace llmc::llm {
namespace {

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

DenseElementsAttr splatOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return elements && elements.isSplat() && elements.getNumElements() > 0 ? elements
                                                                         : DenseElementsAttr();
}

/// The value of a constant whose elements are all equal. Zero keeps its sign.
std::optional<double> splatNumber(Value value) {
  DenseElementsAttr splat = splatOf(value);
  if (!splat)
    return std::nullopt;
  if (isa<FloatType>(splat.getElementType())) {
    APFloat number = splat.getSplatValue<APFloat>();
    bool lossy;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return number.convertToDouble();
  }
  if (!splat.getElementType().isIntOrIndex())
    return std::nullopt;
  APInt number = splat.getSplatValue<APInt>();
  if (number.getBitWidth() == 1)
    return double(number.getZExtValue());
  return double(number.getSExtValue());
}

bool isNumber(Value value, double number) {
  std::optional<double> splat = splatNumber(value);
  return splat && *splat == number && std::signbit(*splat) == std::signbit(number);
}

bool isFloat(Value value) {
  return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
}

/// Larger constants, if an output, would fill the bundle.
constexpr int64_t kMaxSplat = 65536;

/// Shape ops on constants with one value give such a constant again.
template <typename Op> struct MoveSplat : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    DenseElementsAttr splat = splatOf(op->getOperand(0));
    auto type = cast<RankedTensorType>(op.getType());
    if (!splat || !type.hasStaticShape() || type.getNumElements() > kMaxSplat)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(op, splat.resizeSplat(type));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// The operand that `op` always equals, or null.
Value neutralOperand(ElementwiseOp op) {
  OperandRange x = op.getOperands_();
  auto innerOf = [&](ElementKind kind) -> Value {
    auto inner = x[0].getDefiningOp<ElementwiseOp>();
    return inner && inner.getKind() == kind ? inner.getOperands_()[0] : Value();
  };
  switch (op.getKind()) {
  case ElementKind::Cast:
    return x[0];
  case ElementKind::Neg:
  case ElementKind::Not:
    return innerOf(op.getKind());
  case ElementKind::Add: // 0.0 would turn -0.0 into 0.0
    return isNumber(x[1], isFloat(op) ? -0.0 : 0.0)   ? x[0]
           : isNumber(x[0], isFloat(op) ? -0.0 : 0.0) ? x[1]
                                                      : Value();
  case ElementKind::Sub:
    return isNumber(x[1], 0.0) ? x[0] : Value();
  case ElementKind::Mul:
    return isNumber(x[1], 1.0) ? x[0] : isNumber(x[0], 1.0) ? x[1] : Value();
  case ElementKind::Div:
  case ElementKind::Pow:
    return isNumber(x[1], 1.0) ? x[0] : Value();
  case ElementKind::And:
  case ElementKind::Or: {
    if (!cast<RankedTensorType>(op.getType()).getElementType().isInteger(1))
      return {};
    double neutral = op.getKind() == ElementKind::And;
    if (x[0] == x[1])
      return x[0];
    return isNumber(x[1], neutral) ? x[0] : isNumber(x[0], neutral) ? x[1] : Value();
  }
  case ElementKind::Select:
    if (std::optional<double> condition = splatNumber(x[0]))
      return *condition != 0 ? x[1] : x[2];
    return x[1] == x[2] ? x[1] : Value();
  default:
    return {};
  }
}

struct DropNeutral : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    Value same = neutralOperand(op);
    auto type = cast<RankedTensorType>(op.getType());
    if (!same || cast<RankedTensorType>(same.getType()).getElementType() != type.getElementType())
      return failure();
    if (same.getType() == type)
      rewriter.replaceOp(op, same);
    else
      rewriter.replaceOpWithNewOp<BroadcastOp>(op, type, same);
    return success();
  }
};

struct SimplifyPower : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementKind::Pow || op.getOperands_()[0].getType() != op.getType())
      return failure();
    Value x = op.getOperands_()[0], exponent = op.getOperands_()[1];
    if (isNumber(exponent, 2.0))
      rewriter.replaceOpWithNewOp<ElementwiseOp>(op, op.getType(), ElementKind::Mul,
                                                 ValueRange{x, x});
    else if (isFloat(op) && isNumber(exponent, 0.5))
      rewriter.replaceOpWithNewOp<ElementwiseOp>(op, op.getType(), ElementKind::Sqrt,
                                                 ValueRange{x});
    else
      return failure();
    return success();
  }
};

/// 1 / sqrt(x), however the reciprocal is spelled. Where sqrt(x) would be rounded to 16 bits the
/// two aren't the same.
struct FormRsqrt : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    Value root;
    if (op.getKind() == ElementKind::Reciprocal)
      root = op.getOperands_()[0];
    else if (op.getKind() == ElementKind::Div && isNumber(op.getOperands_()[0], 1.0))
      root = op.getOperands_()[1];
    auto sqrt = root ? root.getDefiningOp<ElementwiseOp>() : ElementwiseOp();
    if (!sqrt || sqrt.getKind() != ElementKind::Sqrt || sqrt.getType() != op.getType() ||
        cast<RankedTensorType>(op.getType()).getElementTypeBitWidth() < 32)
      return failure();
    rewriter.replaceOpWithNewOp<ElementwiseOp>(op, op.getType(), ElementKind::Rsqrt,
                                               sqrt.getOperands_());
    return success();
  }
};

/// A broadcast operand of an op that broadcasts by itself, as long as the result keeps its shape.
struct DropBroadcast : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    SmallVector<AffineExpr> wanted = dimsOf(op.getType());
    for (OpOperand &operand : op->getOpOperands()) {
      auto broadcast = operand.get().getDefiningOp<BroadcastOp>();
      if (!broadcast)
        continue;
      SmallVector<bool> reached(wanted.size());
      for (auto [i, dim] : llvm::enumerate(wanted))
        reached[i] = isConstant(dim, 1);
      for (OpOperand &other : op->getOpOperands()) {
        Value value = &other == &operand ? broadcast.getInput() : other.get();
        SmallVector<AffineExpr> dims = dimsOf(value.getType());
        size_t skipped = wanted.size() - dims.size();
        for (auto [i, dim] : llvm::enumerate(dims))
          reached[skipped + i] |= dim == wanted[skipped + i];
      }
      if (llvm::is_contained(reached, false))
        continue;
      rewriter.modifyOpInPlace(op, [&] { operand.set(broadcast.getInput()); });
      return success();
    }
    return failure();
  }
};

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

struct MergeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t p : op.getPermutation())
      permutation.push_back(inner.getPermutation()[p]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), inner.getInput(), permutation);
    return success();
  }
};

/// Moving dimensions of size 1 moves no element.
struct TransposeToReshape : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    SmallVector<AffineExpr> dims = dimsOf(op.getInput().getType());
    int64_t last = -1;
    for (int64_t p : op.getPermutation()) {
      if (isConstant(dims[p], 1))
        continue;
      if (p < last)
        return failure();
      last = p;
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};

struct MergeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<SliceOp>();
    if (!inner)
      return failure();
    SmallVector<AffineExpr> starts;
    SmallVector<int64_t> steps;
    for (auto [outerStart, outerStep, innerStart, innerStep] :
         llvm::zip_equal(op.getStarts().getExprs(), op.getSteps(), inner.getStarts().getExprs(),
                         inner.getSteps())) {
      starts.push_back(canonical(innerStart + outerStart * innerStep));
      steps.push_back(outerStep * innerStep);
    }
    rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), inner.getInput(),
                                         DimsAttr::get(op.getContext(), starts), steps);
    return success();
  }
};

struct SimplifyConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> inputs;
    for (Value input : op.getInputs())
      if (!isConstant(dimsOf(input.getType())[op.getAxis()], 0))
        inputs.push_back(input);
    if (inputs.size() == 1 && inputs[0].getType() == op.getType()) {
      rewriter.replaceOp(op, inputs[0]);
      return success();
    }
    if (inputs.empty() || inputs.size() == op.getInputs().size())
      return failure();
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), op.getAxis(), inputs);
    return success();
  }
};

struct SimplifyBroadcast : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op, PatternRewriter &rewriter) const override {
    if (auto inner = op.getInput().getDefiningOp<BroadcastOp>()) {
      rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), inner.getInput());
      return success();
    }
    // Leading dimensions of size 1 repeat nothing.
    SmallVector<AffineExpr> from = dimsOf(op.getInput().getType()), to = dimsOf(op.getType());
    size_t added = to.size() - from.size();
    if (added == 0 || ArrayRef(to).drop_front(added) != ArrayRef(from) ||
        !llvm::all_of(ArrayRef(to).take_front(added),
                      [](AffineExpr dim) { return isConstant(dim, 1); }))
      return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Contraction
//===----------------------------------------------------------------------===//

/// A right side whose last two dimensions are exchanged is read the other way.
struct AbsorbTranspose : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getRhs().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    int64_t rank = permutation.size();
    for (auto [i, p] : llvm::enumerate(permutation)) {
      int64_t swapped = int64_t(i) < rank - 2 ? int64_t(i) : 2 * rank - 3 - int64_t(i);
      if (p != swapped)
        return failure();
    }
    rewriter.replaceOpWithNewOp<MatmulOp>(op, op.getType(), op.getLhs(), transpose.getInput(),
                                          !op.getTransposeRhs(), op.getQuantizedAttr());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// The size, an expression, that all elements of an integer tensor are.
AffineExpr uniformSize(Value value, int depth = 0) {
  constexpr int kMaxDepth = 24;
  MLIRContext *context = value.getContext();
  Operation *op = value.getDefiningOp();
  auto type = cast<RankedTensorType>(value.getType());
  if (!op || depth == kMaxDepth || !type.getElementType().isInteger() ||
      type.getElementTypeBitWidth() < 32)
    return {};
  if (DenseElementsAttr splat = splatOf(value))
    return getAffineConstantExpr(splat.getSplatValue<APInt>().getSExtValue(), context);
  if (auto sizes = dyn_cast<SizesOp>(op))
    return llvm::all_equal(sizes.getValues().getExprs()) && !sizes.getValues().getExprs().empty()
               ? sizes.getValues().getExprs().front()
               : AffineExpr();
  if (isa<ReshapeOp, BroadcastOp>(op))
    return uniformSize(op->getOperand(0), depth + 1);
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    AffineExpr each = reduce.getKind() == ReduceKind::Sum
                          ? uniformSize(reduce.getInput(), depth + 1)
                          : AffineExpr();
    SmallVector<AffineExpr> dims = dimsOf(reduce.getInput().getType());
    for (int64_t axis : reduce.getAxes())
      each = each ? canonical(each * dims[axis]) : each;
    return each;
  }
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise || elementwise.getOperands_().size() > 2)
    return {};
  SmallVector<AffineExpr, 2> x;
  for (Value operand : elementwise.getOperands_()) {
    AffineExpr expr = uniformSize(operand, depth + 1);
    if (!expr)
      return {};
    x.push_back(expr);
  }
  switch (elementwise.getKind()) {
  case ElementKind::Cast:
    return x[0];
  case ElementKind::Add:
    return canonical(x[0] + x[1]);
  case ElementKind::Sub:
    return canonical(x[0] - x[1]);
  case ElementKind::Mul:
    return canonical(x[0] * x[1]);
  case ElementKind::Max:
    return provablyNonNegative(canonical(x[0] - x[1]))   ? x[0]
           : provablyNonNegative(canonical(x[1] - x[0])) ? x[1]
                                                         : AffineExpr();
  default:
    return {};
  }
}

/// A bound that sizes decide.
struct FoldSizeBound : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementKind::Max)
      return failure();
    AffineExpr size = uniformSize(op.getResult());
    if (!size)
      return failure();
    Type element = cast<RankedTensorType>(op.getType()).getElementType();
    auto sizes = SizesOp::create(rewriter, op.getLoc(), RankedTensorType::get({}, element),
                                 DimsAttr::get(op.getContext(), {size}));
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), sizes);
    return success();
  }
};

/// Pasts that all count whole.
struct KvConcatToConcat : OpRewritePattern<KvConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(KvConcatOp op, PatternRewriter &rewriter) const override {
    AffineExpr past = dimsOf(op.getPast().getType())[2], fresh = dimsOf(op.getFresh().getType())[2];
    if (uniformSize(op.getLengths()) != past || dimsOf(op.getType())[2] != canonical(past + fresh))
      return failure();
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), 2,
                                          ValueRange{op.getPast(), op.getFresh()});
    return success();
  }
};

} // namespace

void ElementwiseOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropNeutral, SimplifyPower, FormRsqrt, DropBroadcast, FoldSizeBound>(context);
}

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<ReshapeOp>>(context);
}

void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<BroadcastOp>, SimplifyBroadcast>(context);
}

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<TransposeOp>, MergeTransposes, TransposeToReshape>(context);
}

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<SliceOp>, MergeSlices>(context);
}

void ConcatOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<SimplifyConcat>(context);
}

void KvConcatOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<KvConcatToConcat>(context);
}

void MatmulOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<AbsorbTranspose>(context);
}

} // namespace llmc::llm
