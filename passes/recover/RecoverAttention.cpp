// SPDX-License-Identifier: Apache-2.0
//
// Attention from products and a softmax, rotary embedding from slices and
// tables. Scales are folded into one number, repeated heads become groups, and
// transposes around an attention go where nothing needs them.
#include "passes/Passes.h"
#include "passes/recover/GraphMatch.h"
#include "passes/recover/MaskPredicate.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

namespace llmc {

#define GEN_PASS_DEF_RECOVERATTENTION
#include "passes/Passes.h.inc"

using namespace mlir;
using llm::ElementKind;

namespace {

constexpr int64_t kSwapHeads[] = {0, 2, 1, 3};
constexpr int64_t kSwapLast[] = {0, 1, 3, 2};

llm::TransposeOp transposeOf(Value value, ArrayRef<int64_t> permutation) {
  auto transpose = value.getDefiningOp<llm::TransposeOp>();
  return transpose && transpose.getPermutation() == permutation ? transpose : llm::TransposeOp();
}

Value transposed(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> permutation) {
  SmallVector<AffineExpr> from = llm::dimsOf(value.getType()), dims;
  for (int64_t p : permutation)
    dims.push_back(from[p]);
  return llm::TransposeOp::create(builder, loc, llm::tensorOf(dims, elementTypeOf(value)), value,
                                  permutation);
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

/// Whether both halves of the last dimension are the same.
bool isDoubled(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 12)
    return false;
  int64_t last = rankOf(value) - 1;
  AffineExpr width = llm::dimsOf(value.getType()).back();
  if (auto concat = dyn_cast<llm::ConcatOp>(op)) {
    if (int64_t(concat.getAxis()) == last)
      return concat.getInputs().size() == 2 && concat.getInputs()[0] == concat.getInputs()[1];
    return ::llvm::all_of(concat.getInputs(), [&](Value x) { return isDoubled(x, depth + 1); });
  }
  if (isa<llm::ElementwiseOp>(op))
    return ::llvm::all_of(op->getOperands(), [&](Value x) {
      return rankOf(x) == 0 || llm::isConstant(llm::dimsOf(x.getType()).back(), 1) ||
             isDoubled(x, depth + 1);
    });
  if (isa<llm::ReshapeOp, llm::BroadcastOp>(op))
    return rankOf(op->getOperand(0)) > 0 &&
           llm::dimsOf(op->getOperand(0).getType()).back() == width &&
           isDoubled(op->getOperand(0), depth + 1);
  if (auto transpose = dyn_cast<llm::TransposeOp>(op))
    return transpose.getPermutation().back() == last && isDoubled(transpose.getInput(), depth + 1);
  return false;
}

/// The box [start, start + size) of the last dimension of some value, all of the others.
struct LastSlice {
  Value of;
  int64_t start = 0, size = 0;
};
std::optional<LastSlice> lastSlice(Value value) {
  auto slice = value.getDefiningOp<llm::SliceOp>();
  if (!slice)
    return std::nullopt;
  SmallVector<AffineExpr> from = llm::dimsOf(slice.getInput().getType()),
                          to = llm::dimsOf(slice.getType());
  for (auto [i, start, step] : llvm::enumerate(slice.getStarts().getExprs(), slice.getSteps())) {
    if (step != 1)
      return std::nullopt;
    if (i + 1 < from.size() && (!llm::isConstant(start, 0) || from[i] != to[i]))
      return std::nullopt;
  }
  std::optional<int64_t> start = llm::constantOf(slice.getStarts().getExprs().back()),
                         size = llm::constantOf(to.back());
  return start && size ? std::optional(LastSlice{slice.getInput(), *start, *size}) : std::nullopt;
}

/// `x` when `value` is [-second half of x, first half of x].
Value rotatedHalf(Value value) {
  auto concat = value.getDefiningOp<llm::ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || int64_t(concat.getAxis()) != rankOf(value) - 1)
    return {};
  auto neg = scalarOp(concat.getInputs()[0], ElementKind::Neg);
  std::optional<LastSlice> second = neg ? lastSlice(neg.getOperands_()[0]) : std::nullopt,
                           first = lastSlice(concat.getInputs()[1]);
  if (!first || !second || first->of != second->of || first->start != 0 ||
      first->size != second->size || second->start != first->size ||
      !llm::isConstant(llm::dimsOf(first->of.getType()).back(), 2 * first->size))
    return {};
  return first->of;
}

/// x * cos + rotated(x) * sin.
struct FormRope : OpRewritePattern<llm::ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementKind::Add)
      return failure();
    for (unsigned i : {0, 1}) {
      auto turned = scalarOp(op.getOperands_()[i], ElementKind::Mul),
           kept = scalarOp(op.getOperands_()[1 - i], ElementKind::Mul);
      if (!turned || !kept)
        return failure();
      for (unsigned j : {0, 1}) {
        Value x = rotatedHalf(turned.getOperands_()[j]);
        if (!x || x.getType() != op.getType() || !isa<FloatType>(elementTypeOf(x)))
          continue;
        Value sin = turned.getOperands_()[1 - j];
        for (unsigned k : {0, 1}) {
          Value cos = kept.getOperands_()[1 - k];
          if (kept.getOperands_()[k] != x || !isDoubled(cos) || !isDoubled(sin))
            continue;
          rewriter.replaceOpWithNewOp<llm::RopeOp>(op, op.getType(), x, half(rewriter, cos, op),
                                                   half(rewriter, sin, op), false);
          return success();
        }
      }
    }
    return failure();
  }

