// SPDX-License-Identifier: Apache-2.0
//
// One case per AttributeType, twice: as an attribute of a node, and as the
// value of a Constant.
#include "compiler/onnx/AttributeImporter.h"

#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/onnx/TypeImport.h"

using namespace llvm;
using namespace mlir;

namespace llmc {

using Kind = pb::AttributeProto;

Kind::AttributeType AttributeImporter::kindOf(const pb::AttributeProto &attribute) {
  if (attribute.type() != Kind::UNDEFINED)
    return attribute.type();
  struct {
    bool used;
    Kind::AttributeType type;
  } guesses[] = {
      {attribute.has_f(), Kind::FLOAT},
      {attribute.has_i(), Kind::INT},
      {attribute.has_s(), Kind::STRING},
      {attribute.has_t(), Kind::TENSOR},
      {attribute.has_g(), Kind::GRAPH},
      {attribute.has_sparse_tensor(), Kind::SPARSE_TENSOR},
      {attribute.has_tp(), Kind::TYPE_PROTO},
      {attribute.floats_size() > 0, Kind::FLOATS},
      {attribute.ints_size() > 0, Kind::INTS},
      {attribute.strings_size() > 0, Kind::STRINGS},
      {attribute.tensors_size() > 0, Kind::TENSORS},
      {attribute.graphs_size() > 0, Kind::GRAPHS},
      {attribute.sparse_tensors_size() > 0, Kind::SPARSE_TENSORS},
      {attribute.type_protos_size() > 0, Kind::TYPE_PROTOS},
  };
  for (auto guess : guesses)
    if (guess.used)
      return guess.type;
  return Kind::UNDEFINED;
}

Expected<Attribute> AttributeImporter::tensor(const pb::TensorProto &proto, StringRef name) {
  Expected<Constant> value = constant(proto, name);
  if (!value)
    return value.takeError();
  if (value->value)
    return Attribute(value->value);
  return Attribute(onnx::TensorAttr::get(builder.getContext(), value->key, value->type));
}

Expected<Attribute> AttributeImporter::sparse(const pb::SparseTensorProto &proto, StringRef name) {
  Expected<Attribute> values = tensor(proto.values(), (name + ".values").str());
  if (!values)
    return values.takeError();
  Expected<Attribute> indices = tensor(proto.indices(), (name + ".indices").str());
  if (!indices)
    return indices.takeError();
  SmallVector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  return Attribute(onnx::SparseAttr::get(builder.getContext(), *values, *indices,
                                         builder.getDenseI64ArrayAttr(dims)));
}

Expected<Attribute> AttributeImporter::import(const pb::AttributeProto &attribute, StringRef name) {
  if (Attribute before = known.lookup(&attribute))
    return before;
  Expected<Attribute> converted = convert(attribute, name);
  if (converted)
    known[&attribute] = *converted;
  return converted;
}

Expected<Attribute> AttributeImporter::convert(const pb::AttributeProto &attribute,
                                               StringRef name) {
  SmallVector<Attribute> list;
  auto append = [&](Expected<Attribute> element) -> Error {
    if (!element)
      return element.takeError();
    list.push_back(*element);
    return Error::success();
  };
  switch (kindOf(attribute)) {
  case Kind::FLOAT:
    return Attribute(builder.getF32FloatAttr(attribute.f()));
  case Kind::INT:
    return Attribute(builder.getI64IntegerAttr(attribute.i()));
  case Kind::STRING:
    return Attribute(builder.getStringAttr(attribute.s()));
  case Kind::FLOATS:
    return Attribute(builder.getDenseF32ArrayAttr(
        ArrayRef<float>(attribute.floats().data(), attribute.floats_size())));
  case Kind::INTS: {
    SmallVector<int64_t> ints(attribute.ints().begin(), attribute.ints().end());
    return Attribute(builder.getDenseI64ArrayAttr(ints));
  }
  case Kind::STRINGS:
    for (const std::string &text : attribute.strings())
      list.push_back(builder.getStringAttr(text));
    return Attribute(builder.getArrayAttr(list));
  case Kind::TENSOR:
    if (!attribute.has_t())
      break;
    return tensor(attribute.t(), name);
  case Kind::TENSORS:
    for (const pb::TensorProto &proto : attribute.tensors())
      if (Error error = append(tensor(proto, name)))
        return std::move(error);
    return Attribute(builder.getArrayAttr(list));
  case Kind::SPARSE_TENSOR:
    if (!attribute.has_sparse_tensor())
      break;
    return sparse(attribute.sparse_tensor(), name);
  case Kind::SPARSE_TENSORS:
    for (const pb::SparseTensorProto &proto : attribute.sparse_tensors())
      if (Error error = append(sparse(proto, name)))
        return std::move(error);
    return Attribute(builder.getArrayAttr(list));
  case Kind::TYPE_PROTO:
    if (!attribute.has_tp())
      break;
    return Attribute(TypeAttr::get(importType(attribute.tp(), builder.getContext())));
  case Kind::TYPE_PROTOS:
    for (const pb::TypeProto &type : attribute.type_protos())
      list.push_back(TypeAttr::get(importType(type, builder.getContext())));
    return Attribute(builder.getArrayAttr(list));
  case Kind::GRAPH:
  case Kind::GRAPHS:
  case Kind::UNDEFINED:
    break;
  }
  return createStringError("[LLMC1030] attribute '" + attribute.name() + "' has no value");
}

Constant AttributeImporter::fromWeight(const Weight &weight) {
  return {weight.name().str(), weight.type().toMlirType(builder.getContext()),
          tensors.inlineValue(weight)};
}

Expected<Constant> AttributeImporter::constant(const pb::TensorProto &proto, StringRef name) {
  if (TensorReader::isString(proto)) {
    Expected<ElementsAttr> value = tensors.strings(proto, name);
    if (!value)
      return value.takeError();
    return Constant{"", cast<RankedTensorType>(value->getType()), *value};
  }
  Expected<const Weight *> weight = tensors.weight(proto, name);
  if (!weight)
    return weight.takeError();
  return fromWeight(**weight);
}

Expected<Constant> AttributeImporter::constant(const pb::SparseTensorProto &proto, StringRef name) {
  Expected<const Weight *> weight = tensors.denseWeight(proto, name);
  if (!weight)
    return weight.takeError();
  return fromWeight(**weight);
}

template <typename T>
Constant AttributeImporter::fromValues(ElementType element, ArrayRef<T> values, bool scalar,
                                       StringRef name) {
  WeightType type{element, {}};
  if (!scalar)
    type.shape.push_back(static_cast<int64_t>(values.size()));
  std::string bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
  return fromWeight(*tensors.owned(std::move(type), std::move(bytes), name));
}

Constant AttributeImporter::fromStrings(ArrayRef<StringRef> texts, bool scalar) {
  SmallVector<int64_t, 1> shape;
  if (!scalar)
    shape.push_back(static_cast<int64_t>(texts.size()));
  auto type =
      RankedTensorType::get(shape, onnx::UnsupportedType::get(builder.getContext(), "string"));
  return {"", type, cast<ElementsAttr>(DenseStringElementsAttr::get(type, texts))};
}

Expected<Constant> AttributeImporter::constant(const pb::AttributeProto &attribute, StringRef kind,
                                               StringRef name) {
  static constexpr struct {
    StringLiteral name;
    Kind::AttributeType type;
  } kForms[] = {
      {"value", Kind::TENSOR},        {"sparse_value", Kind::SPARSE_TENSOR},
      {"value_int", Kind::INT},       {"value_ints", Kind::INTS},
      {"value_float", Kind::FLOAT},   {"value_floats", Kind::FLOATS},
      {"value_string", Kind::STRING}, {"value_strings", Kind::STRINGS},
  };
  const auto *form = find_if(kForms, [&](const auto &row) { return row.name == kind; });
  if (form == std::end(kForms) || form->type != kindOf(attribute))
    return createStringError("[LLMC1070] attribute '" + kind + "' of type " +
                             Kind::AttributeType_Name(kindOf(attribute)) +
                             " does not hold the value of a Constant");
  if (auto it = constants.find(&attribute); it != constants.end())
    return it->second;

  Constant made;
  switch (form->type) {
  case Kind::TENSOR:
    return constant(attribute.t(), name);
  case Kind::SPARSE_TENSOR:
    return constant(attribute.sparse_tensor(), name);
  case Kind::INT:
    made = fromValues<int64_t>(ElementType::I64, {attribute.i()}, /*scalar=*/true, name);
    break;
  case Kind::INTS:
    made = fromValues<int64_t>(
        ElementType::I64, SmallVector<int64_t>(attribute.ints().begin(), attribute.ints().end()),
        /*scalar=*/false, name);
    break;
  case Kind::FLOAT:
    made = fromValues<float>(ElementType::F32, {attribute.f()}, /*scalar=*/true, name);
    break;
  case Kind::FLOATS:
    made = fromValues<float>(
        ElementType::F32, SmallVector<float>(attribute.floats().begin(), attribute.floats().end()),
        /*scalar=*/false, name);
    break;
  case Kind::STRING:
    made = fromStrings({StringRef(attribute.s())}, /*scalar=*/true);
    break;
  default:
    made =
        fromStrings(SmallVector<StringRef>(attribute.strings().begin(), attribute.strings().end()),
                    /*scalar=*/false);
    break;
  }
  constants[&attribute] = made;
  return made;
}

} // namespace llmc
