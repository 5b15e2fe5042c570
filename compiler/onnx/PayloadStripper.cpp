// SPDX-License-Identifier: Apache-2.0
//
// A walk over protobuf's wire format that knows of onnx.proto only which fields
// to enter, keep, drop or take as payload. Field numbers not in its table are
// kept as they are, and protobuf judges them.
#include "compiler/onnx/PayloadStripper.h"

#include "compiler/onnx/OnnxModelData.h"

#include <limits>

using namespace llvm;

namespace llmc {
namespace {

enum class Message : uint8_t { Model, Graph, Node, Attribute, Function, Sparse, Tensor, None };
enum class Action : uint8_t { Keep, Enter, Drop, Payload };

struct FieldRow {
  Message parent;
  uint32_t field;
  Action action;
  Message child;
};

constexpr FieldRow kFields[] = {
    {Message::Model, 7, Action::Enter, Message::Graph},
    {Message::Model, 25, Action::Enter, Message::Function},
    {Message::Model, 6, Action::Drop, Message::None},  // doc_string
    {Message::Model, 20, Action::Drop, Message::None}, // training_info
    {Message::Model, 26, Action::Drop, Message::None}, // configuration
    {Message::Graph, 1, Action::Enter, Message::Node},
    {Message::Graph, 5, Action::Enter, Message::Tensor},
    {Message::Graph, 15, Action::Enter, Message::Sparse},
    {Message::Graph, 10, Action::Drop, Message::None}, // doc_string
    {Message::Graph, 13, Action::Drop, Message::None}, // value_info
    {Message::Graph, 14, Action::Drop, Message::None}, // quantization_annotation
    {Message::Graph, 16, Action::Drop, Message::None}, // metadata_props
    {Message::Node, 5, Action::Enter, Message::Attribute},
    {Message::Node, 6, Action::Drop, Message::None},  // doc_string
    {Message::Node, 9, Action::Drop, Message::None},  // metadata_props
    {Message::Node, 10, Action::Drop, Message::None}, // device_configurations
    {Message::Attribute, 5, Action::Enter, Message::Tensor},
    {Message::Attribute, 10, Action::Enter, Message::Tensor},
    {Message::Attribute, 6, Action::Enter, Message::Graph},
    {Message::Attribute, 11, Action::Enter, Message::Graph},
    {Message::Attribute, 22, Action::Enter, Message::Sparse},
    {Message::Attribute, 23, Action::Enter, Message::Sparse},
    {Message::Attribute, 13, Action::Drop, Message::None}, // doc_string
    {Message::Function, 7, Action::Enter, Message::Node},
    {Message::Function, 11, Action::Enter, Message::Attribute},
    {Message::Function, 8, Action::Drop, Message::None},  // doc_string
    {Message::Function, 12, Action::Drop, Message::None}, // value_info
    {Message::Function, 14, Action::Drop, Message::None}, // metadata_props
    {Message::Sparse, 1, Action::Enter, Message::Tensor},
    {Message::Sparse, 2, Action::Enter, Message::Tensor},
    {Message::Tensor, 9, Action::Payload, Message::None},
    {Message::Tensor, 12, Action::Drop, Message::None}, // doc_string
    {Message::Tensor, 16, Action::Drop, Message::None}, // metadata_props
    {Message::Tensor, kPayloadField, Action::Drop, Message::None},
};

const FieldRow *findRow(Message parent, uint32_t field) {
  for (const FieldRow &row : kFields)
    if (row.parent == parent && row.field == field)
      return &row;
  return nullptr;
}

enum WireType : uint32_t {
  Varint = 0,
  Fixed64 = 1,
  Bytes = 2,
  GroupBegin = 3,
  GroupEnd = 4,
  Fixed32 = 5
};

constexpr size_t kMaxMessage = std::numeric_limits<int32_t>::max();

class Stripper {
public:
  explicit Stripper(ArrayRef<char> model) : model(model) {}

  /// Copies the fields of `kind` in [at, end); false after setting `failure`.
  bool message(Message kind, uint64_t at, uint64_t end, unsigned depth) {
    if (kind == Message::Graph && ++depth > kMaxRegionDepth + 1)
      return fail("[LLMC1004] graphs nest deeper than " + std::to_string(kMaxRegionDepth) +
                  " levels at byte " + std::to_string(at));
    while (at < end) {
      uint64_t begin = at, tag = 0;
      if (!varint(at, end, tag))
        return false;
      auto field = static_cast<uint32_t>(tag >> 3);
      auto wire = static_cast<uint32_t>(tag & 7);
      if (tag >> 32 != 0 || field == 0)
        return fail("[LLMC1001] no protobuf field begins at byte " + std::to_string(begin));
      const FieldRow *row = findRow(kind, field);
      if (wire != Bytes) {
        if (!skip(wire, field, at, end))
          return false;
        if ((!row || row->action != Action::Drop) && !copy(begin, at))
          return false;
        continue;
      }
      uint64_t length = 0;
      if (!varint(at, end, length))
        return false;
      if (length > end - at)
        return fail("[LLMC1001] field " + std::to_string(field) + " at byte " +
                    std::to_string(begin) + " needs " + std::to_string(length) + " bytes, but " +
                    (end == model.size() ? "the file ends at byte " : "its message ends at byte ") +
                    std::to_string(end));
      if (!bytesField(row, begin, at, at + length, depth))
        return false;
      at += length;
    }
    return true;
  }