private:
  /// The first half of a table, made beside it so that all layers share it.
  static Value half(PatternRewriter &rewriter, Value table, llm::ElementwiseOp op) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointAfterValue(table);
    SmallVector<AffineExpr> dims = llm::dimsOf(table.getType());
    dims.back() = rewriter.getAffineConstantExpr(*llm::constantOf(dims.back()) / 2);
    SmallVector<AffineExpr> starts(dims.size(), rewriter.getAffineConstantExpr(0));
    return llm::SliceOp::create(rewriter, op.getLoc(), llm::tensorOf(dims, elementTypeOf(table)),
                                table, llm::DimsAttr::get(op.getContext(), starts),
                                SmallVector<int64_t>(dims.size(), 1));
  }
};

/// A rotary embedding of the first elements, the rest unchanged.
struct FormPartialRope : OpRewritePattern<llm::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ConcatOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 2 || int64_t(op.getAxis()) != rankOf(op) - 1)
      return failure();
    auto rope = op.getInputs()[0].getDefiningOp<llm::RopeOp>();
    std::optional<LastSlice> rest = lastSlice(op.getInputs()[1]),
                             rotated = rope ? lastSlice(rope.getInput()) : std::nullopt;
    if (!rest || !rotated || rest->of != rotated->of || rotated->start != 0 ||
        rest->start != rotated->size || rest->of.getType() != op.getType() ||
        !llm::isConstant(llm::dimsOf(rope.getCos().getType()).back(), rotated->size / 2))
      return failure();
    rewriter.replaceOpWithNewOp<llm::RopeOp>(op, op.getType(), rest->of, rope.getCos(),
                                             rope.getSin(), rope.getInterleaved());
    return success();
  }
};

/// Exchange of heads and sequence after a rotary embedding rather than before: it then meets the
/// attention or the cache, which read either order.
struct SinkTranspose : OpRewritePattern<llm::RopeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::RopeOp op, PatternRewriter &rewriter) const override {
    auto transpose = transposeOf(op.getInput(), kSwapHeads);
    if (!transpose || rankOf(op.getCos()) != 4 || rankOf(op.getSin()) != 4)
      return failure();
    auto swapped = [&](Value table) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointAfterValue(table);
      return transposed(rewriter, op.getLoc(), table, kSwapHeads);
    };
    Value cos = swapped(op.getCos()), sin = swapped(op.getSin());
    auto rope = llm::RopeOp::create(rewriter, op.getLoc(), transpose.getInput().getType(),
                                    transpose.getInput(), cos, sin, op.getInterleaved());
    rewriter.replaceOp(op, transposed(rewriter, op.getLoc(), rope, kSwapHeads));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

struct AttentionMatch {
  Value query, key, value, mask;
  bool keyIsTransposed = false; // key is (.., size, keys)
  llm::ElementwiseOp hides;     // a select between scores and `hidden`, instead of a mask
  double hidden = 0;
  double scale = 1;
  std::optional<double> softcap;
};

Value stripCasts(Value value) {
  while (auto cast = scalarOp(value, ElementKind::Cast)) {
    if (!isa<FloatType>(elementTypeOf(cast.getOperands_()[0])))
      break;
    value = cast.getOperands_()[0];
  }
  return value;
}

