// SPDX-License-Identifier: Apache-2.0
//
// One function per domain (floats, integers, casts); the switch inside is the
// table of what is supported.
#include "codegen/common/ScalarOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>
#include <limits>

using namespace mlir;
using llmc::llm::ElementKind;

namespace llmc {

/// Floats of at most 8 bits.
static FloatType narrowFloat(Type type) {
  auto floating = dyn_cast<FloatType>(type);
  return floating && floating.getWidth() <= 8 ? floating : FloatType();
}

/// Integers of 2 and 4 bits.
static bool isNarrowInteger(Type type) {
  return isa<IntegerType>(type) && type.getIntOrFloatBitWidth() < 8 && !type.isInteger(1);
}

Type signlessType(Type element) {
  if (narrowFloat(element) || isNarrowInteger(element))
    return IntegerType::get(element.getContext(), 8);
  if (element.isUnsignedInteger())
    return IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth());
  return element;
}

Value ScalarOps::integer(int64_t value, Type type) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}

Value ScalarOps::widen(Value value) {
  Type type = value.getType();
  if (type.isF16())
    return arith::ExtFOp::create(b, b.getF32Type(), value);
  if (!type.isBF16())
    return value;
  // Shifts vectorise on every machine; a bf16 extension is a library call on some.
  Value bits =
      arith::ExtUIOp::create(b, b.getI32Type(), arith::BitcastOp::create(b, b.getI16Type(), value));
  bits = arith::ShLIOp::create(b, bits, integer(16, b.getI32Type()));
  return arith::BitcastOp::create(b, b.getF32Type(), bits);
}

Value ScalarOps::narrow(Value value, Type to) {
  Type from = value.getType();
  if (from == to)
    return value;
  if (to.isF64())
    return arith::ExtFOp::create(b, to, value);
  if (to.isF32())
    return arith::TruncFOp::create(b, to, value);
  if (from.isF64())
    value = arith::TruncFOp::create(b, b.getF32Type(), value);
  if (!to.isBF16())
    return arith::TruncFOp::create(b, to, value);
  // Round half to even on the upper 16 bits; NaN keeps a set bit.
  Type i32 = b.getI32Type();
  Value bits = arith::BitcastOp::create(b, i32, value);
  Value odd =
      arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, integer(16, i32)), integer(1, i32));
  Value rounded =
      arith::AddIOp::create(b, bits, arith::AddIOp::create(b, odd, integer(0x7FFF, i32)));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  Value quiet = arith::OrIOp::create(b, bits, integer(0x400000, i32));
  rounded = arith::SelectOp::create(b, isNan, quiet, rounded);
  rounded = arith::ShRUIOp::create(b, rounded, integer(16, i32));
  return arith::BitcastOp::create(b, to, arith::TruncIOp::create(b, b.getI16Type(), rounded));
}

