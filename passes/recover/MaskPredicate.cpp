// SPDX-License-Identifier: Apache-2.0
//
// Integer tensors are read as linear forms in the positions of query and key,
// booleans as conjunctions of `form >= 0`.
#include "passes/recover/MaskPredicate.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace llmc::llm;

namespace llmc {

namespace {
constexpr int kMaxDepth = 24;
/// Added to a score, this leaves a probability of 0 beside any visible key.
constexpr double kInvisible = -1e4;
} // namespace

//===----------------------------------------------------------------------===//
// Uniform values
//===----------------------------------------------------------------------===//

static std::optional<double> uniform(Value value, int depth) {
  if (std::optional<double> number = numberOf(value))
    return number;
  Operation *op = value.getDefiningOp();
  if (!op || depth == kMaxDepth)
    return std::nullopt;
  // An index outside is an error of the call either way: the ones here count positions.
  if (isa<ReshapeOp, BroadcastOp, TileOp, TransposeOp, SliceOp, GatherOp, GatherNdOp,
          GatherElementsOp>(op))
    return uniform(op->getOperand(0), depth + 1);
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise)
    return std::nullopt;
  SmallVector<double, 3> x;
  for (Value operand : elementwise.getOperands_()) {
    std::optional<double> number = uniform(operand, depth + 1);
    if (!number)
      return std::nullopt;
    x.push_back(*number);
  }
  switch (elementwise.getKind()) {
  case ElementKind::Cast:
    return elementTypeOf(value).isInteger(1)      ? double(x[0] != 0)
           : isa<FloatType>(elementTypeOf(value)) ? x[0]
           : std::fabs(x[0]) < 1e9                ? std::optional(std::trunc(x[0]))
                                                  : std::nullopt;
  case ElementKind::Not:
    return double(x[0] == 0);
  case ElementKind::Add:
    return x[0] + x[1];
  case ElementKind::Sub:
    return x[0] - x[1];
  case ElementKind::Mul:
    return x[0] * x[1];
  case ElementKind::And:
    return elementTypeOf(value).isInteger(1) ? std::optional(double(x[0] != 0 && x[1] != 0))
                                             : std::nullopt;
  case ElementKind::Or:
    return elementTypeOf(value).isInteger(1) ? std::optional(double(x[0] != 0 || x[1] != 0))
                                             : std::nullopt;
  case ElementKind::Equal:
    return double(x[0] == x[1]);
  case ElementKind::Less:
    return double(x[0] < x[1]);
  case ElementKind::LessEqual:
    return double(x[0] <= x[1]);
  case ElementKind::Greater:
    return double(x[0] > x[1]);
  case ElementKind::GreaterEqual:
    return double(x[0] >= x[1]);
  case ElementKind::Select:
    return x[0] != 0 ? x[1] : x[2];
  default:
    return std::nullopt;
  }
}

std::optional<double> uniformNumber(Value value) { return uniform(value, 0); }

//===----------------------------------------------------------------------===//
// Linear forms
//===----------------------------------------------------------------------===//

namespace {

/// base + query * q + key * k.
struct Form {
  AffineExpr base;
  int64_t query = 0, key = 0;
};

enum class Axis { None, Query, Key };
/// Which position each dimension of a value follows; None: dimension of size 1, or not read.
using Axes = SmallVector<Axis, 6>;

class MaskReader {
public:
  MaskReader(AffineExpr queries, AffineExpr keys, const Symbols &symbols, NearMiss &miss)
      : queries(queries), keys(keys), symbols(symbols), miss(miss) {}

  std::optional<Visibility> read(Value mask);

private:
  bool readAdditive(Value value, const Axes &axes, int depth);
  bool readBoolean(Value value, const Axes &axes, bool negated, int depth);
  std::optional<Form> form(Value value, const Axes &axes, int depth);
  /// What `axes` of a result means for an operand that broadcasts to it.
  static Axes broadcastAxes(Value operand, const Axes &axes);
  /// The input of a shape op and its axes; null when the op moves elements otherwise.
  static Value through(Operation *op, const Axes &axes, Axes &inner);

