// SPDX-License-Identifier: Apache-2.0
//
// Evaluation of scalar functions on known elements. Comparisons of sizes that
// hold in every call are decided; others become a polynomial in sign symbols.
#include "compiler/onnx/LegalizerContent.h"

#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;
using llmc::llm::Symbols;

namespace llmc::onnx {

std::optional<double> Element::number() const {
  if (real)
    return real;
  if (size && divisor != 0)
    if (std::optional<int64_t> value = llm::constantOf(size))
      return double(*value) / double(divisor);
  return std::nullopt;
}

bool mayHaveContent(RankedTensorType type) {
  if (!type || !type.hasStaticShape() || !type.getElementType().isIntOrFloat())
    return false;
  int64_t count = 1;
  for (int64_t size : type.getShape()) {
    if (size > kMaxContent)
      return false;
    count *= size;
    if (count > kMaxContent)
      return false;
  }
  unsigned width = type.getElementTypeBitWidth();
  return isa<FloatType>(type.getElementType()) ? width >= 16 : width == 1 || width >= 8;
}

std::optional<Content> contentOf(DenseElementsAttr value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!mayHaveContent(type))
    return std::nullopt;
  Content content;
  content.shape.assign(type.getShape().begin(), type.getShape().end());
  if (auto integer = dyn_cast<IntegerType>(type.getElementType())) {
    bool zeroExtend = integer.isUnsigned() || integer.getWidth() == 1;
    for (APInt element : value.getValues<APInt>())
      content.elements.push_back(Element::of(getAffineConstantExpr(
          zeroExtend ? int64_t(element.getZExtValue()) : element.getSExtValue(),
          value.getContext())));
    return content;
  }
  for (APFloat element : value.getValues<APFloat>()) {
    bool lost = false;
    element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    content.elements.push_back(Element::of(element.convertToDouble()));
  }
  return content;
}

DenseElementsAttr constantOf(const Content &content, Type elementType, MLIRContext *context) {
  auto type = RankedTensorType::get(content.shape, elementType);
  SmallVector<Attribute> values;
  for (const Element &element : content.elements) {
    if (isa<FloatType>(elementType)) {
      std::optional<double> number = element.number();
      if (!number)
        return {};
      values.push_back(FloatAttr::get(elementType, *number));
      continue;
    }
    std::optional<int64_t> number = element.integer();
    if (!number)
      return {};
    values.push_back(
        IntegerAttr::get(elementType, APInt(elementType.getIntOrFloatBitWidth(), uint64_t(*number),
                                            /*isSigned=*/false, /*implicitTrunc=*/true)));
  }
  return DenseElementsAttr::get(type, values);
}

/// `value` as an element of `type` holds it.
static double rounded(double value, Type type) {
  APFloat number(value);
  bool lost = false;
  number.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

static Element integerOf(int64_t value, Type type, Symbols &symbols) {
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 1)
    value = value != 0;
  else if (width < 64)
    value = type.isUnsignedInteger() ? int64_t(uint64_t(value) & ((uint64_t(1) << width) - 1))
                                     : llvm::SignExtend64(uint64_t(value), width);
  return Element::of(symbols.constant(value));
}

/// Whether `expr` is negative: as 0 or 1, decided where it can be.
static AffineExpr negative(AffineExpr expr, Symbols &symbols) {
  if (symbols.nonNegative(expr))
    return symbols.constant(0);
  if (symbols.nonNegative(symbols.sub(symbols.constant(-1), expr)))
    return symbols.constant(1);
  return symbols.isNegative(expr);
}

