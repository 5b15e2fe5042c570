// SPDX-License-Identifier: Apache-2.0
//
// Products with a packed weight: matrix-vector code that reads several weight
// streams at once, and register-tiled matrix-matrix code, chosen inside one
// kernel by the number of rows. Both add in the order of k, so a result depends
// on neither the number of workers nor the choice.
#ifndef LLMC_CODEGEN_CPU_MATMUL_KERNELS_H
#define LLMC_CODEGEN_CPU_MATMUL_KERNELS_H

#include "codegen/cpu/KernelEmitter.h"

namespace llmc::cpu {

/// The packed layout that `op` wants for its weight `operand`, or "plain".
std::string matmulWeightLayout(mlir::Operation *op, unsigned operand);

/// Whether `kernel` is a product with a packed weight, maybe with elementwise ops behind it.
bool isPackedMatmul(rt::KernelOp kernel);

/// Emits the body of a kernel of which isPackedMatmul holds. Fails after a diagnostic.
mlir::LogicalResult emitPackedMatmul(KernelEmitter &emitter);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_MATMUL_KERNELS_H
