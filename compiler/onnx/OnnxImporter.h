// SPDX-License-Identifier: Apache-2.0
//
// ModelProto -> a module of `onnx.node`, as OnnxDialect.td describes it, with
// weights in a WeightStore. Total and dumb: it knows no operator but Constant.
// It checks what makes a graph a graph; what nodes mean is the legalizer's.
#ifndef LLMC_COMPILER_ONNX_ONNXIMPORTER_H
#define LLMC_COMPILER_ONNX_ONNXIMPORTER_H

#include "compiler/ir/WeightStore.h"
#include "compiler/onnx/OnnxReader.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

/// Null after emitting a diagnostic for each problem found. Loads the dialects it needs into
/// `context`. The weights in `store` keep mapped files alive; `model` may go.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(OnnxModel &model, WeightStore &store,
                                             mlir::MLIRContext *context);

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_ONNXIMPORTER_H