Value ScalarOps::decode(Value bits, Type type) {
  const llvm::fltSemantics &semantics = cast<FloatType>(type).getFloatSemantics();
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Value wide = arith::ExtUIOp::create(b, i32, bits);
  unsigned width = type.getIntOrFloatBitWidth();
  auto shifted = [&](Value x, int64_t by) -> Value {
    return arith::ShLIOp::create(b, x, integer(by, i32));
  };
  auto isCode = [&](Value x, int64_t code) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, integer(code, i32));
  };
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  };
  Value nan = constant(std::numeric_limits<double>::quiet_NaN());
  if (isa<Float8E8M0FNUType>(type)) { // an exponent alone
    Value normal = arith::BitcastOp::create(b, f32, shifted(wide, 23));
    Value least = arith::BitcastOp::create(b, f32, integer(0x00400000, i32));
    normal = arith::SelectOp::create(b, isCode(wide, 0), least, normal);
    return arith::SelectOp::create(b, isCode(wide, 255), nan, normal);
  }
  // The fields at an f32's places give the number but for the exponent's bias.
  unsigned mantissa = llvm::APFloat::semanticsPrecision(semantics) - 1;
  int bias = 1 - llvm::APFloat::semanticsMinExponent(semantics);
  int64_t sign = int64_t(1) << (width - 1);
  Value magnitude = arith::AndIOp::create(b, wide, integer(sign - 1, i32));
  Value number = arith::BitcastOp::create(b, f32, shifted(magnitude, 23 - mantissa));
  number = arith::MulFOp::create(b, number, constant(std::ldexp(1.0, 127 - bias)));
  if (isa<Float8E5M2Type>(type)) {
    Value infinity = constant(std::numeric_limits<double>::infinity());
    Value beyond =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, magnitude, integer(0x7C, i32));
    number = arith::SelectOp::create(b, isCode(magnitude, 0x7C), infinity, number);
    number = arith::SelectOp::create(b, beyond, nan, number);
  } else if (isa<Float8E4M3FNType>(type)) {
    number = arith::SelectOp::create(b, isCode(magnitude, 0x7F), nan, number);
  }
  Value negative = arith::AndIOp::create(b, wide, integer(sign, i32));
  Value flipped = arith::XOrIOp::create(b, arith::BitcastOp::create(b, i32, number),
                                        shifted(negative, 32 - width));
  number = arith::BitcastOp::create(b, f32, flipped);
  if (isa<Float8E4M3FNUZType, Float8E5M2FNUZType>(type)) // the place of -0
    number = arith::SelectOp::create(b, isCode(wide, 0x80), nan, number);
  return number;
}

Value ScalarOps::encode(Value value, Type type) {
  const llvm::fltSemantics &semantics = cast<FloatType>(type).getFloatSemantics();
  Type i32 = b.getI32Type();
  unsigned width = type.getIntOrFloatBitWidth();
  unsigned mantissa = llvm::APFloat::semanticsPrecision(semantics) - 1;
  int bias = 1 - llvm::APFloat::semanticsMinExponent(semantics);
  auto op = [&](auto tag, Value x, int64_t y) -> Value {
    return decltype(tag)::create(b, x, integer(y, i32));
  };
  Value bits = arith::BitcastOp::create(b, i32, value);
  Value magnitude = op(arith::AndIOp(), bits, 0x7FFFFFFF);
  Value absolute = math.abs(value);
  // Normal numbers: half to even at the last place that stays, then another bias.
  Value odd = op(arith::AndIOp(), op(arith::ShRUIOp(), magnitude, 23 - mantissa), 1);
  Value normal =
      arith::AddIOp::create(b, op(arith::AddIOp(), magnitude, (1 << (22 - mantissa)) - 1), odd);
  normal = op(arith::SubIOp(), op(arith::ShRUIOp(), normal, 23 - mantissa),
              int64_t(127 - bias) << mantissa);
  // Small ones: a multiple of the smallest, of which a carry makes a normal number.
  Value units = arith::MulFOp::create(
      b, absolute, math.constant(std::ldexp(1.0, int(mantissa) + bias - 1), absolute));
  Value limit = math.constant(std::ldexp(1.0, 1 - bias), absolute);
  Value isSmall = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, absolute, limit);
  units = arith::SelectOp::create(b, isSmall, units, math.constant(0.0, units));
  Value small = arith::FPToSIOp::create(b, i32, math.roundEven(units));
  Value code = arith::SelectOp::create(b, isSmall, small, normal);
  // The codes of the largest number, of what is above it, and of NaN, which as f4e2m1 is -0.
  int64_t sign = int64_t(1) << (width - 1), largest = sign - 1, above = largest, nan = sign;
  if (isa<Float8E5M2Type>(type))
    largest = 0x7B, above = 0x7C, nan = 0x7E;
  else if (isa<Float8E4M3FNType>(type))
    largest = 0x7E, above = nan = 0x7F;
  Value tooLarge = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, code, integer(largest, i32));
  bool isFnuz = isa<Float8E4M3FNUZType, Float8E5M2FNUZType>(type);
  code = arith::SelectOp::create(b, tooLarge, integer(isFnuz ? 0x80 : above, i32), code);
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  code = arith::SelectOp::create(b, isNan, integer(nan, i32), code);
  Value negative = op(arith::AndIOp(), op(arith::ShRUIOp(), bits, 32 - width), sign);
  if (isFnuz) { // neither -0 nor a NaN with a sign
    Value plain = arith::OrIOp::create(
        b, Value(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, code, integer(0, i32))),
        Value(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, code, integer(0x80, i32))));
    negative = arith::SelectOp::create(b, plain, integer(0, i32), negative);
  }
  return arith::TruncIOp::create(b, b.getI8Type(), arith::OrIOp::create(b, code, negative));
}

