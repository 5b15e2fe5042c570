// SPDX-License-Identifier: Apache-2.0
//
// Transforms that importing and graph passes need; packing for a device and
// quantization implement WeightTransform where they belong. All need elements
// of whole bytes.
#ifndef LLMC_COMPILER_IR_WEIGHTTRANSFORMS_H
#define LLMC_COMPILER_IR_WEIGHTTRANSFORMS_H

#include "compiler/ir/WeightStore.h"

namespace llmc {

/// [rows, columns] -> [columns, rows].
std::unique_ptr<const WeightTransform> transpose2d();
/// f32 -> bf16, rounding to the nearest, ties to even; NaN stays NaN.
std::unique_ptr<const WeightTransform> convertToBf16();
/// f32 -> f16, likewise; values too large become infinite.
std::unique_ptr<const WeightTransform> convertToF16();
/// Elements [offsets, offsets + sizes) of each dimension.
std::unique_ptr<const WeightTransform> slice(llvm::ArrayRef<int64_t> offsets,
                                             llvm::ArrayRef<int64_t> sizes);

} // namespace llmc

#endif // LLMC_COMPILER_IR_WEIGHTTRANSFORMS_H
