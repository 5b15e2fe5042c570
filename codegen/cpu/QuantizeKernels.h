// SPDX-License-Identifier: Apache-2.0
//
// Rows to 8 bits (`llm.quantize`), with the norm that feeds them in the same
// kernel where there is one.
#ifndef LLMC_CODEGEN_CPU_QUANTIZE_KERNELS_H
#define LLMC_CODEGEN_CPU_QUANTIZE_KERNELS_H

#include "codegen/cpu/KernelEmitter.h"

namespace llmc::cpu {

/// Whether `kernel` is a quantization of one of its inputs, or of a norm of one.
bool isQuantize(rt::KernelOp kernel);

/// Emits the body of a kernel of which isQuantize holds.
void emitQuantize(KernelEmitter &emitter);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_QUANTIZE_KERNELS_H
