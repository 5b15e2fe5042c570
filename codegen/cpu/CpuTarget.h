// SPDX-License-Identifier: Apache-2.0
//
// CPUs as a compile target: kernels of all ISA levels, freestanding shared
// objects, packed weight layouts.
#ifndef LLMC_CODEGEN_CPU_CPU_TARGET_H
#define LLMC_CODEGEN_CPU_CPU_TARGET_H

#include "compiler/target/Target.h"

#include "mlir/IR/DialectRegistry.h"

namespace llmc::cpu {

std::unique_ptr<const Target> createCpuTarget();
void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_CPU_TARGET_H