static Element evaluateInteger(ElementKind kind, ArrayRef<AffineExpr> x, Type type, Type resultType,
                               Symbols &symbols) {
  auto truth = [&](AffineExpr value) { return Element::of(llm::canonical(value)); };
  auto wrap = [&](AffineExpr value) {
    value = llm::canonical(value);
    std::optional<int64_t> constant = llm::constantOf(value);
    return constant ? integerOf(*constant, resultType, symbols) : Element::of(value);
  };
  std::optional<int64_t> a = x.size() > 0 ? llm::constantOf(x[0]) : std::nullopt;
  std::optional<int64_t> b = x.size() > 1 ? llm::constantOf(x[1]) : std::nullopt;
  AffineExpr one = symbols.constant(1);
  bool boolean = type.isInteger(1);
  // Order and quotients of 64-bit unsigned values above the signed range aren't represented.
  bool wide = type.isUnsignedInteger() && type.getIntOrFloatBitWidth() == 64 &&
              (a.value_or(0) < 0 || b.value_or(0) < 0);
  if (wide && kind != ElementKind::Equal)
    return {};
  switch (kind) {
  case ElementKind::Add:
    return wrap(x[0] + x[1]);
  case ElementKind::Sub:
    return wrap(x[0] - x[1]);
  case ElementKind::Mul:
    return wrap(x[0] * x[1]);
  case ElementKind::Neg:
    return wrap(x[0] * -1);
  case ElementKind::Abs:
    return wrap(x[0] - negative(x[0], symbols) * x[0] * 2);
  case ElementKind::Relu:
    return wrap(symbols.max(x[0], symbols.constant(0)));
  case ElementKind::Sign:
    return wrap(negative(llm::canonical(x[0] * -1), symbols) - negative(x[0], symbols));
  case ElementKind::Min:
    return wrap(symbols.min(x[0], x[1]));
  case ElementKind::Max:
    return wrap(symbols.max(x[0], x[1]));
  case ElementKind::Div:
    if (b == 0)
      return {};
    if (a && b)
      return *b == -1
                 ? wrap(symbols.constant(int64_t(0 - uint64_t(*a)))) // INT64_MIN / -1 overflows
                 : wrap(symbols.constant(*a / *b));
    if (std::optional<AffineExpr> quotient = llm::exactQuotient(x[0], x[1]))
      return wrap(*quotient);
    if (symbols.nonNegative(x[0]) && symbols.nonNegative(x[1]))
      return wrap(symbols.floorDiv(x[0], x[1]));
    return {};
  case ElementKind::Mod:
    if (b == 0)
      return {};
    if (a && b && *b < 0)
      return *b == -1 ? wrap(symbols.constant(0))
                      : wrap(symbols.constant((*a % *b) == 0 || *a < 0 ? *a % *b : *a % *b + *b));
    return symbols.nonNegative(x[1]) ? wrap(symbols.mod(x[0], x[1])) : Element();
  case ElementKind::Fmod:
    if (b == 0)
      return {};
    if (a && b)
      return wrap(symbols.constant(*b == -1 ? 0 : *a % *b));
    return symbols.nonNegative(x[0]) && symbols.nonNegative(x[1]) ? wrap(symbols.mod(x[0], x[1]))
                                                                  : Element();
  case ElementKind::Pow: {
    if (!b || *b < 0 || *b > 4)
      return {};
    AffineExpr power = one;
    for (int64_t i = 0; i < *b; ++i)
      power = llm::canonical(power * x[0]);
    return wrap(power);
  }
  case ElementKind::Equal: {
    AffineExpr difference = symbols.sub(x[0], x[1]);
    AffineExpr below = negative(difference, symbols);
    AffineExpr above = negative(llm::canonical(difference * -1), symbols);
    return truth(one - below - above);
  }
  case ElementKind::Less:
    return truth(negative(symbols.sub(x[0], x[1]), symbols));
  case ElementKind::Greater:
    return truth(negative(symbols.sub(x[1], x[0]), symbols));
  case ElementKind::LessEqual:
    return truth(one - negative(symbols.sub(x[1], x[0]), symbols));
  case ElementKind::GreaterEqual:
    return truth(one - negative(symbols.sub(x[0], x[1]), symbols));
  case ElementKind::Not:
    return truth(one - x[0]);
  case ElementKind::And:
    if (boolean)
      return truth(x[0] * x[1]);
    return a && b ? wrap(symbols.constant(*a & *b)) : Element();
  case ElementKind::Or:
    if (boolean)
      return truth(x[0] + x[1] - x[0] * x[1]);
    return a && b ? wrap(symbols.constant(*a | *b)) : Element();
  case ElementKind::Xor:
    if (boolean)
      return truth(x[0] + x[1] - x[0] * x[1] * 2);
    return a && b ? wrap(symbols.constant(*a ^ *b)) : Element();
  case ElementKind::Cast:
    if (isa<FloatType>(resultType))
      return a ? Element::of(rounded(type.isUnsignedInteger() ? double(uint64_t(*a)) : double(*a),
                                     resultType))
               : Element::of(x[0]);
    if (resultType.isInteger(1) && !boolean) {
      AffineExpr zero = negative(x[0], symbols) + negative(llm::canonical(x[0] * -1), symbols);
      return truth(zero);
    }
    return wrap(x[0]);
  default:
    return {};
  }
}

