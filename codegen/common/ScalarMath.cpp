// SPDX-License-Identifier: Apache-2.0
//
// Range reduction by exact splitting, then a polynomial. Coefficients of exp,
// log, tanh, sin, cos and atan are those of the Cephes library (S. Moshier), erf's
// rational function that of Eigen; numbers are facts, the code is ours.
#include "codegen/common/ScalarMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace llmc {

Type ScalarMath::withElement(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Value ScalarMath::constant(double value, Value like) {
  Type type = like.getType();
  auto attr = FloatAttr::get(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, SplatElementsAttr::get(vector, attr));
  return arith::ConstantOp::create(b, attr);
}

Value ScalarMath::integer(int64_t value, Type type) {
  auto attr = b.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, SplatElementsAttr::get(vector, attr));
  return arith::ConstantOp::create(b, attr);
}

Value ScalarMath::add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
Value ScalarMath::sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
Value ScalarMath::mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
Value ScalarMath::div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
Value ScalarMath::fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
Value ScalarMath::select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
Value ScalarMath::sqrt(Value x) { return math::SqrtOp::create(b, x); }
Value ScalarMath::abs(Value x) { return math::AbsFOp::create(b, x); }
Value ScalarMath::floor(Value x) { return math::FloorOp::create(b, x); }
Value ScalarMath::roundEven(Value x) { return math::RoundEvenOp::create(b, x); }

Value ScalarMath::less(Value x, Value y) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
}
Value ScalarMath::equal(Value x, Value y) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y);
}
Value ScalarMath::isNan(Value x) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
}
Value ScalarMath::toF64(Value x) {
  return getElementTypeOrSelf(x.getType()).isF64()
             ? x
             : Value(arith::ExtFOp::create(b, withElement(x.getType(), b.getF64Type()), x));
}
Value ScalarMath::toF32(Value x) {
  return arith::TruncFOp::create(b, withElement(x.getType(), b.getF32Type()), x);
}

Value ScalarMath::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = constant(coefficients.front(), x);
  for (double coefficient : coefficients.drop_front())
    sum = fma(sum, x, constant(coefficient, x));
  return sum;
}

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value ScalarMath::exp(Value x) {
  if (getElementTypeOrSelf(x.getType()).isF64())
    return exp64(x);
  // exp(x) = 2^n exp(r), |r| <= ln2 / 2. Adding 1.5 * 2^23 rounds n to an integer in the low bits
  // of the sum without an integer conversion, which would be undefined for NaN.
  Type intType = withElement(x.getType(), b.getI32Type());
  Value high = constant(88.8, x), low = constant(-104.0, x);
  Value clamped = select(less(high, x), high, select(less(x, low), low, x));
  Value magic = constant(12582912.0, x);
  Value shifted = fma(clamped, constant(1.44269504088896341, x), magic);
  Value n = sub(shifted, magic);
  Value r = fma(n, constant(-0.693359375, x), clamped);
  r = fma(n, constant(2.12194440e-4, x), r);
  Value p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                           1.6666665459e-1, 5.0000001201e-1});
  p = add(fma(mul(r, r), p, r), constant(1.0, x));
  // Two factors of 2^(n/2) reach denormals and infinity.
  Value bits = arith::SubIOp::create(b, arith::BitcastOp::create(b, intType, shifted),
                                     integer(0x4B400000, intType));
  Value half = arith::ShRSIOp::create(b, bits, integer(1, intType));
  auto power = [&](Value exponent) -> Value {
    Value biased = arith::AddIOp::create(b, exponent, integer(127, intType));
    return arith::BitcastOp::create(b, x.getType(),
                                    Value(arith::ShLIOp::create(b, biased, integer(23, intType))));
  };
  return mul(mul(p, power(half)), power(arith::SubIOp::create(b, bits, half)));
}

