// SPDX-License-Identifier: Apache-2.0
//
// Kernels of elementwise ops alone, as vectors: activations between products
// that no epilogue holds, such as a gated MLP's. Scalar loops over functions
// such as exp are not vectorised by LLVM.
#ifndef LLMC_CODEGEN_CPU_VECTOR_KERNELS_H
#define LLMC_CODEGEN_CPU_VECTOR_KERNELS_H

#include "codegen/cpu/KernelEmitter.h"

namespace llmc::cpu {

/// Whether the kernel yields one f32 tensor that elementwise ops make from f32 tensors in memory.
bool isVectorKernel(KernelEmitter &emitter);

/// Emits such a kernel's body. Fails after a diagnostic.
mlir::LogicalResult emitVectorKernel(KernelEmitter &emitter);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_VECTOR_KERNELS_H