  StrippedModel result;
  std::string failure;

private:
  bool fail(std::string text) {
    failure = std::move(text);
    return false;
  }

  bool bytesField(const FieldRow *row, uint64_t begin, uint64_t at, uint64_t end, unsigned depth) {
    switch (row ? row->action : Action::Keep) {
    case Action::Keep:
      return copy(begin, end);
    case Action::Drop:
      return true;
    case Action::Payload:
      appendVarint(uint64_t(kPayloadField) << 3 | Varint);
      appendVarint(result.payloads.size());
      result.payloads.push_back(model.slice(at, end - at));
      return true;
    case Action::Enter:
      break;
    }
    appendVarint(uint64_t(row->field) << 3 | Bytes);
    // The length is not known yet; protobuf reads lengths that are padded to five bytes.
    std::string &out = result.message;
    size_t lengthAt = out.size();
    out.append(5, '\0');
    if (!message(row->child, at, end, depth))
      return false;
    size_t length = out.size() - lengthAt - 5;
    for (unsigned i = 0; i < 5; ++i)
      out[lengthAt + i] = static_cast<char>((length >> (7 * i) & 0x7f) | (i < 4 ? 0x80 : 0));
    return true;
  }

  bool copy(uint64_t begin, uint64_t end) {
    if (end - begin > kMaxMessage - result.message.size())
      return fail("[LLMC1003] the graph without its raw tensor data exceeds 2 GB; keep tensors as "
                  "raw_data or external data");
    result.message.append(model.data() + begin, end - begin);
    return true;
  }

  void appendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      result.message.push_back(static_cast<char>(value | 0x80));
    result.message.push_back(static_cast<char>(value));
  }

  bool varint(uint64_t &at, uint64_t end, uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at == end)
        return fail("[LLMC1001] the " + std::string(end == model.size() ? "file" : "message") +
                    " ends within a number at byte " + std::to_string(at));
      auto byte = static_cast<uint8_t>(model[at++]);
      if (shift < 64)
        value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80)
        return true;
    }
    return fail("[LLMC1001] a number of more than 10 bytes ends at byte " + std::to_string(at));
  }

  /// Moves `at` behind a field whose tag was read, for any wire type.
  bool skip(uint32_t wire, uint32_t field, uint64_t &at, uint64_t end) {
    SmallVector<uint32_t, 4> groups;
    while (true) {
      uint64_t value = 0, width = wire == Fixed64 ? 8 : wire == Fixed32 ? 4 : 0;
      switch (wire) {
      case Varint:
        if (!varint(at, end, value))
          return false;
        break;
      case Bytes:
        if (!varint(at, end, width))
          return false;
        break;
      case GroupBegin:
        groups.push_back(field);
        break;
      case GroupEnd:
        if (groups.empty() || groups.pop_back_val() != field)
          return fail("[LLMC1001] a group ends that did not begin, at byte " + std::to_string(at));
        break;
      case Fixed64:
      case Fixed32:
        break;
      default:
        return fail("[LLMC1001] unknown wire type before byte " + std::to_string(at));
      }
      if (width > end - at)
        return fail("[LLMC1001] a field needs " + std::to_string(width) + " bytes at byte " +
                    std::to_string(at) + ", but its message ends at byte " + std::to_string(end));
      at += width;
      if (groups.empty())
        return true;
      uint64_t tag = 0;
      if (!varint(at, end, tag))
        return false;
      field = static_cast<uint32_t>(tag >> 3);
      wire = static_cast<uint32_t>(tag & 7);
    }
  }

  ArrayRef<char> model;
};

} // namespace

Expected<StrippedModel> stripPayloads(ArrayRef<char> model) {
  Stripper stripper(model);
  if (!stripper.message(Message::Model, 0, model.size(), 0))
    return createStringError(std::make_error_code(std::errc::invalid_argument), stripper.failure);
  if (stripper.result.message.size() > kMaxMessage)
    return createStringError(std::make_error_code(std::errc::invalid_argument),
                             "[LLMC1003] the graph exceeds 2 GB");
  return std::move(stripper.result);
}

} // namespace llmc
