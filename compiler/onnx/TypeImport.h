// SPDX-License-Identifier: Apache-2.0
//
// ONNX's types as MLIR types. Total: what MLIR lacks becomes !onnx.unsupported
// with ONNX's own notation, and whoever can't handle it says so by name.
#ifndef LLMC_COMPILER_ONNX_TYPEIMPORT_H
#define LLMC_COMPILER_ONNX_TYPEIMPORT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "onnx/onnx_pb.h"

namespace llmc {

mlir::Type importType(const ::onnx::TypeProto &type, mlir::MLIRContext *context);
/// Dims as described for `onnx.dims` in OnnxDialect.td; null when the type gives no shape.
mlir::ArrayAttr importDims(const ::onnx::TypeProto &type, mlir::MLIRContext *context);

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_TYPEIMPORT_H