/// `value` without products with constants, which go to `scale`.
Value stripScale(Value value, double &scale) {
  for (int i = 0; i < 4; ++i) {
    if (auto mul = scalarOp(value, ElementKind::Mul)) {
      bool found = false;
      for (unsigned k : {0, 1})
        if (std::optional<double> number = numberOf(mul.getOperands_()[k]);
            number && mul.getOperands_()[1 - k].getType() == mul.getType()) {
          scale *= *number;
          value = mul.getOperands_()[1 - k];
          found = true;
          break;
        }
      if (found)
        continue;
    }
    auto div = scalarOp(value, ElementKind::Div);
    std::optional<double> number = div ? numberOf(div.getOperands_()[1]) : std::nullopt;
    if (!number || *number == 0 || div.getOperands_()[0].getType() != div.getType())
      break;
    scale /= *number;
    value = div.getOperands_()[0];
  }
  return value;
}

/// The (batch, kv_heads, keys, size) tensor whose heads are repeated to give `value`, or `value`.
Value withoutRepeats(Value value) {
  auto outer = value.getDefiningOp<llm::ReshapeOp>();
  auto broadcast = outer ? outer.getInput().getDefiningOp<llm::BroadcastOp>() : llm::BroadcastOp();
  auto inner = broadcast ? broadcast.getInput().getDefiningOp<llm::ReshapeOp>() : llm::ReshapeOp();
  if (!inner || rankOf(broadcast) != 5 || rankOf(inner.getInput()) != 4)
    return value;
  SmallVector<AffineExpr> source = llm::dimsOf(inner.getInput().getType()),
                          one = llm::dimsOf(inner.getType()),
                          many = llm::dimsOf(broadcast.getType()),
                          merged = llm::dimsOf(outer.getType());
  bool grouped = one[0] == source[0] && one[1] == source[1] && llm::isConstant(one[2], 1) &&
                 one[3] == source[2] && one[4] == source[3] && many[0] == one[0] &&
                 many[1] == one[1] && many[3] == one[3] && many[4] == one[4] &&
                 merged[0] == many[0] && merged[1] == llm::canonical(many[1] * many[2]) &&
                 merged[2] == many[3] && merged[3] == many[4];
  return grouped ? inner.getInput() : value;
}

/// The keys of a product's right side.
void matchKey(llm::MatmulOp product, AttentionMatch &match) {
  Value key = stripScale(product.getRhs(), match.scale);
  if (!product.getTransposeRhs()) {
    auto transpose = transposeOf(key, kSwapLast);
    // [b * h, t, d] transposed to [b * h, d, t] between reshapes.
    auto outer = key.getDefiningOp<llm::ReshapeOp>();
    auto flat = outer ? transposeOf(outer.getInput(), {0, 2, 1}) : llm::TransposeOp();
    auto inner = flat ? flat.getInput().getDefiningOp<llm::ReshapeOp>() : llm::ReshapeOp();
    if (transpose) {
      key = transpose.getInput();
    } else if (inner && rankOf(inner.getInput()) == 4 && rankOf(outer) == 4) {
      SmallVector<AffineExpr> source = llm::dimsOf(inner.getInput().getType()),
                              result = llm::dimsOf(outer.getType());
      std::swap(result[2], result[3]);
      match.keyIsTransposed = source != result;
      key = source == result ? Value(inner.getInput()) : key;
    } else {
      match.keyIsTransposed = true;
    }
  }
  match.key = match.keyIsTransposed ? key : withoutRepeats(stripScale(key, match.scale));
}

/// Reads what lies between the softmax and the product of queries and keys.
bool matchScores(Value scores, AttentionMatch &match, NearMiss &miss) {
  scores = stripCasts(scores);
  Type type = scores.getType();
  if (auto select = scalarOp(scores, ElementKind::Select)) {
    // Hidden scores are replaced by a very low number: as good as adding it.
    std::optional<double> low = numberOf(select.getOperands_()[2]);
    if (!low || *low > -1e4 || select.getOperands_()[1].getType() != type)
      return miss.stop(select, "a condition chooses scores, but hidden ones aren't very low");
    match.hides = select;
    match.hidden = *low;
    scores = select.getOperands_()[1];
  } else if (auto add = scalarOp(scores, ElementKind::Add)) {
    // The side that is a product of queries and keys; the other one is the mask.
    for (unsigned i : {0, 1}) {
      double ignored = 1;
      Value side = stripScale(stripCasts(add.getOperands_()[i]), ignored);
      if (add.getOperands_()[i].getType() != type ||
          !(side.getDefiningOp<llm::MatmulOp>() || scalarOp(side, ElementKind::Tanh)))
        continue;
      match.mask = add.getOperands_()[1 - i];
      scores = add.getOperands_()[i];
      break;
    }
    if (!match.mask)
      return miss.stop(add, "what is added to the scores isn't a mask on a product");
  }
  scores = stripScale(stripCasts(scores), match.scale);
  if (auto tanh = scalarOp(scores, ElementKind::Tanh)) {
    double inner = 1;
    Value capped = stripScale(tanh.getOperands_()[0], inner);
    // c * tanh(r * s) is a cap of c on scores of scale r * c.
    match.softcap = match.scale;
    match.scale = inner * *match.softcap;
    scores = capped;
  }
  auto product = stripCasts(scores).getDefiningOp<llm::MatmulOp>();
  if (!product)
    return miss.stop(scores.getDefiningOp(), "the scores aren't a product of queries and keys");
  if (rankOf(product.getLhs()) != 4 || rankOf(product.getRhs()) != 4)
    return miss.stop(product, "queries and keys don't have four dimensions");
  match.query = stripScale(product.getLhs(), match.scale);
  matchKey(product, match);
  return true;
}

