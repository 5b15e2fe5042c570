// SPDX-License-Identifier: Apache-2.0
//
// What weights of a file become when a model is read: the numbers that quantized
// ones stand for, and kernels of convolutions as matrices.
#ifndef LLMC_COMPILER_IR_IMPORTTRANSFORMS_H
#define LLMC_COMPILER_IR_IMPORTTRANSFORMS_H

#include "compiler/ir/WeightStore.h"

namespace llmc {

/// (input - zero) * scale, as `llm.dequantize` describes it.
struct Dequantization {
  /// The types of the values: a source may hold the same bytes under another type, as MatMulNBits
  /// has 4-bit values in a tensor of bytes.
  WeightType input, scale, zero; // element Invalid: no scale, or no zero
  WeightType result;
  int64_t axis = 0;
  int64_t block = 0; // 0: a scale for each index of `axis`, or one for all
};

/// The sources are the input, the scale and the zero, those that there are.
std::unique_ptr<const WeightTransform> dequantize(Dequantization parameters);

/// The source with its dimensions permuted, then, row-major, as a tensor of `shape`.
std::unique_ptr<const WeightTransform> rearrange(llvm::ArrayRef<int64_t> permutation,
                                                 llvm::ArrayRef<int64_t> shape);

/// The number that `bits`, an element of `type` with at most 32 bits, stands for.
double numberFromBits(ElementType type, uint32_t bits);

} // namespace llmc

#endif // LLMC_COMPILER_IR_IMPORTTRANSFORMS_H