  AffineExpr queries, keys;
  const Symbols &symbols;
  NearMiss &miss;
  SmallVector<Form> conditions; // all >= 0
};

Axes MaskReader::broadcastAxes(Value operand, const Axes &axes) {
  SmallVector<AffineExpr> dims = dimsOf(operand.getType());
  Axes inner(axes.end() - dims.size(), axes.end());
  for (auto [axis, dim] : llvm::zip_equal(inner, dims))
    if (isConstant(dim, 1))
      axis = Axis::None;
  return inner;
}

Value MaskReader::through(Operation *op, const Axes &axes, Axes &inner) {
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    inner = broadcastAxes(broadcast.getInput(), axes);
    return broadcast.getInput();
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    inner.assign(axes.size(), Axis::None);
    for (auto [i, p] : llvm::enumerate(transpose.getPermutation()))
      inner[p] = axes[i];
    return transpose.getInput();
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [start, step] : llvm::zip_equal(slice.getStarts().getExprs(), slice.getSteps()))
      if (!isConstant(start, 0) || step != 1)
        return {};
    inner = axes;
    return slice.getInput();
  }
  auto reshape = dyn_cast<ReshapeOp>(op);
  if (!reshape)
    return {};
  // Only dimensions of size 1 may come and go.
  SmallVector<AffineExpr> from = dimsOf(reshape.getInput().getType()),
                          to = dimsOf(reshape.getType());
  size_t next = 0;
  for (AffineExpr dim : from) {
    if (isConstant(dim, 1)) {
      inner.push_back(Axis::None);
      continue;
    }
    while (next < to.size() && isConstant(to[next], 1))
      ++next;
    if (next == to.size() || to[next] != dim)
      return {};
    inner.push_back(axes[next++]);
  }
  while (next < to.size() && isConstant(to[next], 1))
    ++next;
  return next == to.size() ? reshape.getInput() : Value();
}

std::optional<Form> MaskReader::form(Value value, const Axes &axes, int depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == kMaxDepth)
    return std::nullopt;
  if (std::optional<double> number = numberOf(value))
    return std::fabs(*number) < 1e9 && *number == std::trunc(*number)
               ? std::optional(Form{symbols.constant(int64_t(*number))})
               : std::nullopt;
  if (auto sizes = dyn_cast<SizesOp>(op))
    return sizes.getValues().getExprs().size() == 1
               ? std::optional(Form{sizes.getValues().getExprs()[0]})
               : std::nullopt;
  if (auto iota = dyn_cast<IotaOp>(op)) {
    Form result{iota.getStart().getExprs()[0]};
    (axes[0] == Axis::Query ? result.query : result.key) =
        axes[0] == Axis::None ? 0 : iota.getStep();
    return result;
  }
  Axes inner;
  if (Value input = through(op, axes, inner))
    return form(input, inner, depth + 1);
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise)
    return std::nullopt;
  auto operand = [&](unsigned i) {
    Value x = elementwise.getOperands_()[i];
    return form(x, broadcastAxes(x, axes), depth + 1);
  };
  switch (elementwise.getKind()) {
  case ElementKind::Cast: // positions stay exact in f32 up to 2^24, beyond any context
    return elementTypeOf(elementwise.getOperands_()[0]).isInteger(1) ? std::nullopt : operand(0);
  case ElementKind::Add:
  case ElementKind::Sub: {
    std::optional<Form> a = operand(0), b = a ? operand(1) : std::nullopt;
    if (!b)
      return std::nullopt;
    int64_t sign = elementwise.getKind() == ElementKind::Add ? 1 : -1;
    return Form{canonical(a->base + b->base * sign), a->query + sign * b->query,
                a->key + sign * b->key};
  }
  default:
    return std::nullopt;
  }
}