Value ScalarOps::cast(Value value, Type from, Type to) {
  if (from == to)
    return value;
  Type f32 = b.getF32Type();
  if (narrowFloat(from))
    return cast(decode(value, from), f32, to);
  if (narrowFloat(to))
    return encode(cast(value, from, f32), to);
  auto byteOf = [&](Type type) {
    return IntegerType::get(b.getContext(), 8,
                            type.isUnsignedInteger() ? IntegerType::Unsigned
                                                     : IntegerType::Signless);
  };
  if (isNarrowInteger(from))
    return cast(value, byteOf(from), to);
  if (isNarrowInteger(to)) {
    value = cast(value, from, byteOf(to));
    Value spare = integer(8 - to.getIntOrFloatBitWidth(), value.getType());
    value = arith::ShLIOp::create(b, value, spare);
    return to.isUnsignedInteger() ? Value(arith::ShRUIOp::create(b, value, spare))
                                  : Value(arith::ShRSIOp::create(b, value, spare));
  }
  Type target = signlessType(to);
  if (isa<FloatType>(from) && isa<FloatType>(to))
    return narrow(widen(value), to);
  if (isa<FloatType>(from)) {
    value = widen(value);
    if (to.isInteger(1))
      return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, value, math.constant(0.0, value));
    // Through i64, clamped to its range, so that no input is undefined; then wrapped to the width,
    // as C compilers for x86 do for values that fit 64 bits. NaN gives the smallest integer.
    Value wide = narrow(value, b.getF64Type());
    Value high = math.constant(9223372036854774784.0, wide),
          low = math.constant(-9223372036854775808.0, wide);
    auto less = [&](Value x, Value y) -> Value {
      return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
    };
    if (to.isUnsignedInteger(64)) {
      // The upper half of u64: subtract 2^63 first, add it back as a bit.
      Value half = math.constant(9223372036854775808.0, wide);
      Value big = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, wide, half);
      Value reduced = arith::SelectOp::create(b, big, arith::SubFOp::create(b, wide, half), wide);
      reduced = arith::SelectOp::create(b, less(high, reduced), high, reduced);
      Value ordered = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, reduced, low);
      reduced = arith::SelectOp::create(b, ordered, reduced, low);
      Value bits = arith::FPToSIOp::create(b, b.getI64Type(), reduced);
      Value flipped = arith::XOrIOp::create(
          b, bits, integer(std::numeric_limits<int64_t>::min(), b.getI64Type()));
      return arith::SelectOp::create(b, big, flipped, bits);
    }
    Value ordered = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, wide, low);
    Value clamped = arith::SelectOp::create(b, ordered, wide, low);
    clamped = arith::SelectOp::create(b, less(high, clamped), high, clamped);
    Value bits = arith::FPToSIOp::create(b, b.getI64Type(), clamped);
    return target.isInteger(64) ? bits : Value(arith::TruncIOp::create(b, target, bits));
  }
  bool fromUnsigned = from.isUnsignedInteger() || from.isInteger(1);
  if (auto floating = dyn_cast<FloatType>(to)) {
    Type compute = floating.getWidth() < 32 ? Type(b.getF32Type()) : to;
    Value result = fromUnsigned ? Value(arith::UIToFPOp::create(b, compute, value))
                                : Value(arith::SIToFPOp::create(b, compute, value));
    return narrow(result, to);
  }
  if (to.isInteger(1))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, integer(0, value.getType()));
  unsigned width = target.getIntOrFloatBitWidth(),
           fromWidth = value.getType().getIntOrFloatBitWidth();
  if (width == fromWidth)
    return value;
  if (width < fromWidth)
    return arith::TruncIOp::create(b, target, value);
  return fromUnsigned ? Value(arith::ExtUIOp::create(b, target, value))
                      : Value(arith::ExtSIOp::create(b, target, value));
}

