// SPDX-License-Identifier: Apache-2.0
//
// One function per op: which operand element a result element is, or what the
// scalar function gives.
#include "passes/fold/ConstantEvaluator.h"

#include "compiler/ir/llm/Dims.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <optional>
#include <vector>

using namespace mlir;
using namespace llmc::llm;

namespace llmc {
namespace {

/// One element; which member counts depends on its type.
struct Number {
  double real = 0;
  int64_t integer = 0;
};

using Index = SmallVector<int64_t, 6>;

/// A constant tensor that can be asked for elements.
struct Literal {
  RankedTensorType type;
  std::vector<Number> numbers; // one for a splat
  bool isSplat = false;

  explicit Literal(DenseElementsAttr attr) : type(cast<RankedTensorType>(attr.getType())) {
    isSplat = attr.isSplat();
    auto add = [&](auto range, auto convert) {
      if (isSplat) {
        numbers.push_back(convert(*range.begin()));
        return;
      }
      for (const auto &value : range)
        numbers.push_back(convert(value));
    };
    if (attr.getNumElements() == 0)
      return;
    if (isa<FloatType>(type.getElementType())) {
      add(attr.getValues<APFloat>(), [](const APFloat &value) {
        APFloat wide = value;
        bool lossy;
        wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
        return Number{wide.convertToDouble(), 0};
      });
      return;
    }
    bool zeroExtended =
        type.getElementType().isUnsignedInteger() || type.getElementType().isInteger(1);
    add(attr.getValues<APInt>(), [&](const APInt &value) {
      return Number{0, zeroExtended ? int64_t(value.getZExtValue()) : value.getSExtValue()};
    });
  }

