// SPDX-License-Identifier: Apache-2.0
//
// The `llm` dialect: its attributes, types and ops. Definitions are in
// LlmDialect.td and LlmOps.td.
#ifndef LLMC_COMPILER_IR_LLM_LLM_DIALECT_H
#define LLMC_COMPILER_IR_LLM_LLM_DIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/ir/llm/LlmOpsEnums.h.inc"

namespace llmc::llm {
class DimsAttr;
} // namespace llmc::llm

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/llm/LlmOpsAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/ir/llm/LlmOpsTypes.h.inc"

#include "compiler/ir/llm/LlmOpsDialect.h.inc"

#define GET_OP_CLASSES
#include "compiler/ir/llm/LlmOps.h.inc"

#endif // LLMC_COMPILER_IR_LLM_LLM_DIALECT_H
