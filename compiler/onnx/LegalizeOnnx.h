// SPDX-License-Identifier: Apache-2.0
//
// The pass llmc-legalize-onnx; what it needs and leaves is in LegalizeOnnx.td.
#ifndef LLMC_COMPILER_ONNX_LEGALIZEONNX_H
#define LLMC_COMPILER_ONNX_LEGALIZEONNX_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc::onnx {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/onnx/LegalizeOnnx.h.inc"

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LEGALIZEONNX_H