bool matchAttention(llm::MatmulOp op, AttentionMatch &match, NearMiss &miss) {
  if (op.getTransposeRhs() || rankOf(op) != 4)
    return false;
  Value weights = stripCasts(op.getLhs());
  if (auto select = scalarOp(weights, ElementKind::Select)) {
    auto isNan = scalarOp(select.getOperands_()[0], ElementKind::IsNan);
    if (!isNan || isNan.getOperands_()[0] != select.getOperands_()[2] ||
        numberOf(select.getOperands_()[1]) != 0.0)
      return false;
    weights = stripCasts(select.getOperands_()[2]);
  }
  auto softmax = weights.getDefiningOp<llm::SoftmaxOp>();
  if (!softmax || softmax.getLog() || rankOf(softmax) != 4)
    return false;
  if (softmax.getAxis() != 3)
    return miss.stop(softmax, "the softmax isn't over the keys");
  if (!matchScores(softmax.getInput(), match, miss))
    return false;
  match.value = withoutRepeats(op.getRhs());
  SmallVector<AffineExpr> query = llm::dimsOf(match.query.getType()),
                          key = llm::dimsOf(match.key.getType()),
                          value = llm::dimsOf(match.value.getType());
  if (match.keyIsTransposed)
    std::swap(key[2], key[3]);
  if (key[1] != value[1])
    return miss.stop(op, "keys and values have different heads");
  std::optional<int64_t> heads = llm::constantOf(query[1]), groups = llm::constantOf(key[1]);
  if (query[0] != key[0] || key[0] != value[0] || key[2] != value[2] || query[3] != key[3] ||
      !heads || !groups || *groups == 0 || *heads % *groups != 0)
    return miss.stop(op, "the shapes of query, key and value don't belong together");
  Type element = elementTypeOf(op);
  if (elementTypeOf(match.query) != element || elementTypeOf(match.key) != element ||
      elementTypeOf(match.value) != element || !isa<FloatType>(element) || element.isF64())
    return miss.stop(op, "query, key and value have different element types");
  if (match.mask && rankOf(match.mask) > 4)
    return miss.stop(op, "the mask has more than four dimensions");
  return true;
}

struct FormAttention : OpRewritePattern<llm::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::MatmulOp op, PatternRewriter &rewriter) const override {
    AttentionMatch match;
    NearMiss miss;
    if (!matchAttention(op, match, miss))
      return failure();
    Value mask = match.hides ? maskOf(rewriter, match) : match.mask;
    Value key =
        match.keyIsTransposed ? transposed(rewriter, op.getLoc(), match.key, kSwapLast) : match.key;
    if (mask && elementTypeOf(mask) != elementTypeOf(op))
      mask = llm::ElementwiseOp::create(
          rewriter, op.getLoc(), llm::tensorOf(llm::dimsOf(mask.getType()), elementTypeOf(op)),
          ElementKind::Cast, mask);
    if (mask && rankOf(mask) < 4) {
      SmallVector<AffineExpr> dims = llm::dimsOf(mask.getType());
      while (dims.size() < 4)
        dims.insert(dims.begin(), rewriter.getAffineConstantExpr(1));
      mask = llm::ReshapeOp::create(rewriter, op.getLoc(), llm::tensorOf(dims, elementTypeOf(mask)),
                                    mask);
    }
    rewriter.replaceOpWithNewOp<llm::AttentionOp>(
        op, op.getType(), match.query, key, match.value, mask,
        rewriter.getF64FloatAttr(match.scale), llm::DimsAttr(), IntegerAttr(),
        match.softcap ? rewriter.getF64FloatAttr(*match.softcap) : FloatAttr(), llm::DimsAttr(),
        UnitAttr());
    return success();
  }

