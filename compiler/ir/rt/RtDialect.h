// SPDX-License-Identifier: Apache-2.0
//
// The `rt` dialect: programs as the bundle stores them. Definitions in RtOps.td.
#ifndef LLMC_COMPILER_IR_RT_RT_DIALECT_H
#define LLMC_COMPILER_IR_RT_RT_DIALECT_H

#include "compiler/ir/llm/LlmDialect.h"

#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "compiler/ir/rt/RtOpsDialect.h.inc"

#define GET_OP_CLASSES
#include "compiler/ir/rt/RtOps.h.inc"

namespace llmc::rt {

/// The discardable attribute that says on which device instance an op runs or a weight lies.
inline constexpr ::llvm::StringLiteral kDeviceAttr = "llm.device";
/// The instance that has the callers' memory, and everything without the attribute.
inline constexpr ::llvm::StringLiteral kHostDevice = "cpu0";

} // namespace llmc::rt

#endif // LLMC_COMPILER_IR_RT_RT_DIALECT_H
