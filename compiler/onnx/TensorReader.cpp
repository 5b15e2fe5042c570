// SPDX-License-Identifier: Apache-2.0
//
// The order of checks: element type, dims, where the bytes are, how many there
// are. Only then does anything get allocated or mapped, so a shape that lies
// costs nothing.
#include "compiler/onnx/TensorReader.h"

#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/onnx/PayloadStripper.h"
#include "compiler/onnx/SparseTensor.h"

#include "mlir/IR/Builders.h"

#include <cstring>
#include <optional>

using namespace llvm;
using namespace mlir;

namespace llmc {
namespace {

Error tensorError(int code, StringRef name, const Twine &text) {
  return createStringError("[LLMC" + Twine(code) + "] tensor '" + name + "' " + text);
}

/// The fields that can hold elements, besides raw_data.
enum class Field { Float, Int32, Int64, Double, Uint64, String };

Field fieldFor(ElementType type) {
  switch (type) {
  case ElementType::F32:
  case ElementType::C64:
    return Field::Float;
  case ElementType::F64:
  case ElementType::C128:
    return Field::Double;
  case ElementType::I64:
    return Field::Int64;
  case ElementType::U32:
  case ElementType::U64:
    return Field::Uint64;
  case ElementType::String:
    return Field::String;
  default: // every other type, also 16-bit floats as their bits
    return Field::Int32;
  }
}

struct FieldUse {
  Field field;
  const char *name;
  int count;
};

SmallVector<FieldUse, 1> usedFields(const pb::TensorProto &tensor) {
  FieldUse all[] = {{Field::Float, "float_data", tensor.float_data_size()},
                    {Field::Int32, "int32_data", tensor.int32_data_size()},
                    {Field::Int64, "int64_data", tensor.int64_data_size()},
                    {Field::Double, "double_data", tensor.double_data_size()},
                    {Field::Uint64, "uint64_data", tensor.uint64_data_size()},
                    {Field::String, "string_data", tensor.string_data_size()}};
  SmallVector<FieldUse, 1> used;
  for (const FieldUse &use : all)
    if (use.count > 0)
      used.push_back(use);
  return used;
}

std::optional<ArrayRef<char>> payloadOf(const pb::TensorProto &tensor,
                                        ArrayRef<ArrayRef<char>> payloads) {
  const google::protobuf::UnknownFieldSet &unknown = tensor.unknown_fields();
  for (int i = unknown.field_count(); i-- > 0;) { // the last of repeated raw_data counts
    const google::protobuf::UnknownField &field = unknown.field(i);
    if (field.number() == static_cast<int>(kPayloadField) &&
        field.type() == google::protobuf::UnknownField::TYPE_VARINT &&
        field.varint() < payloads.size())
      return payloads[field.varint()];
  }
  return std::nullopt;
}

/// Low `width` bytes of each entry, in order.
template <typename Values> std::string narrowed(const Values &values, size_t width) {
  std::string bytes(values.size() * width, '\0');
  for (int i = 0; i < values.size(); ++i)
    std::memcpy(bytes.data() + i * width, &values.Get(i), width); // little-endian host
  return bytes;
}

/// Six-bit floats: one per entry, packed from the low bits up.
std::string packedSixBits(const google::protobuf::RepeatedField<int32_t> &values) {
  std::string bytes((static_cast<size_t>(values.size()) * 6 + 7) / 8, '\0');
  for (int i = 0; i < values.size(); ++i)
    for (size_t bit = 0; bit < 6; ++bit)
      if (values.Get(i) >> bit & 1) {
        size_t at = static_cast<size_t>(i) * 6 + bit;
        bytes[at / 8] = static_cast<char>(bytes[at / 8] | 1 << at % 8);
      }
  return bytes;
}

/// A decimal number of digits only.
std::optional<uint64_t> parseNumber(StringRef text) {
  uint64_t value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != StringRef::npos ||
      text.getAsInteger(10, value))
    return std::nullopt;
  return value;
}

} // namespace

Expected<WeightType> TensorReader::typeOf(const pb::TensorProto &tensor, StringRef name) const {
  WeightType type;
  type.element = elementTypeFromNumber(tensor.data_type());
  if (type.element == ElementType::Invalid)
    return tensorError(1050, name, "has the unknown element type " + Twine(tensor.data_type()));
  type.shape.assign(tensor.dims().begin(), tensor.dims().end());
  for (int64_t dim : type.shape)
    if (dim < 0)
      return tensorError(1051, name, "has the negative dim " + Twine(dim));
  bool sized = type.element == ElementType::String
                   ? elementCount(type.shape).has_value()
                   : tensorBytes(type.element, type.shape).has_value();
  if (!sized)
    return tensorError(1051, name, "has dims whose product does not fit 63 bits");
  return type;
}

Expected<const Weight *> TensorReader::weight(const pb::TensorProto &tensor, StringRef name) {
  if (const Weight *before = known.lookup(&tensor))
    return before;
  Expected<const Weight *> added = read(tensor, name);
  if (added)
    known[&tensor] = *added;
  return added;
}

