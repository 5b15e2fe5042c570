// SPDX-License-Identifier: Apache-2.0
//
// A wire-format reader for one message. Unknown fields are skipped, as protobuf
// does; groups, which proto3 doesn't have, are an error.
#include "tools/cli/TensorProto.h"

#include <algorithm>
#include <cstring>

namespace llmc::cli {

namespace {

/// Numbers from onnx.proto: message TensorProto.
enum Field : uint64_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

class WireReader {
public:
  explicit WireReader(std::span<const std::byte> bytes) : rest(bytes) {}

  bool atEnd() const { return rest.empty(); }

  Status varint(uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest.empty())
        return Status::error(Code::Corrupt, "the TensorProto is cut off");
      uint64_t byte = uint64_t(rest[0]);
      rest = rest.subspan(1);
      value |= (byte & 127) << shift;
      if (byte < 128)
        return Status::ok();
    }
    return Status::error(Code::Corrupt, "the TensorProto holds an integer of more than 10 bytes");
  }
  Status bytes(uint64_t size, std::span<const std::byte> &value) {
    if (size > rest.size())
      return Status::error(Code::Corrupt, "the TensorProto is cut off: {} bytes are missing",
                           size - rest.size());
    value = rest.first(size);
    rest = rest.subspan(size);
    return Status::ok();
  }

private:
  std::span<const std::byte> rest;
};

/// One field: its number, how it is written, and its content.
struct Piece {
  uint64_t field;
  uint64_t wire;
  uint64_t number = 0; // kVarint
  std::span<const std::byte> content;
};

Status next(WireReader &reader, Piece &piece) {
  uint64_t tag;
  LLMC_TRY(reader.varint(tag));
  piece = {tag >> 3, tag & 7, 0, {}};
  switch (piece.wire) {
  case kVarint:
    return reader.varint(piece.number);
  case kFixed32:
    return reader.bytes(4, piece.content);
  case kFixed64:
    return reader.bytes(8, piece.content);
  case kLength: {
    uint64_t size;
    LLMC_TRY(reader.varint(size));
    return reader.bytes(size, piece.content);
  }
  default:
    return Status::error(Code::Corrupt, "this is not a TensorProto: field {} has wire type {}",
                         piece.field, piece.wire);
  }
}

/// Appends a repeated integer field's values, packed or not.
Status appendIntegers(const Piece &piece, std::vector<uint64_t> &values) {
  if (piece.wire == kVarint) {
    values.push_back(piece.number);
    return Status::ok();
  }
  if (piece.wire != kLength)
    return Status::error(Code::Corrupt, "this is not a TensorProto: field {} has wire type {}",
                         piece.field, piece.wire);
  WireReader reader(piece.content);
  while (!reader.atEnd()) {
    uint64_t value;
    LLMC_TRY(reader.varint(value));
    values.push_back(value);
  }
  return Status::ok();
}

/// Appends a repeated float or double field's bytes, packed or not.
Status appendFloats(const Piece &piece, uint64_t wire, Bytes &data) {
  if (piece.wire != kLength && piece.wire != wire)
    return Status::error(Code::Corrupt, "this is not a TensorProto: field {} has wire type {}",
                         piece.field, piece.wire);
  data.insert(data.end(), piece.content.begin(), piece.content.end());
  return Status::ok();
}

/// Which typed field holds the elements of `dtype` when raw_data doesn't.
uint64_t typedField(Dtype dtype) {
  switch (dtype) {
  case Dtype::F32:
    return kFloatData;
  case Dtype::F64:
    return kDoubleData;
  case Dtype::I64:
    return kInt64Data;
  case Dtype::U32:
  case Dtype::U64:
    return kUint64Data;
  default:
    return kInt32Data;
  }
}

/// The low `elementSize` bytes of each value, which is how all integer fields hold their elements.
Bytes narrow(const std::vector<uint64_t> &values, uint64_t elementSize) {
  Bytes data(values.size() * elementSize);
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(&data[i * elementSize], &values[i], elementSize);
  return data;
}

/// How a tensor of a type below 8 bits, or of a float of 8, is passed: a byte for each element,
/// which holds a float's bits or an integer's value.
struct NarrowType {
  uint64_t number; // in onnx.proto
  unsigned bits;
  Dtype dtype;
};
constexpr NarrowType kNarrowTypes[] = {
    {17, 8, Dtype::U8}, {18, 8, Dtype::U8}, {19, 8, Dtype::U8}, {20, 8, Dtype::U8},
    {21, 4, Dtype::U8}, {22, 4, Dtype::I8}, {23, 4, Dtype::U8}, {24, 8, Dtype::U8},
    {25, 2, Dtype::U8}, {26, 2, Dtype::I8},
};

