// SPDX-License-Identifier: Apache-2.0
//
// From MLIR functions to machine code: LLVM optimises a kernel's module for a
// level and gives an object; lld joins objects to a shared object that needs
// no other library.
#ifndef LLMC_CODEGEN_CPU_CPU_IMAGE_H
#define LLMC_CODEGEN_CPU_CPU_IMAGE_H

#include "codegen/cpu/IsaLevel.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace llmc::cpu {

/// Lowers func/scf/arith/math/vector/llvm ops of `module` to the `llvm` dialect, in place.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module);

/// The object file of a module in the `llvm` dialect.
llvm::Expected<std::string> compileObject(mlir::ModuleOp module, const IsaLevel &isa);

/// The object that exports the kernel ABI's version and holds what LLVM calls by itself.
llvm::Expected<std::string> compileVersionObject(const IsaLevel &isa);

/// A shared object that exports all global symbols of `objects`, in a fixed order. Fails when one
/// needs a symbol that none has.
llvm::Expected<std::string> linkImage(llvm::ArrayRef<std::string> objects);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_CPU_IMAGE_H