  Number at(ArrayRef<int64_t> index) const {
    if (isSplat)
      return numbers.front();
    int64_t position = 0;
    for (auto [i, size] : llvm::zip_equal(index, type.getShape()))
      position = position * size + i;
    return numbers[position];
  }
};

/// Floats that fit double, integers that fit int64.
bool isEvaluable(Type type) {
  if (isa<FloatType>(type))
    return type.isF64() || type.isF32() || type.isF16() || type.isBF16();
  return type.isIntOrIndex() && type.getIntOrFloatBitWidth() <= 64;
}

APInt bitsOf(int64_t value, IntegerType type) {
  return APInt(64, uint64_t(value)).trunc(type.getWidth());
}

/// `value` wrapped to the width of `type`.
int64_t wrapped(int64_t value, IntegerType type) {
  APInt bits = bitsOf(value, type);
  bool zeroExtended = type.isUnsigned() || type.getWidth() == 1;
  return zeroExtended ? int64_t(bits.getZExtValue()) : bits.getSExtValue();
}

double rounded(double value, FloatType type) {
  APFloat narrow(value);
  bool lossy;
  narrow.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  narrow.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return narrow.convertToDouble();
}

std::optional<double> realUnary(ElementKind kind, double x) {
  switch (kind) {
  case ElementKind::Abs:
    return std::fabs(x);
  case ElementKind::Neg:
    return -x;
  case ElementKind::Exp:
    return std::exp(x);
  case ElementKind::Log:
    return std::log(x);
  case ElementKind::Sqrt:
    return std::sqrt(x);
  case ElementKind::Rsqrt:
    return 1.0 / std::sqrt(x);
  case ElementKind::Reciprocal:
    return 1.0 / x;
  case ElementKind::Sin:
    return std::sin(x);
  case ElementKind::Cos:
    return std::cos(x);
  case ElementKind::Tanh:
    return std::tanh(x);
  case ElementKind::Erf:
    return std::erf(x);
  case ElementKind::Floor:
    return std::floor(x);
  case ElementKind::Ceil:
    return std::ceil(x);
  case ElementKind::Round:
    return std::nearbyint(x);
  default:
    return std::nullopt;
  }
}

std::optional<double> realBinary(ElementKind kind, double x, double y) {
  switch (kind) {
  case ElementKind::Add:
    return x + y;
  case ElementKind::Sub:
    return x - y;
  case ElementKind::Mul:
    return x * y;
  case ElementKind::Div:
    return x / y;
  case ElementKind::Pow:
    return std::pow(x, y);
  case ElementKind::Min:
    return std::isnan(x) || std::isnan(y) ? std::nan("") : std::fmin(x, y);
  case ElementKind::Max:
    return std::isnan(x) || std::isnan(y) ? std::nan("") : std::fmax(x, y);
  default:
    return std::nullopt;
  }
}

std::optional<int64_t> integerUnary(ElementKind kind, int64_t x) {
  switch (kind) {
  case ElementKind::Abs:
    return x < 0 ? int64_t(0 - uint64_t(x)) : x;
  case ElementKind::Neg:
    return int64_t(0 - uint64_t(x));
  case ElementKind::BitNot:
    return ~x;
  case ElementKind::Not:
    return x == 0;
  default:
    return std::nullopt;
  }
}

std::optional<int64_t> integerBinary(ElementKind kind, int64_t x, int64_t y, bool isUnsigned) {
  bool overflows = x == std::numeric_limits<int64_t>::min() && y == -1;
  bool less = isUnsigned ? uint64_t(x) < uint64_t(y) : x < y;
  switch (kind) {
  case ElementKind::Add:
    return int64_t(uint64_t(x) + uint64_t(y));
  case ElementKind::Sub:
    return int64_t(uint64_t(x) - uint64_t(y));
  case ElementKind::Mul:
    return int64_t(uint64_t(x) * uint64_t(y));
  case ElementKind::Div:
    if (y == 0 || overflows)
      return std::nullopt;
    return isUnsigned ? int64_t(uint64_t(x) / uint64_t(y)) : x / y;
  case ElementKind::Mod: {
    if (y == 0 || overflows)
      return std::nullopt;
    if (isUnsigned)
      return int64_t(uint64_t(x) % uint64_t(y));
    int64_t rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
  case ElementKind::Min:
    return less ? x : y;
  case ElementKind::Max:
    return less ? y : x;
  case ElementKind::And:
    return x & y;
  case ElementKind::Or:
    return x | y;
  case ElementKind::Xor:
    return x ^ y;
  default:
    return std::nullopt;
  }
}

template <typename T> std::optional<bool> compare(ElementKind kind, T x, T y) {
  switch (kind) {
  case ElementKind::Equal:
    return x == y;
  case ElementKind::Less:
    return x < y;
  case ElementKind::LessEqual:
    return x <= y;
  case ElementKind::Greater:
    return x > y;
  case ElementKind::GreaterEqual:
    return x >= y;
  default:
    return std::nullopt;
  }
}

std::optional<Number> cast(Number x, Type from, Type to) {
  bool fromReal = isa<FloatType>(from), toReal = isa<FloatType>(to);
  if (toReal) {
    if (fromReal)
      return x;
    return Number{from.isUnsignedInteger(64) ? double(uint64_t(x.integer)) : double(x.integer), 0};
  }
  if (!fromReal)
    return to.isInteger(1) ? Number{0, x.integer != 0} : x;
  if (to.isInteger(1))
    return Number{0, x.real != 0};
  if (!(std::fabs(x.real) < 9.0e18))
    return std::nullopt;
  int64_t integer = int64_t(x.real);
  // What doesn't fit is left to the device.
  if (wrapped(integer, mlir::cast<IntegerType>(to)) != integer)
    return std::nullopt;
  return Number{0, integer};
}

/// A scalar function on elements of `from`; the result isn't yet rounded to `to`.
std::optional<Number> apply(ElementKind kind, ArrayRef<Number> x, Type from, Type to) {
  if (kind == ElementKind::Select)
    return x[0].integer != 0 ? x[1] : x[2];
  if (kind == ElementKind::Cast)
    return cast(x[0], from, to);
  bool isReal = isa<FloatType>(from), isUnsigned = from.isUnsignedInteger();
  if (kind == ElementKind::IsNan && isReal)
    return Number{0, std::isnan(x[0].real)};
  if (kind == ElementKind::Equal || kind == ElementKind::Less || kind == ElementKind::LessEqual ||
      kind == ElementKind::Greater || kind == ElementKind::GreaterEqual) {
    std::optional<bool> holds = isReal ? compare(kind, x[0].real, x[1].real)
                                : isUnsigned
                                    ? compare(kind, uint64_t(x[0].integer), uint64_t(x[1].integer))
                                    : compare(kind, x[0].integer, x[1].integer);
    return holds ? std::optional(Number{0, *holds}) : std::nullopt;
  }
  if (isReal) {
    std::optional<double> value =
        x.size() == 1 ? realUnary(kind, x[0].real) : realBinary(kind, x[0].real, x[1].real);
    return value ? std::optional(Number{*value, 0}) : std::nullopt;
  }
  std::optional<int64_t> value = x.size() == 1
                                     ? integerUnary(kind, x[0].integer)
                                     : integerBinary(kind, x[0].integer, x[1].integer, isUnsigned);
  return value ? std::optional(Number{0, *value}) : std::nullopt;
}

/// `index` of a result, in a tensor that broadcasts to it.
Index broadcastIndex(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  Index inner(index.take_back(shape.size()));
  for (auto [i, size] : llvm::zip_equal(inner, shape))
    i = size == 1 ? 0 : i;
  return inner;
}

std::optional<Number> elementOf(ElementwiseOp op, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  SmallVector<Number, 3> elements;
  for (const Literal &operand : in)
    elements.push_back(operand.at(broadcastIndex(index, operand.type.getShape())));
  Type from = in[op.getKind() == ElementKind::Select ? 1 : 0].type.getElementType();
  return apply(op.getKind(), elements, from,
               mlir::cast<RankedTensorType>(op.getType()).getElementType());
}

std::optional<Number> elementOf(ReshapeOp op, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  int64_t position = 0;
  for (auto [i, size] :
       llvm::zip_equal(index, mlir::cast<RankedTensorType>(op.getType()).getShape()))
    position = position * size + i;
  return in[0].isSplat ? in[0].numbers.front() : in[0].numbers[position];
}

std::optional<Number> elementOf(BroadcastOp, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  return in[0].at(broadcastIndex(index, in[0].type.getShape()));
}

std::optional<Number> elementOf(TileOp, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  Index inner(index);
  for (auto [i, size] : llvm::zip_equal(inner, in[0].type.getShape()))
    i %= size;
  return in[0].at(inner);
}

std::optional<Number> elementOf(TransposeOp op, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  Index inner(index);
  for (auto [i, p] : llvm::zip_equal(index, op.getPermutation()))
    inner[p] = i;
  return in[0].at(inner);
}

std::optional<Number> elementOf(SliceOp op, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  Index inner;
  for (auto [i, start, step] : llvm::zip_equal(index, op.getStarts().getExprs(), op.getSteps())) {
    std::optional<int64_t> from = constantOf(start);
    if (!from)
      return std::nullopt;
    inner.push_back(*from + i * step);
  }
  for (auto [i, size] : llvm::zip_equal(inner, in[0].type.getShape()))
    if (i < 0 || i >= size)
      return std::nullopt;
  return in[0].at(inner);
}

std::optional<Number> elementOf(ConcatOp op, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  Index inner(index);
  int64_t &position = inner[op.getAxis()];
  for (const Literal &part : in) {
    int64_t size = part.type.getShape()[op.getAxis()];
    if (position < size)
      return part.at(inner);
    position -= size;
  }
  return std::nullopt;
}

std::optional<Number> elementOf(GatherOp op, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  int64_t axis = op.getAxis(), indexRank = in[1].type.getRank();
  int64_t chosen = in[1].at(index.slice(axis, indexRank)).integer;
  int64_t size = in[0].type.getShape()[axis];
  chosen = chosen < 0 ? chosen + size : chosen;
  if (chosen < 0 || chosen >= size)
    return std::nullopt;
  Index inner(index.take_front(axis));
  inner.push_back(chosen);
  llvm::append_range(inner, index.drop_front(axis + indexRank));
  return in[0].at(inner);
}

std::optional<Number> elementOf(TriluOp op, ArrayRef<Literal> in, ArrayRef<int64_t> index) {
  int64_t distance = index.back() - index[index.size() - 2], diagonal = op.getDiagonal();
  bool kept = op.getUpper() ? distance >= diagonal : distance <= diagonal;
  return kept ? in[0].at(index) : Number{};
}

std::optional<Number> elementOf(SizesOp op, ArrayRef<Literal>, ArrayRef<int64_t> index) {
  std::optional<int64_t> value =
      constantOf(op.getValues().getExprs()[index.empty() ? 0 : index[0]]);
  return value ? std::optional(Number{0, *value}) : std::nullopt;
}

std::optional<Number> elementOf(IotaOp op, ArrayRef<Literal>, ArrayRef<int64_t> index) {
  std::optional<int64_t> start = constantOf(op.getStart().getExprs()[0]);
  if (!start)
    return std::nullopt;
  int64_t value = *start + index[0] * op.getStep();
  return Number{double(value), value};
}

/// Visits every index of `shape` in row-major order until `use` says no.
bool forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<bool(ArrayRef<int64_t>)> use) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  Index index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    if (!use(index))
      return false;
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
  return true;
}

DenseElementsAttr attributeOf(RankedTensorType type, ArrayRef<Number> numbers) {
  Type element = type.getElementType();
  if (auto real = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (const Number &number : numbers) {
      APFloat value(number.real);
      bool lossy;
      value.convert(real.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
      values.push_back(value);
    }
    return DenseElementsAttr::get(type, values);
  }
  SmallVector<APInt> values;
  for (const Number &number : numbers)
    values.push_back(bitsOf(number.integer, mlir::cast<IntegerType>(element)));
  return DenseElementsAttr::get(type, values);
}

} // namespace

DenseElementsAttr evaluateConstant(Operation *op, ArrayRef<DenseElementsAttr> operands) {
  if (op->getNumResults() != 1 || llvm::is_contained(operands, DenseElementsAttr()))
    return {};
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !type.hasStaticShape() || !isEvaluable(type.getElementType()))
    return {};
  SmallVector<Literal> in;
  for (DenseElementsAttr operand : operands) {
    if (!isEvaluable(mlir::cast<RankedTensorType>(operand.getType()).getElementType()))
      return {};
    in.emplace_back(operand);
  }
  auto real = dyn_cast<FloatType>(type.getElementType());
  std::vector<Number> numbers;
  numbers.reserve(type.getNumElements());
  bool known = forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
    auto number = llvm::TypeSwitch<Operation *, std::optional<Number>>(op)
                      .Case<ElementwiseOp, ReshapeOp, BroadcastOp, TileOp, TransposeOp, SliceOp,
                            ConcatOp, GatherOp, TriluOp, SizesOp, IotaOp>(
                          [&](auto typed) { return elementOf(typed, in, index); })
                      .Default([](Operation *) { return std::nullopt; });
    if (!number)
      return false;
    if (real)
      number->real = rounded(number->real, real);
    else
      number->integer = wrapped(number->integer, mlir::cast<IntegerType>(type.getElementType()));
    numbers.push_back(*number);
    return true;
  });
  return known ? attributeOf(type, numbers) : DenseElementsAttr();
}

} // namespace llmc