bool MaskReader::readBoolean(Value value, const Axes &axes, bool negated, int depth) {
  if (std::optional<double> number = uniformNumber(value))
    return (*number != 0) != negated ||
           miss.stop(value.getDefiningOp(), "the mask hides every key");
  Operation *op = value.getDefiningOp();
  if (!op)
    return miss.stop(value.getParentBlock()->getParentOp(),
                     "the mask depends on an input's values");
  if (depth == kMaxDepth)
    return miss.stop(op, "the mask is made of too many ops");
  Axes inner;
  if (Value input = through(op, axes, inner))
    return readBoolean(input, inner, negated, depth + 1);
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise)
    return miss.stop(op, "the mask depends on '" + op->getName().getStringRef() + "'");
  auto operandAxes = [&](unsigned i) { return broadcastAxes(elementwise.getOperands_()[i], axes); };
  ElementKind kind = elementwise.getKind();
  OperandRange x = elementwise.getOperands_();
  switch (kind) {
  case ElementKind::Not:
    return readBoolean(x[0], operandAxes(0), !negated, depth + 1);
  case ElementKind::Cast:
    if (elementTypeOf(x[0]).isInteger(1))
      return readBoolean(x[0], operandAxes(0), negated, depth + 1);
    break;
  case ElementKind::And:
  case ElementKind::Or:
    // A conjunction, or a negated disjunction.
    if ((kind == ElementKind::And) != negated)
      return readBoolean(x[0], operandAxes(0), negated, depth + 1) &&
             readBoolean(x[1], operandAxes(1), negated, depth + 1);
    for (unsigned i : {0, 1})
      if (std::optional<double> number = uniformNumber(x[i])) {
        bool decides = (*number != 0) == (kind == ElementKind::Or);
        if (decides)
          return true; // an element of "visible or …"
        return readBoolean(x[1 - i], operandAxes(1 - i), negated, depth + 1);
      }
    break;
  case ElementKind::Less:
  case ElementKind::LessEqual:
  case ElementKind::Greater:
  case ElementKind::GreaterEqual: {
    std::optional<Form> a = form(x[0], operandAxes(0), depth + 1),
                        b = a ? form(x[1], operandAxes(1), depth + 1) : std::nullopt;
    if (!b)
      break;
    bool lower = kind == ElementKind::Less || kind == ElementKind::LessEqual;
    bool strict = kind == ElementKind::Less || kind == ElementKind::Greater;
    if (negated) {
      lower = !lower;
      strict = !strict;
    }
    if (lower)
      std::swap(a, b); // now a >= b or a > b
    conditions.push_back(
        {canonical(a->base - b->base - int64_t(strict)), a->query - b->query, a->key - b->key});
    return true;
  }
  default:
    break;
  }
  return miss.stop(op, "the mask depends on more than the positions of query and key");
}

