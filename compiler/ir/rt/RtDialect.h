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

#endif // LLMC_COMPILER_IR_RT_RT_DIALECT_H
