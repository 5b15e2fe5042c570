// SPDX-License-Identifier: Apache-2.0
//
// The integer instructions of products with quantized weights: 4 k of `lanes`
// columns at a time, from the bytes of weights and of activations. A chain runs
// over one activation group and is exact, so that all ways to compute it give
// the same integers.
#ifndef LLMC_CODEGEN_CPU_QUANT_DOT_H
#define LLMC_CODEGEN_CPU_QUANT_DOT_H

#include "codegen/cpu/KernelEmitter.h"
#include "compiler/ir/llm/QuantizedRows.h"

namespace llmc::cpu {

/// Chains over u4 weights, stored + 8, or over s8 weights, stored + 128.
class QuantDot {
public:
  QuantDot(KernelEmitter &emitter, bool int4, llm::QuantizedRecord record)
      : e(emitter), b(emitter.b), int4(int4), record(record) {}

  /// The value with which a chain starts: what the weights' offset adds, negated.
  mlir::Value start(mlir::Value activationRecord);
  /// 4 * lanes bytes as stored, or the nibbles of half of them.
  mlir::Value loadBytes(mlir::Value pointer, int64_t offset);
  mlir::Value lowNibbles(mlir::Value bytes);
  mlir::Value highNibbles(mlir::Value bytes);
  /// 4 activations at `pointer`, for all columns.
  mlir::Value broadcastBytes(mlir::Value pointer);
  /// One step of a chain.
  mlir::Value step(mlir::Value chain, mlir::Value weights, mlir::Value activations);
  /// The chain's sums as i32.
  mlir::Value finish(mlir::Value chain);
  /// `factor` (i32 lanes that fit 16 bits) times the sum of the record's values.
  mlir::Value timesSum(mlir::Value factor, mlir::Value activationRecord);

  mlir::VectorType bytesType() { return vectorOf(4 * lanes(), b.getI8Type()); }
  mlir::VectorType wordsType() { return vectorOf(2 * lanes(), b.getI16Type()); }
  mlir::VectorType integersType() { return vectorOf(lanes(), b.getI32Type()); }

private:
  static mlir::VectorType vectorOf(int64_t count, mlir::Type element) {
    return mlir::VectorType::get({count}, element);
  }
  int64_t lanes() const { return e.isa.lanes; }
  mlir::Value splat(mlir::VectorType type, int64_t value);
  mlir::Value broadcastInteger(mlir::Value pointer);
  /// An instruction on 256-bit vectors, or on 512-bit ones where the level has it; else on halves.
  mlir::Value call(llvm::StringRef name, llvm::StringRef wideName, mlir::VectorType result,
                   mlir::Value x, mlir::Value y);
  mlir::Value multiplyBytes(mlir::Value unsignedBytes, mlir::Value signedBytes);
  mlir::Value multiplyWords(mlir::Value x, mlir::Value y);
  /// `sums` plus the products of 4 adjacent bytes each.
  mlir::Value addByteDots(mlir::Value sums, mlir::Value unsignedBytes, mlir::Value signedBytes);

  KernelEmitter &e;
  mlir::ImplicitLocOpBuilder &b;
  bool int4;
  llm::QuantizedRecord record;
};

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_QUANT_DOT_H
