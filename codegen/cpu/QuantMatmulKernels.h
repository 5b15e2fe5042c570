// SPDX-License-Identifier: Apache-2.0
//
// Products of quantized rows with quantized weights: matrix-vector code that
// reads several weight streams at once, and register-tiled code for more rows,
// chosen inside one kernel by the number of rows. Groups are added exactly as
// integers and in the order of k as f32, so a result depends on neither the
// number of workers nor the choice.
#ifndef LLMC_CODEGEN_CPU_QUANT_MATMUL_KERNELS_H
#define LLMC_CODEGEN_CPU_QUANT_MATMUL_KERNELS_H

#include "codegen/cpu/KernelEmitter.h"

namespace llmc::cpu {

/// Whether `kernel` is a product of a quantized side with a packed quantized weight, maybe with
/// elementwise ops behind it.
bool isQuantMatmul(rt::KernelOp kernel);

/// Emits the body of a kernel of which isQuantMatmul holds. Fails after a diagnostic.
mlir::LogicalResult emitQuantMatmul(KernelEmitter &emitter);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_QUANT_MATMUL_KERNELS_H