Value ScalarMath::exp64(Value x) {
  Type intType = withElement(x.getType(), b.getI64Type());
  Value high = constant(709.9, x), low = constant(-745.2, x);
  Value clamped = select(less(high, x), high, select(less(x, low), low, x));
  Value magic = constant(6755399441055744.0, x); // 1.5 * 2^52
  Value shifted = fma(clamped, constant(1.4426950408889634073599, x), magic);
  Value n = sub(shifted, magic);
  Value r = fma(n, constant(-6.93145751953125e-1, x), clamped);
  r = fma(n, constant(-1.42860682030941723212e-6, x), r);
  Value rr = mul(r, r);
  Value px = mul(r, polynomial(rr, {1.26177193074810590878e-4, 3.02994407707441961300e-2,
                                    9.99999999999999999910e-1}));
  Value qx = polynomial(rr, {3.00198505138664455042e-6, 2.52448340349684104192e-3,
                             2.27265548208155028766e-1, 2.00000000000000000005e0});
  Value p = fma(constant(2.0, x), div(px, sub(qx, px)), constant(1.0, x));
  Value bits = arith::SubIOp::create(b, arith::BitcastOp::create(b, intType, shifted),
                                     integer(0x4338000000000000, intType));
  Value half = arith::ShRSIOp::create(b, bits, integer(1, intType));
  auto power = [&](Value exponent) -> Value {
    Value biased = arith::AddIOp::create(b, exponent, integer(1023, intType));
    return arith::BitcastOp::create(b, x.getType(),
                                    Value(arith::ShLIOp::create(b, biased, integer(52, intType))));
  };
  return mul(mul(p, power(half)), power(arith::SubIOp::create(b, bits, half)));
}

Value ScalarMath::log(Value x) {
  if (getElementTypeOrSelf(x.getType()).isF64())
    return log64(x);
  // f64 arithmetic costs little next to the memory it reads and keeps the last bit right.
  return toF32(log64(toF64(x)));
}

Value ScalarMath::log64(Value x) {
  Type intType = withElement(x.getType(), b.getI64Type());
  Value tiny = less(x, constant(2.2250738585072014e-308, x));
  Value scaled = select(tiny, mul(x, constant(18014398509481984.0, x)), x); // 2^54
  Value bits = arith::BitcastOp::create(b, intType, scaled);
  // Exponent so that the fraction lies in [sqrt(1/2), sqrt(2)).
  Value offset = arith::SubIOp::create(b, bits, integer(0x3FE6A09E667F3BCD, intType));
  Value exponent = arith::ShRSIOp::create(b, offset, integer(52, intType));
  Value fraction = arith::BitcastOp::create(
      b, x.getType(),
      Value(arith::SubIOp::create(
          b, bits, Value(arith::ShLIOp::create(b, exponent, integer(52, intType))))));
  // The exponent is small: adding the magic number's bits converts it exactly.
  Value e =
      sub(arith::BitcastOp::create(
              b, x.getType(),
              Value(arith::AddIOp::create(b, exponent, integer(0x4338000000000000, intType)))),
          constant(6755399441055744.0, x));
  e = select(tiny, sub(e, constant(54.0, x)), e);
  Value f = sub(fraction, constant(1.0, x));
  Value z = mul(f, f);
  Value p =
      polynomial(f, {1.01875663804580931796e-4, 4.97494994976747001425e-1, 4.70579119878881725854e0,
                     1.44989225341610930846e1, 1.79368678507819816313e1, 7.70838733755885391666e0});
  Value q =
      polynomial(f, {1.0, 1.12873587189167450590e1, 4.52279145837532221105e1,
                     8.29875266912776603211e1, 7.11544750618563894466e1, 2.31251620126765340583e1});
  Value y = mul(f, div(mul(z, p), q));
  y = fma(e, constant(-2.121944400546905827679e-4, x), y);
  y = fma(z, constant(-0.5, x), y);
  Value result = fma(e, constant(0.693359375, x), add(f, y));
  result = select(equal(x, constant(kInfinity, x)), x, result);
  result = select(equal(x, constant(0.0, x)), constant(-kInfinity, x), result);
  Value bad = arith::CmpFOp::create(b, arith::CmpFPredicate::ULT, x, constant(0.0, x));
  return select(bad, constant(std::numeric_limits<double>::quiet_NaN(), x), result);
}