static Element evaluateFloat(ElementKind kind, ArrayRef<Element> x, Type resultType,
                             Symbols &symbols) {
  std::optional<double> a = x[0].number();
  std::optional<double> b = x.size() > 1 ? x[1].number() : std::nullopt;
  auto real = [&](double value) { return Element::of(rounded(value, resultType)); };
  auto truth = [&](bool value) { return Element::of(symbols.constant(value)); };
  if (a && (x.size() == 1 || b)) {
    switch (kind) {
    case ElementKind::Add:
      return real(*a + *b);
    case ElementKind::Sub:
      return real(*a - *b);
    case ElementKind::Mul:
      return real(*a * *b);
    case ElementKind::Div:
      return real(*a / *b);
    case ElementKind::Neg:
      return real(-*a);
    case ElementKind::Abs:
      return real(std::fabs(*a));
    case ElementKind::Sqrt:
      return real(std::sqrt(*a));
    case ElementKind::Reciprocal:
      return real(1.0 / *a);
    case ElementKind::Floor:
      return real(std::floor(*a));
    case ElementKind::Ceil:
      return real(std::ceil(*a));
    case ElementKind::Round:
      return real(std::nearbyint(*a));
    case ElementKind::Pow:
      return *b == 2.0   ? real(*a * *a)
             : *b == 1.0 ? real(*a)
             : *b == 0.5 ? real(std::sqrt(*a))
                         : Element();
    case ElementKind::Min:
      return std::isnan(*a) || std::isnan(*b) ? Element() : real(std::fmin(*a, *b));
    case ElementKind::Max:
      return std::isnan(*a) || std::isnan(*b) ? Element() : real(std::fmax(*a, *b));
    case ElementKind::Equal:
      return truth(*a == *b);
    case ElementKind::Less:
      return truth(*a < *b);
    case ElementKind::LessEqual:
      return truth(*a <= *b);
    case ElementKind::Greater:
      return truth(*a > *b);
    case ElementKind::GreaterEqual:
      return truth(*a >= *b);
    case ElementKind::IsNan:
      return truth(std::isnan(*a));
    case ElementKind::IsInf:
      return truth(std::isinf(*a));
    case ElementKind::Cast:
      if (isa<FloatType>(resultType))
        return real(*a);
      if (resultType.isInteger(1))
        return truth(*a != 0.0);
      if (!(std::fabs(*a) < 0x1p62))
        return {};
      return integerOf(int64_t(std::trunc(*a)), resultType, symbols);
    default:
      return {};
    }
  }
  // Quotients of sizes, as in floor(float(s) / 2).
  auto whole = [](std::optional<double> value) -> std::optional<int64_t> {
    if (!value || std::fabs(*value) > 0x1p31 || *value != std::trunc(*value) || *value == 0.0)
      return std::nullopt;
    return int64_t(*value);
  };
  auto quotient = [](AffineExpr size, int64_t divisor) {
    return Element{llm::canonical(size), divisor, std::nullopt};
  };
  if (x.size() == 2 && !x[0].size && (kind == ElementKind::Add || kind == ElementKind::Mul))
    return x[1].size ? evaluateFloat(kind, {x[1], x[0]}, resultType, symbols) : Element();
  const Element &first = x[0];
  if (!first.size)
    return {};
  if (x.size() == 1)
    switch (kind) {
    case ElementKind::Neg:
      return quotient(first.size * -1, first.divisor);
    case ElementKind::Floor:
      return quotient(symbols.floorDiv(first.size, symbols.constant(first.divisor)), 1);
    case ElementKind::Ceil:
      return quotient(symbols.floorDiv(symbols.add(first.size, symbols.constant(first.divisor - 1)),
                                       symbols.constant(first.divisor)),
                      1);
    case ElementKind::Round:
      return first.divisor == 1 ? first : Element();
    case ElementKind::Cast:
      if (isa<FloatType>(resultType))
        return first;
      if (first.divisor == 1 && !resultType.isInteger(1))
        return Element::of(first.size);
      if (symbols.nonNegative(first.size) && !resultType.isInteger(1))
        return Element::of(symbols.floorDiv(first.size, symbols.constant(first.divisor)));
      return {};
    default:
      return {};
    }
  if (x.size() != 2)
    return {};
  if (kind == ElementKind::Div) {
    std::optional<int64_t> n = whole(b);
    if (n && *n > 0 && first.divisor <= (int64_t(1) << 31))
      return quotient(first.size, first.divisor * *n);
    if (b && *b != 0.0)
      if (std::optional<int64_t> inverse = whole(1.0 / *b))
        return quotient(first.size * *inverse, first.divisor);
    return {};
  }
  if (kind == ElementKind::Mul) {
    if (std::optional<int64_t> n = whole(b))
      return quotient(first.size * *n, first.divisor);
    if (b && *b > 0.0 && first.divisor <= (int64_t(1) << 31))
      if (std::optional<int64_t> inverse = whole(1.0 / *b))
        return quotient(first.size, first.divisor * *inverse);
    return {};
  }
  if (kind == ElementKind::Add || kind == ElementKind::Sub) {
    int64_t sign = kind == ElementKind::Add ? 1 : -1;
    if (x[1].size && x[1].divisor == first.divisor)
      return quotient(first.size + x[1].size * sign, first.divisor);
    if (std::optional<int64_t> n = b == 0.0 ? std::optional<int64_t>(0) : whole(b))
      return quotient(first.size + symbols.constant(*n * sign * first.divisor), first.divisor);
  }
  return {};
}