bool MaskReader::readAdditive(Value value, const Axes &axes, int depth) {
  if (std::optional<double> number = uniformNumber(value))
    return *number == 0 || miss.stop(value.getDefiningOp(), "the mask adds a number to all scores");
  Operation *op = value.getDefiningOp();
  if (!op || depth == kMaxDepth)
    return miss.stop(op ? op : value.getParentBlock()->getParentOp(),
                     "the mask depends on an input's values");
  Axes inner;
  if (Value input = through(op, axes, inner))
    return readAdditive(input, inner, depth + 1);
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise)
    return miss.stop(op, "the mask depends on '" + op->getName().getStringRef() + "'");
  OperandRange x = elementwise.getOperands_();
  auto operandAxes = [&](unsigned i) { return broadcastAxes(x[i], axes); };
  switch (elementwise.getKind()) {
  case ElementKind::Cast:
    return readAdditive(x[0], operandAxes(0), depth + 1);
  case ElementKind::Add:
    return readAdditive(x[0], operandAxes(0), depth + 1) &&
           readAdditive(x[1], operandAxes(1), depth + 1);
  case ElementKind::Select: {
    std::optional<double> yes = uniformNumber(x[1]), no = uniformNumber(x[2]);
    if (yes == 0.0 && no && *no <= kInvisible)
      return readBoolean(x[0], operandAxes(0), /*negated=*/false, depth + 1);
    if (no == 0.0 && yes && *yes <= kInvisible)
      return readBoolean(x[0], operandAxes(0), /*negated=*/true, depth + 1);
    if (no && *no <= kInvisible)
      return readBoolean(x[0], operandAxes(0), false, depth + 1) &&
             readAdditive(x[1], operandAxes(1), depth + 1);
    if (yes && *yes <= kInvisible)
      return readBoolean(x[0], operandAxes(0), true, depth + 1) &&
             readAdditive(x[2], operandAxes(2), depth + 1);
    break;
  }
  case ElementKind::Mul:
    for (unsigned i : {0, 1})
      if (std::optional<double> number = uniformNumber(x[i]); number && *number <= kInvisible)
        if (auto cast = scalarOp(x[1 - i], ElementKind::Cast);
            cast && elementTypeOf(cast.getOperands_()[0]).isInteger(1))
          return readBoolean(cast.getOperands_()[0],
                             broadcastAxes(cast.getOperands_()[0], operandAxes(1 - i)),
                             /*negated=*/true, depth + 1);
    break;
  default:
    break;
  }
  return miss.stop(op, "the mask isn't 0 where visible and very low elsewhere");
}

std::optional<Visibility> MaskReader::read(Value mask) {
  Axes axes(rankOf(mask), Axis::None);
  SmallVector<AffineExpr> dims = dimsOf(mask.getType());
  if (axes.empty())
    return std::nullopt;
  axes.back() = isConstant(dims.back(), 1) ? Axis::None : Axis::Key;
  if (axes.size() >= 2 && !isConstant(dims[dims.size() - 2], 1))
    axes[axes.size() - 2] = Axis::Query;
  bool boolean = elementTypeOf(mask).isInteger(1);
  if (!(boolean ? readBoolean(mask, axes, false, 0) : readAdditive(mask, axes, 0)))
    return std::nullopt;
  Visibility see;
  std::optional<AffineExpr> windowBase;
  auto stop = [&](const Twine &why) {
    miss.stop(mask.getDefiningOp(), why);
    return std::nullopt;
  };
  for (const Form &condition : conditions) {
    if (condition.query == 0 && condition.key == 0 && symbols.nonNegative(condition.base))
      continue;
    if (condition.query == 1 && condition.key == -1) {
      if (see.causalOffset && see.causalOffset != condition.base)
        return stop("the mask has two causal conditions");
      see.causalOffset = condition.base;
    } else if (condition.query == -1 && condition.key == 1 && !windowBase) {
      windowBase = condition.base;
    } else {
      return stop("the mask compares other things than query and key positions");
    }
  }
  if (windowBase) {
    // k - q + base >= 0 is k > q + offset - window with window = base + offset + 1.
    std::optional<int64_t> window =
        see.causalOffset ? constantOf(canonical(*windowBase + see.causalOffset + 1)) : std::nullopt;
    if (!window || *window < 1)
      return stop("the mask's window isn't a constant before the query");
    see.window = window;
  }
  if (!see.causalOffset)
    return see;
  // A query without keys would be softmaxed over hidden scores, which no attribute says.
  bool seesSome =
      symbols.nonNegative(see.causalOffset) &&
      (!see.window || symbols.nonNegative(canonical(keys - queries - see.causalOffset)));
  if (!seesSome)
    return stop("some query may see no key");
  return see;
}

} // namespace

std::optional<Visibility> proveMask(Value mask, AffineExpr queries, AffineExpr keys,
                                    const Symbols &symbols, NearMiss &miss) {
  return MaskReader(queries, keys, symbols, miss).read(mask);
}

} // namespace llmc
