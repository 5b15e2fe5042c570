// SPDX-License-Identifier: Apache-2.0
//
// Names of the model's input sizes: from dim_params to symbols. What is assumed
// about them (equal symbols are equal sizes) the runtime checks at every call.
#ifndef LLMC_COMPILER_ONNX_LEGALIZERINPUTS_H
#define LLMC_COMPILER_ONNX_LEGALIZERINPUTS_H

#include "compiler/onnx/LegalizerEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::onnx {

/// Argument and result attributes of legalized functions.
inline constexpr llvm::StringLiteral kLlmNameAttr = "llm.name";          // string
inline constexpr llvm::StringLiteral kLlmDimNamesAttr = "llm.dim_names"; // texts, as declared

/// The size expressions of each argument, empty for one that is no tensor. Nothing (reported) when
/// a tensor's rank isn't declared.
std::optional<llvm::SmallVector<Sizes>> inputDims(mlir::func::FuncOp function,
                                                  llm::Symbols &symbols);

/// Replaces `onnx.name` and `onnx.dims` of arguments and results by their `llm` counterparts.
void renameAttributes(mlir::func::FuncOp function);

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LEGALIZERINPUTS_H
