// SPDX-License-Identifier: Apache-2.0
//
// Transcendental functions as plain arithmetic, for f32 and f64 scalars and
// vectors alike, so that every target computes the same bits and no kernel
// needs a math library. Accuracy (f32, against f64): exp, log, tanh, sigmoid,
// sin, cos within 2 ulp, erf within 4e-7 absolute; pow is computed in f64.
#ifndef LLMC_CODEGEN_COMMON_SCALAR_MATH_H
#define LLMC_CODEGEN_COMMON_SCALAR_MATH_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace llmc {

class ScalarMath {
public:
  explicit ScalarMath(mlir::ImplicitLocOpBuilder &builder) : b(builder) {}

  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value sin(mlir::Value x) { return sinOrCos(x, /*cosine=*/false); }
  mlir::Value cos(mlir::Value x) { return sinOrCos(x, /*cosine=*/true); }
  // Computed in f64, also for f32; NaN outside of their domains.
  mlir::Value acos(mlir::Value x);
  mlir::Value acosh(mlir::Value x);
  mlir::Value asin(mlir::Value x);
  mlir::Value asinh(mlir::Value x);
  mlir::Value atan(mlir::Value x);
  mlir::Value atanh(mlir::Value x);
  mlir::Value cosh(mlir::Value x);
  mlir::Value sinh(mlir::Value x);
  /// IEEE pow, including signs of integral exponents, zeros, infinities and NaN.
  mlir::Value pow(mlir::Value x, mlir::Value y);
  mlir::Value sqrt(mlir::Value x);
  mlir::Value abs(mlir::Value x);
  mlir::Value floor(mlir::Value x);
  mlir::Value roundEven(mlir::Value x);

  /// A floating constant of the type of `like`.
  mlir::Value constant(double value, mlir::Value like);

private:
  mlir::Value sinOrCos(mlir::Value x, bool cosine);
  mlir::Value exp64(mlir::Value x);
  mlir::Value log64(mlir::Value x);
  mlir::Value atan64(mlir::Value x);
  /// log(1 + x) that keeps small x.
  mlir::Value logOnePlus64(mlir::Value x);
  /// `value`, computed in f64, in the type of `like`.
  mlir::Value like(mlir::Value value, mlir::Value like);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z);
  /// coefficients[0] * x^n + … + coefficients[n], by Horner's rule.
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<double> coefficients);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  /// Ordered comparison: false when either side is NaN.
  mlir::Value less(mlir::Value x, mlir::Value y);
  mlir::Value equal(mlir::Value x, mlir::Value y);
  mlir::Value isNan(mlir::Value x);
  /// The type of `like` with another element type.
  mlir::Type withElement(mlir::Type like, mlir::Type element);
  mlir::Value integer(int64_t value, mlir::Type type);
  mlir::Value toF64(mlir::Value x);
  mlir::Value toF32(mlir::Value x);

  mlir::ImplicitLocOpBuilder &b;
};

} // namespace llmc

#endif // LLMC_CODEGEN_COMMON_SCALAR_MATH_H