/// One byte for each of `count` elements that lie packed in `data`, the first in the low bits.
Bytes unpack(const Bytes &data, const NarrowType &type, uint64_t count) {
  Bytes out;
  unsigned perByte = 8 / type.bits;
  if (type.bits == 8 || data.size() != (count + perByte - 1) / perByte)
    return data;
  for (uint64_t i = 0; i < count; ++i) {
    auto shifted = uint8_t(uint8_t(data[i / perByte]) << (8 - type.bits - i % perByte * type.bits));
    bool isSigned = type.dtype == Dtype::I8;
    out.push_back(std::byte(isSigned ? uint8_t(int8_t(shifted) >> (8 - type.bits))
                                     : uint8_t(shifted >> (8 - type.bits))));
  }
  return out;
}

struct Fields {
  OwnedTensor tensor;
  uint64_t dataType = 0;
  std::vector<uint64_t> dims;
  bool hasRaw = false;
  Bytes raw;
  Bytes floats;
  Bytes doubles;
  std::vector<uint64_t> int32s;
  std::vector<uint64_t> int64s;
  std::vector<uint64_t> uint64s;

  Status add(const Piece &piece) {
    switch (piece.field) {
    case kDims:
      return appendIntegers(piece, dims);
    case kDataType:
      dataType = piece.number;
      return Status::ok();
    case kName:
      tensor.name.assign(reinterpret_cast<const char *>(piece.content.data()),
                         piece.content.size());
      return Status::ok();
    case kRawData:
      hasRaw = true;
      raw.assign(piece.content.begin(), piece.content.end());
      return Status::ok();
    case kFloatData:
      return appendFloats(piece, kFixed32, floats);
    case kDoubleData:
      return appendFloats(piece, kFixed64, doubles);
    case kInt32Data:
      return appendIntegers(piece, int32s);
    case kInt64Data:
      return appendIntegers(piece, int64s);
    case kUint64Data:
      return appendIntegers(piece, uint64s);
    case kSegment:
    case kExternalData:
      return Status::error(Code::InvalidArgument,
                           "the TensorProto keeps its data outside of itself, which is not read");
    case kDataLocation:
      if (piece.number != 0)
        return Status::error(Code::InvalidArgument,
                             "the TensorProto keeps its data outside of itself, which is not read");
      return Status::ok();
    default:
      return Status::ok();
    }
  }

  Bytes elements() {
    if (hasRaw)
      return std::move(raw);
    uint64_t size = dtypeSize(tensor.dtype);
    switch (typedField(tensor.dtype)) {
    case kFloatData:
      return std::move(floats);
    case kDoubleData:
      return std::move(doubles);
    case kInt64Data:
      return narrow(int64s, size);
    case kUint64Data:
      return narrow(uint64s, size);
    default:
      return narrow(int32s, size);
    }
  }
};

} // namespace

Result<OwnedTensor> parseTensorProto(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  Fields fields;
  while (!reader.atEnd()) {
    Piece piece;
    LLMC_TRY(next(reader, piece));
    LLMC_TRY(fields.add(piece));
  }
  OwnedTensor &tensor = fields.tensor;
  tensor.dtype = Dtype(uint32_t(std::min<uint64_t>(fields.dataType, UINT32_MAX)));
  const auto *isNarrow = std::ranges::find(kNarrowTypes, fields.dataType, &NarrowType::number);
  if (isNarrow != std::end(kNarrowTypes))
    tensor.dtype = isNarrow->dtype;
  uint64_t elementSize = dtypeSize(tensor.dtype);
  if (elementSize == 0)
    return Status::error(Code::InvalidArgument,
                         "tensor '{}' has ONNX element type {}, which is not supported",
                         tensor.name, fields.dataType);
  tensor.dims.assign(fields.dims.begin(), fields.dims.end());
  LLMC_TRY_ASSIGN(uint64_t size, tensorBytes(tensor.dtype, tensor.dims));
  tensor.data = fields.elements();
  if (isNarrow != std::end(kNarrowTypes))
    tensor.data = unpack(tensor.data, *isNarrow, size);
  if (tensor.data.size() != size)
    return Status::error(
        Code::Corrupt, "tensor '{}' holds {} bytes where its shape {} of {} needs {}", tensor.name,
        tensor.data.size(), shapeText(tensor.dims), dtypeName(tensor.dtype), size);
  return std::move(tensor);
}

} // namespace llmc::cli
