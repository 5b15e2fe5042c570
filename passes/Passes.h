// SPDX-License-Identifier: Apache-2.0
//
// The graph passes and the pipeline made of them.
#ifndef LLMC_PASSES_PASSES_H
#define LLMC_PASSES_PASSES_H

#include "compiler/ir/llm/LlmDialect.h"
#include "compiler/ir/rt/RtDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// Registers every pass, and the pipeline `llmc-graph` under that name.
void registerLlmcPasses();

} // namespace llmc

#endif // LLMC_PASSES_PASSES_H