Value ScalarMath::tanh(Value x) {
  Value a = abs(x), one = constant(1.0, x);
  Value z = mul(x, x);
  Value e = exp(mul(a, constant(2.0, x)));
  Value large = sub(one, div(constant(2.0, x), add(e, one)));
  large = math::CopySignOp::create(b, large, x);
  Value small;
  if (getElementTypeOrSelf(x.getType()).isF64()) {
    Value p = polynomial(
        z, {-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3});
    Value q = polynomial(
        z, {1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3});
    small = fma(mul(x, z), div(p, q), x);
  } else {
    Value p = polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                             1.33314422036e-1, -3.33332819422e-1});
    small = fma(mul(x, z), p, x);
  }
  return select(less(a, constant(0.625, x)), small, large);
}

Value ScalarMath::sigmoid(Value x) {
  Value one = constant(1.0, x);
  return div(one, add(one, exp(arith::NegFOp::create(b, x))));
}

Value ScalarMath::erf(Value x) {
  bool wide = getElementTypeOrSelf(x.getType()).isF64();
  if (wide) {
    // Near 0 the Taylor-like series converges; further out erfc by its continued fraction.
    Value a = abs(x), z = mul(x, x);
    // erf(x) = 2x/sqrt(pi) exp(-x^2) sum_n (2x^2)^n / (1*3*...*(2n+1)); 40 terms reach 1e-16
    // at 2.5.
    Value term = constant(1.0, x), sum = term;
    for (int n = 1; n <= 48; ++n) {
      term = mul(term, mul(z, constant(2.0 / (2 * n + 1), x)));
      sum = add(sum, term);
    }
    Value e = exp(arith::NegFOp::create(b, z));
    Value small = mul(mul(x, constant(1.1283791670955125738961589, x)), mul(e, sum));
    // erfc(a) = exp(-a^2)/sqrt(pi) / (a + (1/2)/(a + 1/(a + (3/2)/(a + …))))
    Value fraction = a;
    for (int n = 60; n >= 1; --n)
      fraction = add(a, div(constant(n / 2.0, x), fraction));
    Value tail = div(mul(e, constant(0.56418958354775628694807945, x)), fraction);
    Value large = math::CopySignOp::create(b, sub(constant(1.0, x), tail), x);
    return select(less(a, constant(2.5, x)), small, large);
  }
  Value limit = constant(4.0, x), low = constant(-4.0, x);
  Value c = select(less(limit, x), limit, select(less(x, low), low, x));
  Value z = mul(c, c);
  Value p = polynomial(z, {-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06,
                           -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03,
                           -1.60960333262415e-02});
  Value q = polynomial(z, {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
                           -7.37332916720468e-03, -1.42647390514189e-02});
  return div(mul(c, p), q);
}

