// SPDX-License-Identifier: Apache-2.0
//
// The layouts in which CPU kernels read weights: columns of a matrix product in
// blocks of 16, so that one 64-byte line feeds 16 results. One packed copy
// serves every number of rows and every ISA level.
//
//   f32.16   f32  [N/16][K][16]
//   h16.16   f16  [N/16][K][16]
//   b16.16   bf16 [N/16][K/2][16][2], K rounded up to even
//
// N is rounded up to a multiple of 16; what is added is zero.
#ifndef LLMC_CODEGEN_CPU_WEIGHT_PACKING_H
#define LLMC_CODEGEN_CPU_WEIGHT_PACKING_H

#include "compiler/ir/WeightStore.h"

#include "mlir/IR/BuiltinTypes.h"

namespace llmc::cpu {

constexpr llvm::StringLiteral kPackedF32 = "f32.16";
constexpr llvm::StringLiteral kPackedF16 = "h16.16";
constexpr llvm::StringLiteral kPackedBf16 = "b16.16";
constexpr int64_t kBlockColumns = 16;

/// The layout that a type carries as its encoding; empty for row-major.
llvm::StringRef packedLayoutOf(mlir::Type type);

/// Packs a matrix [K, N], or [N, K] when `transposed`. Null when `layout` is not one of the above.
std::unique_ptr<WeightTransform> packColumns(llvm::StringRef layout, bool transposed);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_WEIGHT_PACKING_H
