// SPDX-License-Identifier: Apache-2.0
//
// Rows of scalar functions: arithmetic, comparisons, logic, activations, casts.
// Functions without an `llm` kind are composed from those that have one.
#include "compiler/onnx/OpTable.h"
#include "compiler/onnx/lower/CastParts.h"

#include <limits>

using namespace mlir;
using llmc::llm::ElementKind;

namespace llmc::onnx {

static double largestOf(FloatType type) {
  APFloat largest = APFloat::getLargest(type.getFloatSemantics());
  bool lossy;
  largest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return largest.convertToDouble();
}

Tensor castTo(Lowering &l, Tensor x, Type to) {
  auto floating = dyn_cast<FloatType>(to);
  if (!x || !floating || floating.getWidth() > 8 || x.elementType() == to)
    return l.cast(x, to);
  if (isa<Float8E8M0FNUType>(to))
    return l.fail(1206, l.node.getOpType() + " to float8e8m0 isn't supported");
  if (l.intAttr("saturate", 1) != 0) {
    double most = largestOf(floating);
    x = l.cast(x, l.builder.getF32Type());
    x = l.with(ElementKind::Max, l.with(ElementKind::Min, x, most), -most);
  }
  return l.cast(x, to);
}

namespace {

template <ElementKind kind> LogicalResult unary(Lowering &l) {
  return l.result(l.elementwise(kind, {l.input(0)}));
}

template <ElementKind kind> LogicalResult binary(Lowering &l) {
  return l.result(l.elementwise(kind, {l.input(0), l.input(1)}));
}

template <ElementKind kind> LogicalResult comparison(Lowering &l) {
  return l.result(l.compare(kind, l.input(0), l.input(1)));
}

template <ElementKind kind> LogicalResult variadic(Lowering &l) {
  Tensor all = l.input(0);
  for (unsigned i = 1; i < l.numInputs(); ++i)
    all = l.elementwise(kind, {all, l.input(i)});
  return l.result(all);
}

LogicalResult mean(Lowering &l) {
  Tensor sum = l.input(0);
  for (unsigned i = 1; i < l.numInputs(); ++i)
    sum = l.add(sum, l.input(i));
  return l.result(l.with(ElementKind::Div, sum, l.numInputs()));
}

LogicalResult mod(Lowering &l) {
  Tensor a = l.input(0), b = l.input(1);
  bool fmod = l.intAttr("fmod", 0) != 0;
  if (a && !fmod && a.isFloat() && l.version() < 28)
    return l.result(l.fail(1203, "Mod of floats needs fmod = 1 before opset 28"));
  return l.result(l.elementwise(fmod ? ElementKind::Fmod : ElementKind::Mod, {a, b}));
}

/// Base and exponent may differ in type; the result has the base's.
LogicalResult power(Lowering &l) {
  Tensor base = l.input(0), exponent = l.input(1);
  if (!base || !exponent)
    return failure();
  Type type = base.elementType();
  if (!base.isFloat() && exponent.isFloat()) {
    base = l.cast(base, exponent.elementType());
    return l.result(l.cast(l.elementwise(ElementKind::Pow, {base, exponent}), type));
  }
  return l.result(l.elementwise(ElementKind::Pow, {base, l.cast(exponent, type)}));
}

LogicalResult isInf(Lowering &l) {
  Tensor x = l.input(0);
  bool positive = l.intAttr("detect_positive", 1) != 0;
  bool negative = l.intAttr("detect_negative", 1) != 0;
  if (!x)
    return failure();
  if (positive && negative)
    return l.result(l.elementwise(ElementKind::IsInf, {x}, l.i1()));
  double infinity = std::numeric_limits<double>::infinity();
  if (!positive && !negative)
    return l.result(l.filled(x.dims(), 0, l.i1()));
  return l.result(
      l.compare(ElementKind::Equal, x, l.scalar(positive ? infinity : -infinity, x.elementType())));
}

LogicalResult isNan(Lowering &l) {
  return l.result(l.elementwise(ElementKind::IsNan, {l.input(0)}, l.i1()));
}

LogicalResult where(Lowering &l) { return l.result(l.select(l.input(0), l.input(1), l.input(2))); }

template <bool left> Tensor shifted(Lowering &l, Tensor x, Tensor by) {
  return l.elementwise(left ? ElementKind::Shl : ElementKind::Shr, {x, by});
}

LogicalResult bitShift(Lowering &l) {
  StringRef direction = l.stringAttr("direction", "");
  Tensor x = l.input(0), by = l.input(1);
  if (direction == "LEFT")
    return l.result(shifted<true>(l, x, by));
  if (direction == "RIGHT")
    return l.result(shifted<false>(l, x, by));
  return l.result(l.fail(1203, "BitShift needs direction LEFT or RIGHT, not '" + direction + "'"));
}

//===----------------------------------------------------------------------===//
// Casts and clamps
//===----------------------------------------------------------------------===//

LogicalResult cast(Lowering &l) {
  Type to = l.elementTypeOf(l.intAttr("to", 0));
  return l.result(to ? castTo(l, l.input(0), to) : Tensor());
}

LogicalResult castLike(Lowering &l) {
  Tensor x = l.input(0), like = l.input(1);
  return l.result(like ? castTo(l, x, like.elementType()) : Tensor());
}

LogicalResult identity(Lowering &l) { return l.result(l.input(0)); }

LogicalResult clipAttributes(Lowering &l) {
  Tensor x = l.input(0);
  if (l.attr("min"))
    x = l.with(ElementKind::Max, x, l.floatAttr("min", 0));
  if (l.attr("max"))
    x = l.with(ElementKind::Min, x, l.floatAttr("max", 0));
  return l.result(x);
}

LogicalResult clip(Lowering &l) {
  Tensor x = l.input(0);
  for (auto [i, kind] : {std::pair(1u, ElementKind::Max), std::pair(2u, ElementKind::Min)}) {
    if (!l.has(i) || !x)
      continue;
    Tensor bound = l.input(i);
    if (bound && bound.rank() > 0) // a bound of shape [1] must not raise the rank
      bound = l.reshape(bound, {});
    x = l.elementwise(kind, {x, bound});
  }
  return l.result(x);
}

/// Inference: the input passes. The mask is all true.
LogicalResult dropout(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  bool training = false;
  if (l.version() >= 12 && l.has(2)) {
    std::optional<double> mode = l.knownNumber(2, "training_mode");
    if (!mode)
      return failure();
    training = *mode != 0.0;
  }
  if (training) {
    std::optional<double> ratio = 0.5;
    if (l.has(1))
      ratio = l.knownNumber(1, "ratio");
    if (!ratio)
      return failure();
    if (*ratio != 0.0)
      return l.result(l.fail(1209, "Dropout in training mode isn't supported"));
  }
  if (!l.wants(1))
    return l.results({x});
  return l.results({x, l.filled(x.dims(), 1, l.version() >= 10 ? l.i1() : x.elementType())});
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

Tensor zeroLike(Lowering &l, Tensor x) { return x ? l.scalar(0, x.elementType()) : Tensor(); }

/// `x < 0 ? negative : x`
Tensor whereNegative(Lowering &l, Tensor x, Tensor negative) {
  return l.select(l.compare(ElementKind::Less, x, zeroLike(l, x)), negative, x);
}

/// exp(x) - 1 for negative x. For others the value is unused; 0 keeps it finite.
Tensor expMinusOne(Lowering &l, Tensor x) {
  Tensor negative = l.with(ElementKind::Min, x, 0);
  return l.with(ElementKind::Sub, l.elementwise(ElementKind::Exp, {negative}), 1);
}

LogicalResult gelu(Lowering &l) {
  StringRef approximate = l.stringAttr("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return l.result(
        l.fail(1203, "Gelu knows approximate 'none' and 'tanh', not '" + approximate + "'"));
  return l.result(l.elementwise(approximate == "tanh" ? ElementKind::GeluTanh : ElementKind::Gelu,
                                {l.input(0)}));
}

LogicalResult leakyRelu(Lowering &l) {
  Tensor x = l.input(0);
  return l.result(whereNegative(l, x, l.with(ElementKind::Mul, x, l.floatAttr("alpha", 0.01))));
}

LogicalResult prelu(Lowering &l) {
  Tensor x = l.input(0);
  return l.result(whereNegative(l, x, l.mul(x, l.input(1))));
}

LogicalResult elu(Lowering &l) {
  Tensor x = l.input(0);
  Tensor negative = l.with(ElementKind::Mul, expMinusOne(l, x), l.floatAttr("alpha", 1.0));
  return l.result(whereNegative(l, x, negative));
}

LogicalResult celu(Lowering &l) {
  Tensor x = l.input(0);
  double alpha = l.floatAttr("alpha", 1.0);
  Tensor negative = expMinusOne(l, l.with(ElementKind::Div, x, alpha));
  return l.result(whereNegative(l, x, l.with(ElementKind::Mul, negative, alpha)));
}

LogicalResult selu(Lowering &l) {
  Tensor x = l.input(0);
  double alpha = l.floatAttr("alpha", 1.67326319217681884765625);
  Tensor negative = l.with(ElementKind::Mul, expMinusOne(l, x), alpha);
  return l.result(l.with(ElementKind::Mul, whereNegative(l, x, negative),
                         l.floatAttr("gamma", 1.05070102214813232421875)));
}

LogicalResult thresholdedRelu(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  Tensor above =
      l.compare(ElementKind::Greater, x, l.scalar(l.floatAttr("alpha", 1.0), x.elementType()));
  return l.result(l.select(above, x, zeroLike(l, x)));
}

Tensor hardSigmoidOf(Lowering &l, Tensor x, double alpha, double beta) {
  Tensor line = l.with(ElementKind::Add, l.with(ElementKind::Mul, x, alpha), beta);
  return l.with(ElementKind::Max, l.with(ElementKind::Min, line, 1), 0);
}

LogicalResult hardSigmoid(Lowering &l) {
  return l.result(
      hardSigmoidOf(l, l.input(0), l.floatAttr("alpha", 0.2), l.floatAttr("beta", 0.5)));
}

LogicalResult hardSwish(Lowering &l) {
  Tensor x = l.input(0);
  return l.result(l.mul(x, hardSigmoidOf(l, x, 1.0 / 6.0, 0.5)));
}

LogicalResult shrink(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  double bias = l.floatAttr("bias", 0.0), lambd = l.floatAttr("lambd", 0.5);
  Tensor below = l.compare(ElementKind::Less, x, l.scalar(-lambd, x.elementType()));
  Tensor above = l.compare(ElementKind::Greater, x, l.scalar(lambd, x.elementType()));
  return l.result(l.select(below, l.with(ElementKind::Add, x, bias),
                           l.select(above, l.with(ElementKind::Sub, x, bias), zeroLike(l, x))));
}

/// log(1 + exp(x)) without overflow: max(x, 0) + log(1 + exp(-|x|)).
Tensor softplusOf(Lowering &l, Tensor x) {
  Tensor small = l.elementwise(
      ElementKind::Exp, {l.elementwise(ElementKind::Neg, {l.elementwise(ElementKind::Abs, {x})})});
  Tensor log = l.elementwise(ElementKind::Log, {l.with(ElementKind::Add, small, 1)});
  return l.add(l.elementwise(ElementKind::Relu, {x}), log);
}

LogicalResult softplus(Lowering &l) { return l.result(softplusOf(l, l.input(0))); }

LogicalResult mish(Lowering &l) {
  Tensor x = l.input(0);
  return l.result(l.mul(x, l.elementwise(ElementKind::Tanh, {softplusOf(l, x)})));
}

LogicalResult softsign(Lowering &l) {
  Tensor x = l.input(0);
  Tensor scale = l.with(ElementKind::Add, l.elementwise(ElementKind::Abs, {x}), 1);
  return l.result(l.div(x, scale));
}

Tensor swishOf(Lowering &l, Tensor x, double alpha) {
  if (alpha == 1.0)
    return l.elementwise(ElementKind::Silu, {x});
  Tensor gate = l.elementwise(ElementKind::Sigmoid, {l.with(ElementKind::Mul, x, alpha)});
  return l.mul(x, gate);
}

LogicalResult swish(Lowering &l) {
  return l.result(swishOf(l, l.input(0), l.floatAttr("alpha", 1.0)));
}

LogicalResult swiGlu(Lowering &l) {
  return l.result(l.mul(swishOf(l, l.input(0), l.floatAttr("alpha", 1.0)), l.input(1)));
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering
    {"", "Abs",             6,  unary<ElementKind::Abs>},
    {"", "Acos",            7,  unary<ElementKind::Acos>},
    {"", "Acosh",           9,  unary<ElementKind::Acosh>},
    {"", "Add",             7,  binary<ElementKind::Add>},
    {"", "And",             7,  binary<ElementKind::And>},
    {"", "Asin",            7,  unary<ElementKind::Asin>},
    {"", "Asinh",           9,  unary<ElementKind::Asinh>},
    {"", "Atan",            7,  unary<ElementKind::Atan>},
    {"", "Atanh",           9,  unary<ElementKind::Atanh>},
    {"", "BitShift",        11, bitShift},
    {"", "BitwiseAnd",      18, binary<ElementKind::And>},
    {"", "BitwiseNot",      18, unary<ElementKind::BitNot>},
    {"", "BitwiseOr",       18, binary<ElementKind::Or>},
    {"", "BitwiseXor",      18, binary<ElementKind::Xor>},
    {"", "Cast",            6,  cast, "no strings, not to float8e8m0"},
    {"", "CastLike",        15, castLike},
    {"", "Ceil",            6,  unary<ElementKind::Ceil>},
    {"", "Celu",            12, celu},
    {"", "Clip",            6,  clipAttributes},
    {"", "Clip",            11, clip},
    {"", "Cos",             7,  unary<ElementKind::Cos>},
    {"", "Cosh",            9,  unary<ElementKind::Cosh>},
    {"", "Div",             7,  binary<ElementKind::Div>},
    {"", "Dropout",         7,  dropout, "inference"},
    {"", "Elu",             6,  elu},
    {"", "Equal",           7,  comparison<ElementKind::Equal>},
    {"", "Erf",             9,  unary<ElementKind::Erf>},
    {"", "Exp",             6,  unary<ElementKind::Exp>},
    {"", "Floor",           6,  unary<ElementKind::Floor>},
    {"", "Gelu",            20, gelu},
    {"", "Greater",         7,  comparison<ElementKind::Greater>},
    {"", "GreaterOrEqual",  12, comparison<ElementKind::GreaterEqual>},
    {"", "HardSigmoid",     6,  hardSigmoid},
    {"", "HardSwish",       14, hardSwish},
    {"", "Identity",        1,  identity},
    {"", "IsInf",           10, isInf},
    {"", "IsNaN",           9,  isNan},
    {"", "LeakyRelu",       6,  leakyRelu},
    {"", "Less",            7,  comparison<ElementKind::Less>},
    {"", "LessOrEqual",     12, comparison<ElementKind::LessEqual>},
    {"", "Log",             6,  unary<ElementKind::Log>},
    {"", "Max",             6,  variadic<ElementKind::Max>},
    {"", "Mean",            6,  mean},
    {"", "Min",             6,  variadic<ElementKind::Min>},
    {"", "Mish",            18, mish},
    {"", "Mod",             10, mod},
    {"", "Mul",             7,  binary<ElementKind::Mul>},
    {"", "Neg",             6,  unary<ElementKind::Neg>},
    {"", "Not",             1,  unary<ElementKind::Not>},
    {"", "Or",              7,  binary<ElementKind::Or>},
    {"", "PRelu",           7,  prelu},
    {"", "Pow",             7,  power},
    {"", "Reciprocal",      6,  unary<ElementKind::Reciprocal>},
    {"", "Relu",            6,  unary<ElementKind::Relu>},
    {"", "Round",           11, unary<ElementKind::Round>},
    {"", "Selu",            6,  selu},
    {"", "Shrink",          9,  shrink},
    {"", "Sigmoid",         6,  unary<ElementKind::Sigmoid>},
    {"", "Sign",            9,  unary<ElementKind::Sign>},
    {"", "Sin",             7,  unary<ElementKind::Sin>},
    {"", "Sinh",            9,  unary<ElementKind::Sinh>},
    {"", "Softplus",        1,  softplus},
    {"", "Softsign",        1,  softsign},
    {"", "Sqrt",            6,  unary<ElementKind::Sqrt>},
    {"", "Sub",             7,  binary<ElementKind::Sub>},
    {"", "Sum",             6,  variadic<ElementKind::Add>},
    {"", "SwiGLU",          28, swiGlu},
    {"", "Swish",           24, swish},
    {"", "Tan",             7,  unary<ElementKind::Tan>},
    {"", "Tanh",            6,  unary<ElementKind::Tanh>},
    {"", "ThresholdedRelu", 10, thresholdedRelu},
    {"", "Where",           9,  where},
    {"", "Xor",             7,  binary<ElementKind::Xor>},
};
// clang-format on

} // namespace

ArrayRef<OpRow> elementwiseRows() { return kRows; }

} // namespace llmc::onnx