Element evaluate(ElementKind kind, ArrayRef<Element> operands, Type type, Type resultType,
                 Symbols &symbols) {
  if (kind == ElementKind::Select) {
    if (std::optional<int64_t> condition = operands[0].integer())
      return operands[*condition ? 1 : 2];
    const Element &yes = operands[1], &no = operands[2];
    if (yes.known() && no.known() && yes.size == no.size && yes.divisor == no.divisor &&
        yes.real == no.real)
      return yes;
    if (!operands[0].size || !yes.size || !no.size || isa<FloatType>(resultType))
      return {};
    return Element::of(llm::canonical(no.size + operands[0].size * (yes.size - no.size)));
  }
  // One operand may decide alone.
  if (operands.size() == 2 && type.isInteger(1))
    for (const Element &operand : operands) {
      if (kind == ElementKind::Or && operand.integer() == 1)
        return operand;
      if (kind == ElementKind::And && operand.integer() == 0)
        return operand;
    }
  for (const Element &operand : operands)
    if (!operand.known())
      return {};
  if (isa<FloatType>(type))
    return evaluateFloat(kind, operands, resultType, symbols);
  SmallVector<AffineExpr, 3> sizes;
  for (const Element &operand : operands)
    sizes.push_back(operand.size);
  return evaluateInteger(kind, sizes, type, resultType, symbols);
}

Element evaluateReduction(ReduceKind kind, ArrayRef<Element> group, Type type, Symbols &symbols) {
  ElementKind step;
  switch (kind) {
  case ReduceKind::Sum:
    step = ElementKind::Add;
    break;
  case ReduceKind::Prod:
    step = ElementKind::Mul;
    break;
  case ReduceKind::Max:
    step = ElementKind::Max;
    break;
  case ReduceKind::Min:
    step = ElementKind::Min;
    break;
  default:
    return {};
  }
  // Sums of floats are left to the kernel, which rounds in its own order.
  if (group.empty() || isa<FloatType>(type))
    return {};
  Element result = group.front();
  for (const Element &element : group.drop_front())
    result = evaluate(step, {result, element}, type, type, symbols);
  return result;
}

void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> use) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  SmallVector<int64_t, 4> index(shape.size(), 0);
  while (true) {
    use(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

int64_t broadcastOffset(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t offset = 0;
  ArrayRef<int64_t> inner = index.take_back(shape.size());
  for (auto [i, size] : llvm::zip_equal(inner, shape))
    offset = offset * size + (size == 1 ? 0 : i);
  return offset;
}

} // namespace llmc::onnx
