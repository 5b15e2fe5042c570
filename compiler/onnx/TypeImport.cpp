// SPDX-License-Identifier: Apache-2.0
//
// Declared dims are hints: a negative one, which old exporters wrote for "any",
// is an unknown one.
#include "compiler/onnx/TypeImport.h"

#include "compiler/ir/ElementType.h"
#include "compiler/ir/onnx/OnnxDialect.h"

#include "mlir/IR/Builders.h"

using namespace llvm;
using namespace mlir;

namespace llmc {
namespace {

namespace pb = ::onnx;

std::string elementText(int32_t number) {
  ElementType type = elementTypeFromNumber(number);
  return type == ElementType::Invalid ? "type " + std::to_string(number)
                                      : onnxElementName(type).str();
}

/// ONNX's notation, e.g. "seq(tensor(float))". Nesting is bounded by protobuf's parser.
std::string typeText(const pb::TypeProto &type) {
  switch (type.value_case()) {
  case pb::TypeProto::kTensorType:
    return "tensor(" + elementText(type.tensor_type().elem_type()) + ")";
  case pb::TypeProto::kSparseTensorType:
    return "sparse_tensor(" + elementText(type.sparse_tensor_type().elem_type()) + ")";
  case pb::TypeProto::kSequenceType:
    return "seq(" + typeText(type.sequence_type().elem_type()) + ")";
  case pb::TypeProto::kOptionalType:
    return "optional(" + typeText(type.optional_type().elem_type()) + ")";
  case pb::TypeProto::kMapType:
    return "map(" + elementText(type.map_type().key_type()) + "," +
           typeText(type.map_type().value_type()) + ")";
  case pb::TypeProto::kOpaqueType:
    return "opaque(" + type.opaque_type().domain() + "," + type.opaque_type().name() + ")";
  case pb::TypeProto::VALUE_NOT_SET:
    break;
  }
  return "no type";
}

} // namespace

Type importType(const pb::TypeProto &type, MLIRContext *context) {
  if (!type.has_tensor_type())
    return onnx::UnsupportedType::get(context, typeText(type));
  const pb::TypeProto::Tensor &tensor = type.tensor_type();
  Type element = toMlirType(elementTypeFromNumber(tensor.elem_type()), context);
  if (!element)
    element = onnx::UnsupportedType::get(context, elementText(tensor.elem_type()));
  if (!tensor.has_shape())
    return UnrankedTensorType::get(element);
  SmallVector<int64_t> shape;
  for (const pb::TensorShapeProto::Dimension &dim : tensor.shape().dim())
    shape.push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value()
                                                                : ShapedType::kDynamic);
  return RankedTensorType::get(shape, element);
}

ArrayAttr importDims(const pb::TypeProto &type, MLIRContext *context) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape())
    return {};
  Builder builder(context);
  SmallVector<Attribute> dims;
  for (const pb::TensorShapeProto::Dimension &dim : type.tensor_type().shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      dims.push_back(builder.getI64IntegerAttr(dim.dim_value()));
    else
      dims.push_back(builder.getStringAttr(dim.dim_param()));
  }
  return builder.getArrayAttr(dims);
}

} // namespace llmc