Value ScalarOps::apply(ElementKind kind, ArrayRef<Value> operands, Type element, Type result) {
  if (kind == ElementKind::Cast)
    return cast(operands[0], element, result);
  if (kind == ElementKind::Select) {
    Value x = operands[1], y = operands[2];
    if (!x.getType().isBF16())
      return arith::SelectOp::create(b, operands[0], x, y);
    // LLVM would select in f32 and call a library to come back.
    x = arith::BitcastOp::create(b, b.getI16Type(), x);
    y = arith::BitcastOp::create(b, b.getI16Type(), y);
    return arith::BitcastOp::create(b, b.getBF16Type(),
                                    Value(arith::SelectOp::create(b, operands[0], x, y)));
  }
  if (!isa<FloatType>(element))
    return applyInteger(kind, operands, element.isUnsignedInteger());
  SmallVector<Value, 3> wide;
  for (Value operand : operands)
    wide.push_back(narrowFloat(element) ? decode(operand, element) : widen(operand));
  Value value = applyFloat(kind, wide);
  if (value && narrowFloat(result))
    return encode(value, result);
  return value && isa<FloatType>(value.getType()) ? narrow(value, result) : value;
}

Value ScalarOps::applyFloat(ElementKind kind, ArrayRef<Value> v) {
  Value x = v[0], y = v.size() > 1 ? v[1] : Value();
  auto constant = [&](double value) { return math.constant(value, x); };
  auto compare = [&](arith::CmpFPredicate predicate, Value p, Value q) -> Value {
    return arith::CmpFOp::create(b, predicate, p, q);
  };
  auto mul = [&](Value p, Value q) -> Value { return arith::MulFOp::create(b, p, q); };
  auto add = [&](Value p, Value q) -> Value { return arith::AddFOp::create(b, p, q); };
  switch (kind) {
  case ElementKind::Abs:
    return math.abs(x);
  case ElementKind::Neg:
    return arith::NegFOp::create(b, x);
  case ElementKind::Exp:
    return math.exp(x);
  case ElementKind::Log:
    return math.log(x);
  case ElementKind::Sqrt:
    return math.sqrt(x);
  case ElementKind::Rsqrt:
    return arith::DivFOp::create(b, constant(1.0), math.sqrt(x));
  case ElementKind::Reciprocal:
    return arith::DivFOp::create(b, constant(1.0), x);
  case ElementKind::Sin:
    return math.sin(x);
  case ElementKind::Cos:
    return math.cos(x);
  case ElementKind::Tan:
    return arith::DivFOp::create(b, math.sin(x), math.cos(x));
  case ElementKind::Acos:
    return math.acos(x);
  case ElementKind::Acosh:
    return math.acosh(x);
  case ElementKind::Asin:
    return math.asin(x);
  case ElementKind::Asinh:
    return math.asinh(x);
  case ElementKind::Atan:
    return math.atan(x);
  case ElementKind::Atanh:
    return math.atanh(x);
  case ElementKind::Cosh:
    return math.cosh(x);
  case ElementKind::Sinh:
    return math.sinh(x);
  case ElementKind::Tanh:
    return math.tanh(x);
  case ElementKind::Sigmoid:
    return math.sigmoid(x);
  case ElementKind::Erf:
    return math.erf(x);
  case ElementKind::Relu: {
    // max(x, 0) that keeps NaN.
    Value negative = compare(arith::CmpFPredicate::OLT, x, constant(0.0));
    return arith::SelectOp::create(b, negative, constant(0.0), x);
  }
  case ElementKind::Gelu: {
    Value half = mul(x, constant(0.5));
    Value erf = math.erf(mul(x, constant(0.70710678118654752440)));
    return math::FmaOp::create(b, half, erf, half);
  }
  case ElementKind::GeluTanh: {
    // x * sigmoid(2 u) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
    Value u = mul(x, math::FmaOp::create(b, mul(x, x), constant(0.044715), constant(1.0)));
    return mul(x, math.sigmoid(mul(u, constant(1.5957691216057308))));
  }
  case ElementKind::Silu:
    return mul(x, math.sigmoid(x));
  case ElementKind::Floor:
    return math.floor(x);
  case ElementKind::Ceil:
    return math::CeilOp::create(b, x);
  case ElementKind::Round:
    return math.roundEven(x);
  case ElementKind::Sign: {
    Value one = arith::SelectOp::create(b, compare(arith::CmpFPredicate::OGT, x, constant(0.0)),
                                        constant(1.0), x);
    return arith::SelectOp::create(b, compare(arith::CmpFPredicate::OLT, x, constant(0.0)),
                                   constant(-1.0), one);
  }
  case ElementKind::IsNan:
    return compare(arith::CmpFPredicate::UNO, x, x);
  case ElementKind::IsInf:
    return compare(arith::CmpFPredicate::OEQ, math.abs(x),
                   constant(std::numeric_limits<double>::infinity()));
  case ElementKind::Add:
    return add(x, y);
  case ElementKind::Sub:
    return arith::SubFOp::create(b, x, y);
  case ElementKind::Mul:
    return mul(x, y);
  case ElementKind::Div:
    return arith::DivFOp::create(b, x, y);
  case ElementKind::Pow:
    return math.pow(x, y);
  case ElementKind::Mod:
  case ElementKind::Fmod: {
    // x - trunc(x / y) y in f64, which is exact for quotients below 2^53.
    Value p = narrow(x, b.getF64Type()), q = narrow(y, b.getF64Type());
    Value quotient = arith::DivFOp::create(b, p, q);
    Value whole =
        kind == ElementKind::Mod ? math.floor(quotient) : Value(math::TruncOp::create(b, quotient));
    Value rest = math::FmaOp::create(b, arith::NegFOp::create(b, whole), q, p);
    // An infinite divisor leaves the dividend, or for `mod` itself when their signs differ; an
    // infinite dividend leaves NaN.
    Value infinity = math.constant(std::numeric_limits<double>::infinity(), q);
    Value infinite = compare(arith::CmpFPredicate::OEQ, math.abs(q), infinity);
    Value zero = math.constant(0.0, q), limit = p;
    if (kind == ElementKind::Mod) {
      Value below = arith::AndIOp::create(b, compare(arith::CmpFPredicate::OLT, p, zero),
                                          compare(arith::CmpFPredicate::OGT, q, zero));
      Value above = arith::AndIOp::create(b, compare(arith::CmpFPredicate::OGT, p, zero),
                                          compare(arith::CmpFPredicate::OLT, q, zero));
      Value differ = arith::OrIOp::create(b, below, above);
      limit = arith::SelectOp::create(b, differ, q, p);
    }
    rest = arith::SelectOp::create(b, infinite, limit, rest);
    Value unbounded = compare(arith::CmpFPredicate::OEQ, math.abs(p), infinity);
    rest = arith::SelectOp::create(
        b, unbounded, math.constant(std::numeric_limits<double>::quiet_NaN(), q), rest);
    return narrow(rest, x.getType());
  }
  case ElementKind::Min:
    return arith::MinimumFOp::create(b, x, y);
  case ElementKind::Max:
    return arith::MaximumFOp::create(b, x, y);
  case ElementKind::Equal:
    return compare(arith::CmpFPredicate::OEQ, x, y);
  case ElementKind::Less:
    return compare(arith::CmpFPredicate::OLT, x, y);
  case ElementKind::LessEqual:
    return compare(arith::CmpFPredicate::OLE, x, y);
  case ElementKind::Greater:
    return compare(arith::CmpFPredicate::OGT, x, y);
  case ElementKind::GreaterEqual:
    return compare(arith::CmpFPredicate::OGE, x, y);
  default:
    return {};
  }
}