Expected<const Weight *> TensorReader::read(const pb::TensorProto &tensor, StringRef name) {
  Expected<WeightType> type = typeOf(tensor, name);
  if (!type)
    return type.takeError();
  if (type->element == ElementType::String)
    return tensorError(1050, name, "holds strings where numbers are needed");
  std::optional<ArrayRef<char>> raw = payloadOf(tensor, model.payloads);
  SmallVector<FieldUse, 1> fields = usedFields(tensor);
  if (tensor.data_location() == pb::TensorProto::EXTERNAL) {
    if ((raw && !raw->empty()) || !fields.empty())
      return tensorError(1053, name, "has both external data and data in the model file");
    return external(tensor, name, std::move(*type));
  }
  if (!fields.empty() && raw && !raw->empty())
    return tensorError(1053, name, "has both raw_data and " + Twine(fields[0].name));
  if (fields.size() > 1)
    return tensorError(1053, name, "has both " + Twine(fields[0].name) + " and " + fields[1].name);
  if (!fields.empty()) {
    if (fields[0].field != fieldFor(type->element))
      return tensorError(1054, name,
                         "has " + Twine(fields[0].name) +
                             ", which does not hold elements of type " +
                             onnxElementName(type->element));
    return typed(tensor, name, std::move(*type));
  }
  uint64_t found = raw ? raw->size() : 0;
  if (found != type->byteSize())
    return tensorError(1052, name,
                       "needs " + Twine(type->byteSize()) + " bytes for its shape, but " +
                           Twine(found) + " were found");
  ArrayRef<char> bytes = raw.value_or(ArrayRef<char>());
  auto isNoBool = [](char byte) { return static_cast<uint8_t>(byte) > 1; };
  if (type->element == ElementType::Bool && any_of(bytes, isNoBool)) {
    std::string normal(bytes.begin(), bytes.end());
    for (char &byte : normal)
      byte = byte != 0;
    return store.addOwned(name, std::move(*type), std::move(normal));
  }
  return store.addBorrowed(name, std::move(*type), model.owner, bytes);
}

Expected<const Weight *> TensorReader::external(const pb::TensorProto &tensor, StringRef name,
                                                WeightType type) {
  std::optional<StringRef> location, offsetText, lengthText;
  for (const pb::StringStringEntryProto &entry : tensor.external_data()) {
    std::optional<StringRef> *slot = entry.key() == "location" ? &location
                                     : entry.key() == "offset" ? &offsetText
                                     : entry.key() == "length" ? &lengthText
                                                               : nullptr;
    if (!slot)
      continue; // checksum and keys of other tools
    if (*slot && **slot != entry.value())
      return tensorError(1062, name,
                         "gives '" + entry.key() + "' of its external data twice: '" + **slot +
                             "' and '" + entry.value() + "'");
    *slot = entry.value();
  }
  uint64_t needed = type.byteSize();
  std::optional<uint64_t> offset = parseNumber(offsetText.value_or("0"));
  std::optional<uint64_t> length = parseNumber(lengthText.value_or("0"));
  if (!offset)
    return tensorError(1062, name,
                       "has the external data offset '" + *offsetText +
                           "', which is not a number of bytes");
  if (!length)
    return tensorError(1062, name,
                       "has the external data length '" + *lengthText +
                           "', which is not a number of bytes");
  // Exporters exist that write "0" for "up to the end".
  if (*length != 0 && *length != needed)
    return tensorError(1052, name,
                       "needs " + Twine(needed) +
                           " bytes for its shape, but its "
                           "external data length is " +
                           Twine(*length));
  if (!location)
    return tensorError(1062, name, "has external data without a location");
  if (needed == 0)
    return store.addOwned(name, std::move(type), "");
  Expected<std::shared_ptr<const MappedFile>> file = files.open(*location);
  if (!file)
    return createStringError(toString(file.takeError()) + " (tensor '" + name.str() + "')");
  uint64_t size = (*file)->bytes().size();
  if (*offset > size || needed > size - *offset)
    return tensorError(1063, name,
                       "needs " + Twine(needed) + " bytes from offset " + Twine(*offset) +
                           " on in '" + *location + "', which has " + Twine(size) + " bytes");
  return store.addMapped(name, std::move(type), *file, *offset);
}

Expected<const Weight *> TensorReader::typed(const pb::TensorProto &tensor, StringRef name,
                                             WeightType type) {
  // Entries per field: complex numbers take two, and two 4-bit or four 2-bit
  // elements share one (as they share a byte).
  uint64_t elements = *elementCount(type.shape);
  unsigned bits = elementBits(type.element);
  bool complex = type.element == ElementType::C64 || type.element == ElementType::C128;
  uint64_t perByte = bits == 4 ? 2 : bits == 2 ? 4 : 1;
  uint64_t needed = complex ? elements * 2 : elements / perByte + (elements % perByte != 0);
  FieldUse use = usedFields(tensor)[0];
  if (static_cast<uint64_t>(use.count) != needed)
    return tensorError(1052, name,
                       "needs " + Twine(needed) + " entries of " + use.name +
                           " for its shape, but " + Twine(use.count) + " were found");
  std::string bytes;
  size_t width = complex ? bits / 16 : std::max(1u, bits / 8);
  switch (use.field) {
  case Field::Float:
    bytes = narrowed(tensor.float_data(), width);
    break;
  case Field::Double:
    bytes = narrowed(tensor.double_data(), width);
    break;
  case Field::Int64:
    bytes = narrowed(tensor.int64_data(), width);
    break;
  case Field::Uint64:
    bytes = narrowed(tensor.uint64_data(), width);
    break;
  default:
    bytes = bits == 6 ? packedSixBits(tensor.int32_data()) : narrowed(tensor.int32_data(), width);
    break;
  }
  if (type.element == ElementType::Bool)
    for (int i = 0; i < tensor.int32_data_size(); ++i)
      bytes[i] = tensor.int32_data(i) != 0;
  return store.addOwned(name, std::move(type), std::move(bytes));
}

