// SPDX-License-Identifier: Apache-2.0
//
// Attention in one pass over the keys (online softmax) on tiles of queries: all
// query heads of a group share the keys and values that one read brings in.
#ifndef LLMC_CODEGEN_CPU_ATTENTION_KERNELS_H
#define LLMC_CODEGEN_CPU_ATTENTION_KERNELS_H

#include "codegen/cpu/KernelEmitter.h"

namespace llmc::cpu {

/// Whether `kernel` is f32 attention of sizes that emitAttention takes.
bool isTiledAttention(rt::KernelOp kernel);

/// Emits the body of a kernel of which isTiledAttention holds. Fails after a diagnostic.
mlir::LogicalResult emitTiledAttention(KernelEmitter &emitter);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_ATTENTION_KERNELS_H