Value ScalarMath::sinOrCos(Value x, bool cosine) {
  bool narrow = !getElementTypeOrSelf(x.getType()).isF64();
  // Reduction in f64: rotary angles reach 1e6, where f32 constants would lose every digit.
  Value wide = toF64(x);
  Type intType = withElement(wide.getType(), b.getI64Type());
  Value magic = constant(6755399441055744.0, wide);
  Value shifted = fma(wide, constant(0.63661977236758134308, wide), magic); // 2 / pi
  Value n = sub(shifted, magic);
  Value r = fma(n, constant(-1.57079632673412561417e+00, wide), wide);
  r = fma(n, constant(-6.07710050650619224932e-11, wide), r);
  Value quadrant = arith::BitcastOp::create(b, intType, shifted);
  if (cosine)
    quadrant = arith::AddIOp::create(b, quadrant, integer(1, intType));
  Value z = mul(r, r);
  Value s = polynomial(z, {1.58962301576546568060e-10, -2.50507477628578072866e-8,
                           2.75573136213857245213e-6, -1.98412698295895385996e-4,
                           8.33333333332211858878e-3, -1.66666666666666307295e-1});
  s = fma(mul(r, z), s, r);
  Value c = polynomial(z, {-1.13585365213876817300e-11, 2.08757008419747316778e-9,
                           -2.75573141792967388112e-7, 2.48015872888517045348e-5,
                           -1.38888888888730564116e-3, 4.16666666666665929218e-2});
  c = fma(mul(z, z), c, fma(z, constant(-0.5, wide), constant(1.0, wide)));
  auto bit = [&](int64_t mask) -> Value {
    Value masked = arith::AndIOp::create(b, quadrant, integer(mask, intType));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, integer(0, intType));
  };
  Value result = select(bit(1), c, s);
  result = select(bit(2), arith::NegFOp::create(b, result), result);
  // Infinity has no angle.
  result = select(equal(abs(wide), constant(kInfinity, wide)),
                  constant(std::numeric_limits<double>::quiet_NaN(), wide), result);
  return narrow ? toF32(result) : result;
}

Value ScalarMath::like(Value value, Value like) {
  return getElementTypeOrSelf(like.getType()).isF64() ? value : toF32(value);
}

Value ScalarMath::atan64(Value x) {
  // Beyond tan(3 pi / 8): pi/2 - atan(1/x). Beyond tan(pi / 8): pi/4 + atan((x - 1) / (x + 1)).
  Value a = abs(x), one = constant(1.0, x), zero = constant(0.0, x);
  Value large = less(constant(2.41421356237309504880, x), a);
  Value middle = less(constant(0.66, x), a);
  Value r =
      select(large, div(constant(-1.0, x), a), select(middle, div(sub(a, one), add(a, one)), a));
  Value base = select(large, constant(1.57079632679489661923, x),
                      select(middle, constant(0.78539816339744830962, x), zero));
  Value z = mul(r, r);
  Value p = polynomial(z, {-8.750608600031904122785e-1, -1.615753718733365076637e1,
                           -7.500855792314704667340e1, -1.228866684490136173410e2,
                           -6.485021904942025371773e1});
  Value q = polynomial(z, {1.0, 2.485846490142306297962e1, 1.650270098316988542046e2,
                           4.328810604912902668951e2, 4.853903996359136964868e2,
                           1.945506571482613964425e2});
  Value result = add(base, fma(mul(r, z), div(p, q), r));
  return math::CopySignOp::create(b, result, x);
}

Value ScalarMath::logOnePlus64(Value x) {
  // The rounding error of 1 + x scales the logarithm as it scales its argument's distance from 1.
  Value sum = add(constant(1.0, x), x), distance = sub(sum, constant(1.0, x));
  Value result = mul(log64(sum), div(x, distance));
  result = select(equal(distance, constant(0.0, x)), x, result);
  return select(equal(x, constant(kInfinity, x)), x, result);
}

Value ScalarMath::atan(Value x) { return like(atan64(toF64(x)), x); }

Value ScalarMath::asin(Value x) {
  Value wide = toF64(x), one = constant(1.0, wide);
  Value other = sqrt(mul(sub(one, wide), add(one, wide)));
  return like(atan64(div(wide, other)), x);
}

Value ScalarMath::acos(Value x) {
  Value wide = toF64(x), one = constant(1.0, wide);
  Value half = atan64(sqrt(div(sub(one, wide), add(one, wide))));
  return like(add(half, half), x);
}

Value ScalarMath::asinh(Value x) {
  Value wide = toF64(x), a = abs(wide), one = constant(1.0, wide);
  Value square = mul(a, a);
  Value result = logOnePlus64(add(a, div(square, add(one, sqrt(add(square, one))))));
  // Where the square overflows, log(2 a).
  Value huge = add(log64(a), constant(0.69314718055994530942, wide));
  result = select(less(constant(1e150, wide), a), huge, result);
  return like(math::CopySignOp::create(b, result, wide), x);
}

