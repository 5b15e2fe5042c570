// SPDX-License-Identifier: Apache-2.0
//
// C++ side of the `onnx` dialect; what its ops mean is in OnnxDialect.td.
#ifndef LLMC_COMPILER_IR_ONNX_ONNXDIALECT_H
#define LLMC_COMPILER_IR_ONNX_ONNXDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/ir/onnx/OnnxDialectDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/ir/onnx/OnnxDialectTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/onnx/OnnxDialectAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/ir/onnx/OnnxDialect.h.inc"

namespace llmc::onnx {

/// Names of the attributes that the importer puts on the module and on @main.
constexpr llvm::StringLiteral kIrVersionAttr = "onnx.ir_version"; // i64
constexpr llvm::StringLiteral kOpsetsAttr = "onnx.opsets";        // {domain = version : i64}
constexpr llvm::StringLiteral kProducerAttr = "onnx.producer";    // string
constexpr llvm::StringLiteral kNameAttr = "onnx.name";            // string
constexpr llvm::StringLiteral kDimsAttr = "onnx.dims";            // array of string or i64
constexpr llvm::StringLiteral kTypeAttr = "onnx.type";            // declared type of a result

} // namespace llmc::onnx

#endif // LLMC_COMPILER_IR_ONNX_ONNXDIALECT_H