private:
  /// What to add to scores instead of choosing between them and a very low number.
  static Value maskOf(OpBuilder &builder, const AttentionMatch &match) {
    Location loc = match.hides->getLoc();
    Type element = elementTypeOf(match.hides->getResult(0));
    auto scalar = [&](double number) -> Value {
      return llm::ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(RankedTensorType::get({}, element),
                                 Attribute(builder.getFloatAttr(element, number))));
    };
    Value condition = match.hides->getOperand(0);
    return llm::ElementwiseOp::create(
        builder, loc, llm::tensorOf(llm::dimsOf(condition.getType()), element), ElementKind::Select,
        ValueRange{condition, scalar(0), scalar(match.hidden)});
  }
};

/// Repeated heads before an attention are groups.
struct GroupHeads : OpRewritePattern<llm::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::AttentionOp op, PatternRewriter &rewriter) const override {
    if (isa<llm::KvType>(op.getKey().getType()))
      return failure();
    Value key = withoutRepeats(op.getKey()), value = withoutRepeats(op.getValue());
    if (key == op.getKey() || value == op.getValue() ||
        llm::dimsOf(key.getType())[1] != llm::dimsOf(value.getType())[1])
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(key);
      op.getValueMutable().assign(value);
    });
    return success();
  }
};

/// The same mask as `causal` and `window`, where that is proved.
struct ProveMask : OpRewritePattern<llm::AttentionOp> {
  ProveMask(MLIRContext *context, const llm::Symbols &symbols)
      : OpRewritePattern(context), symbols(symbols) {}

  LogicalResult matchAndRewrite(llm::AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getMask() || op.getCausalOffset() || op.getWindow())
      return failure();
    NearMiss miss;
    std::optional<Visibility> see = visibility(op, symbols, miss);
    if (!see)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getMaskMutable().clear();
      if (see->causalOffset)
        op.setCausalOffsetAttr(llm::DimsAttr::get(op.getContext(), {see->causalOffset}));
      if (see->window)
        op.setWindow(*see->window);
    });
    return success();
  }

  static std::optional<Visibility> visibility(llm::AttentionOp op, const llm::Symbols &symbols,
                                              NearMiss &miss) {
    auto query = llm::dimsOf(op.getQuery().getType());
    AffineExpr keys =
        op.getKeys() ? op.getKeys()->getExprs()[0] : llm::dimsOf(op.getKey().getType())[2];
    return proveMask(op.getMask(), query[op.getHeadsLast() ? 1 : 2], keys, symbols, miss);
  }

private:
  const llm::Symbols &symbols;
};

/// Query and result as the products around them have them.
struct HeadsLast : OpRewritePattern<llm::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::AttentionOp op, PatternRewriter &rewriter) const override {
    auto query = transposeOf(op.getQuery(), kSwapHeads);
    if (op.getHeadsLast() || !query)
      return failure();
    SmallVector<AffineExpr> dims = llm::dimsOf(op.getType());
    std::swap(dims[1], dims[2]);
    auto inner = cast<llm::AttentionOp>(rewriter.clone(*op));
    inner.getQueryMutable().assign(query.getInput());
    inner.setHeadsLast(true);
    inner.getResult().setType(llm::tensorOf(dims, elementTypeOf(op)));
    rewriter.replaceOp(op, transposed(rewriter, op.getLoc(), inner, kSwapHeads));
    return success();
  }
};

struct RecoverAttentionPass : impl::RecoverAttentionBase<RecoverAttentionPass> {
  using RecoverAttentionBase::RecoverAttentionBase;

  void runOnOperation() override {
    llm::Symbols symbols(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add<FormRope, FormPartialRope, SinkTranspose, FormAttention, GroupHeads, HeadsLast>(
        &getContext());
    patterns.add<ProveMask>(&getContext(), symbols);
    llm::TransposeOp::getCanonicalizationPatterns(patterns, &getContext());
    // Where the rewriter stops early, less is recovered.
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
    SmallVector<llm::MatmulOp> products;
    getOperation()->walk([&](Operation *op) {
      numAttentions += isa<llm::AttentionOp>(op);
      numRopes += isa<llm::RopeOp>(op);
      if (auto product = dyn_cast<llm::MatmulOp>(op))
        products.push_back(product);
      auto attention = dyn_cast<llm::AttentionOp>(op);
      if (!remarks || !attention || !attention.getMask() || attention.getCausalOffset())
        return;
      NearMiss miss;
      if (!ProveMask::visibility(attention, symbols, miss))
        remark(miss, "a causal mask");
    });
    for (llm::MatmulOp product : products) {
      if (!remarks)
        break;
      AttentionMatch match;
      NearMiss miss;
      if (!matchAttention(product, match, miss))
        remark(miss, "an attention");
    }
  }
};

} // namespace
} // namespace llmc