Value ScalarMath::acosh(Value x) {
  Value wide = toF64(x), t = sub(wide, constant(1.0, wide));
  Value result = logOnePlus64(add(t, sqrt(mul(t, add(t, constant(2.0, wide))))));
  Value huge = add(log64(wide), constant(0.69314718055994530942, wide));
  result = select(less(constant(1e150, wide), wide), huge, result);
  Value nan = constant(std::numeric_limits<double>::quiet_NaN(), wide);
  return like(select(less(wide, constant(1.0, wide)), nan, result), x);
}

Value ScalarMath::atanh(Value x) {
  Value wide = toF64(x), a = abs(wide);
  Value result =
      mul(constant(0.5, wide), logOnePlus64(div(add(a, a), sub(constant(1.0, wide), a))));
  return like(math::CopySignOp::create(b, result, wide), x);
}

Value ScalarMath::cosh(Value x) {
  // From the exponential of half of it, whose square overflows no earlier than the result.
  Value wide = toF64(x), half = constant(0.5, wide);
  Value e = exp64(mul(abs(wide), half)), inverse = div(half, e);
  return like(add(mul(mul(half, e), e), div(inverse, e)), x);
}

Value ScalarMath::sinh(Value x) {
  Value wide = toF64(x), a = abs(wide), half = constant(0.5, wide);
  Value e = exp64(mul(a, half)), inverse = div(half, e);
  Value large = sub(mul(mul(half, e), e), div(inverse, e));
  // Taylor's series where the difference would cancel.
  Value z = mul(a, a);
  Value small = polynomial(z, {1.0 / 1307674368000.0, 1.0 / 6227020800.0, 1.0 / 39916800.0,
                               1.0 / 362880.0, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0});
  small = fma(mul(a, z), small, a);
  Value result = select(less(a, half), small, large);
  return like(math::CopySignOp::create(b, result, wide), x);
}

Value ScalarMath::pow(Value x, Value y) {
  bool narrow = !getElementTypeOrSelf(x.getType()).isF64();
  Value base = toF64(x), exponent = toF64(y);
  Value one = constant(1.0, base), zero = constant(0.0, base);
  Value magnitude = exp64(mul(exponent, log64(abs(base))));
  // 0 * inf and inf * 0 in the product above: pow(±1, ±inf) and pow(anything, 0) are 1.
  Value isOne = equal(abs(base), one);
  magnitude = select(isOne, one, magnitude);
  Value integral = equal(roundEven(exponent), exponent);
  Value halfExponent = mul(exponent, constant(0.5, base));
  Value even = equal(roundEven(halfExponent), halfExponent);
  Value negative = arith::CmpIOp::create(
      b, arith::CmpIPredicate::slt,
      Value(arith::BitcastOp::create(b, withElement(base.getType(), b.getI64Type()), base)),
      integer(0, withElement(base.getType(), b.getI64Type())));
  Value odd = arith::AndIOp::create(
      b, integral, Value(arith::XOrIOp::create(b, even, integer(1, even.getType()))));
  Value flip = arith::AndIOp::create(b, negative, odd);
  Value result = select(flip, arith::NegFOp::create(b, magnitude), magnitude);
  // A negative finite base needs an integral exponent (infinities count as integral and even).
  Value fractional = arith::XOrIOp::create(b, integral, integer(1, integral.getType()));
  Value finiteBase = less(abs(base), constant(kInfinity, base));
  Value invalid =
      arith::AndIOp::create(b, arith::AndIOp::create(b, less(base, zero), finiteBase), fractional);
  result = select(invalid, constant(std::numeric_limits<double>::quiet_NaN(), base), result);
  Value nan = arith::OrIOp::create(b, isNan(base), isNan(exponent));
  result = select(nan, add(base, exponent), result);
  Value trivial = arith::OrIOp::create(b, equal(exponent, zero), equal(base, one));
  result = select(trivial, one, result);
  return narrow ? toF32(result) : result;
}

} // namespace llmc