Value ScalarOps::integerDivision(Value x, Value y, bool isUnsigned, bool remainder) {
  Type type = x.getType();
  Value zero = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, y, integer(0, type));
  if (onDivisionByZero)
    onDivisionByZero(zero);
  Value safe = arith::SelectOp::create(b, zero, integer(1, type), y);
  if (isUnsigned)
    return remainder ? Value(arith::RemUIOp::create(b, x, safe))
                     : Value(arith::DivUIOp::create(b, x, safe));
  // The smallest integer divided by -1 traps: -1 is a negation instead.
  Value minusOne = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, safe, integer(-1, type));
  Value divisor = arith::SelectOp::create(b, minusOne, integer(1, type), safe);
  if (remainder)
    return arith::SelectOp::create(b, minusOne, integer(0, type),
                                   Value(arith::RemSIOp::create(b, x, divisor)));
  Value negated = arith::SubIOp::create(b, integer(0, type), x);
  return arith::SelectOp::create(b, minusOne, negated,
                                 Value(arith::DivSIOp::create(b, x, divisor)));
}

Value ScalarOps::integerPower(Value x, Value y) {
  // Square and multiply over the exponent's bits; a negative exponent gives 1 / x^-y truncated.
  Type type = x.getType();
  Value one = integer(1, type), zero = integer(0, type);
  Value negative = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, y, zero);
  Value start = arith::SelectOp::create(b, negative, arith::SubIOp::create(b, zero, y), y);
  auto loop = scf::WhileOp::create(
      b, TypeRange{type, type, type}, ValueRange{one, x, start},
      [&](OpBuilder &, Location, ValueRange args) {
        Value more = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, args[2], zero);
        scf::ConditionOp::create(b, more, args);
      },
      [&](OpBuilder &, Location, ValueRange args) {
        Value bit = arith::AndIOp::create(b, args[2], one);
        Value set = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit, zero);
        Value product =
            arith::SelectOp::create(b, set, arith::MulIOp::create(b, args[0], args[1]), args[0]);
        Value square = arith::MulIOp::create(b, args[1], args[1]);
        Value rest = arith::ShRUIOp::create(b, args[2], one);
        scf::YieldOp::create(b, ValueRange{product, square, rest});
      });
  Value power = loop.getResult(0);
  Value inverse =
      integerDivision(one, arith::SelectOp::create(b, negative, power, one), false, false);
  return arith::SelectOp::create(b, negative, inverse, power);
}