Expected<const Weight *> TensorReader::denseWeight(const pb::SparseTensorProto &tensor,
                                                   StringRef name) {
  if (const Weight *before = known.lookup(&tensor))
    return before;
  if (isString(tensor.values()))
    return tensorError(1055, name, "is a sparse tensor of strings");
  Expected<const Weight *> values = weight(tensor.values(), (name + ".values").str());
  if (!values)
    return values.takeError();
  Expected<const Weight *> indices = weight(tensor.indices(), (name + ".indices").str());
  if (!indices)
    return indices.takeError();
  SmallVector<int64_t, 4> dims(tensor.dims().begin(), tensor.dims().end());
  if (Error error = checkSparse(**values, **indices, dims))
    return tensorError(1055, name, "is not a valid sparse tensor: " + toString(std::move(error)));
  Expected<const Weight *> dense =
      store.addTransformed(name, sparseToDense(dims), {*values, *indices});
  if (dense)
    known[&tensor] = *dense;
  return dense;
}

bool TensorReader::sameContent(const pb::TensorProto &a, const pb::TensorProto &b, StringRef name) {
  Expected<const Weight *> first = weight(a, name), second = weight(b, name);
  bool same = first && second && (*first)->type() == (*second)->type() &&
              store.findEqual(**first) == store.findEqual(**second);
  consumeError(first.takeError());
  consumeError(second.takeError());
  return same;
}

const Weight *TensorReader::owned(WeightType type, std::string bytes, StringRef name) {
  return cantFail(store.addOwned(name, std::move(type), std::move(bytes)));
}

Expected<ElementsAttr> TensorReader::strings(const pb::TensorProto &tensor, StringRef name) {
  Expected<WeightType> type = typeOf(tensor, name);
  if (!type)
    return type.takeError();
  uint64_t needed = *elementCount(type->shape);
  SmallVector<FieldUse, 1> fields = usedFields(tensor);
  bool otherData = any_of(fields, [](FieldUse use) { return use.field != Field::String; });
  if (otherData || payloadOf(tensor, model.payloads) ||
      tensor.data_location() == pb::TensorProto::EXTERNAL)
    return tensorError(1054, name, "holds strings, which only string_data can hold");
  if (static_cast<uint64_t>(tensor.string_data_size()) != needed)
    return tensorError(1052, name,
                       "needs " + Twine(needed) + " strings for its shape, but " +
                           Twine(tensor.string_data_size()) + " were found");
  SmallVector<StringRef> texts(tensor.string_data().begin(), tensor.string_data().end());
  auto tensorType =
      RankedTensorType::get(type->shape, onnx::UnsupportedType::get(context, "string"));
  return cast<ElementsAttr>(DenseStringElementsAttr::get(tensorType, texts));
}

ElementsAttr TensorReader::inlineValue(const Weight &weight) {
  if (weight.byteSize() > kInlineBytes)
    return {};
  ElementsAttr &value = values[&weight];
  if (value)
    return value;
  RankedTensorType type = weight.type().toMlirType(context);
  std::string bytes(weight.byteSize(), '\0');
  weight.read(0, MutableArrayRef<char>(bytes.data(), bytes.size()));
  auto count = static_cast<size_t>(type.getNumElements());
  unsigned bits = elementBits(weight.type().element);
  bool isBool = weight.type().element == ElementType::Bool;
  if (count == 0)
    return value = DenseElementsAttr::get(type, ArrayRef<Attribute>());
  if (bits >= 8 && !isBool)
    return value = DenseElementsAttr::getFromRawBuffer(type, bytes);
  SmallVector<APInt> elements;
  for (size_t i = 0; i < count; ++i) {
    unsigned element = 0;
    for (size_t bit = 0; bit < bits; ++bit) {
      size_t at = i * bits + bit;
      element |= (static_cast<uint8_t>(bytes[at / 8]) >> at % 8 & 1u) << bit;
    }
    elements.emplace_back(isBool ? 1 : bits, element);
  }
  auto floatType = dyn_cast<FloatType>(type.getElementType());
  if (!floatType)
    return value = DenseElementsAttr::get(type, elements);
  SmallVector<APFloat> floats;
  for (const APInt &element : elements)
    floats.emplace_back(floatType.getFloatSemantics(), element);
  return value = DenseElementsAttr::get(type, floats);
}

} // namespace llmc
