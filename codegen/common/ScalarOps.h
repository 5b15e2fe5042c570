// SPDX-License-Identifier: Apache-2.0
//
// The scalar meaning of every `llm.elementwise` kind, shared by all targets.
// Element types keep their signedness (`ui8`); values are signless as arith
// wants them, f16 and bf16 are computed in f32 and rounded once.
#ifndef LLMC_CODEGEN_COMMON_SCALAR_OPS_H
#define LLMC_CODEGEN_COMMON_SCALAR_OPS_H

#include "codegen/common/ScalarMath.h"
#include "compiler/ir/llm/LlmDialect.h"

namespace llmc {

/// The signless type in which a value of `element` is computed and passed: uiN -> iN. Floats of 8
/// bits and less are passed as their bits, integers of less as their values, both in an i8.
mlir::Type signlessType(mlir::Type element);

class ScalarOps {
public:
  /// `onDivisionByZero`, if set, is called with an i1 that is true where an integer divisor is 0.
  ScalarOps(mlir::ImplicitLocOpBuilder &builder,
            std::function<void(mlir::Value)> onDivisionByZero = {})
      : math(builder), b(builder), onDivisionByZero(std::move(onDivisionByZero)) {}

  /// The function `kind` on scalars whose element type is `element` (of the first data operand);
  /// `result` is the result's element type. Null when this combination has no meaning.
  mlir::Value apply(llm::ElementKind kind, llvm::ArrayRef<mlir::Value> operands, mlir::Type element,
                    mlir::Type result);

  /// The same on f32 or f64, for vectors as well as scalars; `mod` and `fmod` are scalar only.
  mlir::Value applyFloat(llm::ElementKind kind, llvm::ArrayRef<mlir::Value> operands);

  mlir::Value cast(mlir::Value value, mlir::Type from, mlir::Type to);
  /// Widens f16 and bf16 to f32; other types pass.
  mlir::Value widen(mlir::Value value);
  /// Rounds an f32 to `to` (f16, bf16, f32, f64), half to even.
  mlir::Value narrow(mlir::Value value, mlir::Type to);

  ScalarMath math;

private:
  /// The f32 that a float of at most 8 bits stands for.
  mlir::Value decode(mlir::Value bits, mlir::Type type);
  /// The bits of the float of `type` nearest to an f32, ties to even. What is too large becomes
  /// infinity or NaN, or, in a type without either, the largest number.
  mlir::Value encode(mlir::Value value, mlir::Type type);
  mlir::Value applyInteger(llm::ElementKind kind, llvm::ArrayRef<mlir::Value> operands,
                           bool isUnsigned);
  mlir::Value integerDivision(mlir::Value x, mlir::Value y, bool isUnsigned, bool remainder);
  mlir::Value integerPower(mlir::Value x, mlir::Value y);
  mlir::Value integer(int64_t value, mlir::Type type);

  mlir::ImplicitLocOpBuilder &b;
  std::function<void(mlir::Value)> onDivisionByZero;
};

} // namespace llmc

#endif // LLMC_CODEGEN_COMMON_SCALAR_OPS_H