Value ScalarOps::applyInteger(ElementKind kind, ArrayRef<Value> v, bool isUnsigned) {
  Value x = v[0], y = v.size() > 1 ? v[1] : Value();
  Type type = x.getType();
  bool boolean = type.isInteger(1);
  isUnsigned |= boolean;
  auto compare = [&](arith::CmpIPredicate ifSigned, arith::CmpIPredicate ifUnsigned) -> Value {
    return arith::CmpIOp::create(b, isUnsigned ? ifUnsigned : ifSigned, x, y);
  };
  using P = arith::CmpIPredicate;
  switch (kind) {
  case ElementKind::Abs:
    return isUnsigned ? x : Value(math::AbsIOp::create(b, x));
  case ElementKind::Neg:
    return arith::SubIOp::create(b, integer(0, type), x);
  case ElementKind::Relu:
    return isUnsigned ? x : Value(arith::MaxSIOp::create(b, x, integer(0, type)));
  case ElementKind::Sign: {
    Value positive = arith::CmpIOp::create(b, isUnsigned ? P::ne : P::sgt, x, integer(0, type));
    Value sign = arith::SelectOp::create(b, positive, integer(1, type), integer(0, type));
    if (isUnsigned)
      return sign;
    Value negative = arith::CmpIOp::create(b, P::slt, x, integer(0, type));
    return arith::SelectOp::create(b, negative, integer(-1, type), sign);
  }
  case ElementKind::Floor:
  case ElementKind::Ceil:
  case ElementKind::Round:
    return x;
  case ElementKind::Not:
  case ElementKind::BitNot:
    return arith::XOrIOp::create(b, x, integer(boolean ? 1 : -1, type));
  case ElementKind::Add:
    return boolean ? Value(arith::OrIOp::create(b, x, y)) : Value(arith::AddIOp::create(b, x, y));
  case ElementKind::Sub:
    return arith::SubIOp::create(b, x, y);
  case ElementKind::Mul:
    return arith::MulIOp::create(b, x, y);
  case ElementKind::Div:
    return integerDivision(x, y, isUnsigned, /*remainder=*/false);
  case ElementKind::Fmod:
    return integerDivision(x, y, isUnsigned, /*remainder=*/true);
  case ElementKind::Mod: {
    Value rest = integerDivision(x, y, isUnsigned, /*remainder=*/true);
    if (isUnsigned)
      return rest;
    // A rest whose sign differs from the divisor's moves by one divisor.
    Value zero = integer(0, type);
    Value wrong = arith::AndIOp::create(
        b, arith::CmpIOp::create(b, P::ne, rest, zero),
        Value(arith::CmpIOp::create(b, P::slt, arith::XOrIOp::create(b, rest, y), zero)));
    return arith::SelectOp::create(b, wrong, Value(arith::AddIOp::create(b, rest, y)), rest);
  }
  case ElementKind::Pow:
    return integerPower(x, y);
  case ElementKind::Min:
    return isUnsigned ? Value(arith::MinUIOp::create(b, x, y))
                      : Value(arith::MinSIOp::create(b, x, y));
  case ElementKind::Max:
    return isUnsigned ? Value(arith::MaxUIOp::create(b, x, y))
                      : Value(arith::MaxSIOp::create(b, x, y));
  case ElementKind::And:
    return arith::AndIOp::create(b, x, y);
  case ElementKind::Or:
    return arith::OrIOp::create(b, x, y);
  case ElementKind::Xor:
    return arith::XOrIOp::create(b, x, y);
  case ElementKind::Shl:
  case ElementKind::Shr: {
    // A distance of the width or more (as negative ones are) would be undefined.
    Value width = integer(type.getIntOrFloatBitWidth(), type), zero = integer(0, type);
    Value inRange = arith::CmpIOp::create(b, P::ult, y, width);
    Value distance = arith::SelectOp::create(b, inRange, y, zero);
    if (kind == ElementKind::Shl) {
      Value shifted = arith::ShLIOp::create(b, x, distance);
      return arith::SelectOp::create(b, inRange, shifted, zero);
    }
    if (isUnsigned) {
      Value shifted = arith::ShRUIOp::create(b, x, distance);
      return arith::SelectOp::create(b, inRange, shifted, zero);
    }
    Value most = integer(type.getIntOrFloatBitWidth() - 1, type);
    return arith::ShRSIOp::create(b, x, Value(arith::SelectOp::create(b, inRange, y, most)));
  }
  case ElementKind::Equal:
    return compare(P::eq, P::eq);
  case ElementKind::Less:
    return compare(P::slt, P::ult);
  case ElementKind::LessEqual:
    return compare(P::sle, P::ule);
  case ElementKind::Greater:
    return compare(P::sgt, P::ugt);
  case ElementKind::GreaterEqual:
    return compare(P::sge, P::uge);
  case ElementKind::IsNan:
  case ElementKind::IsInf:
    return integer(0, b.getI1Type());
  default:
    return {};
  }
}

} // namespace llmc
