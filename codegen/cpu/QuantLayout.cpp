// SPDX-License-Identifier: Apache-2.0
//
// The names are a table of kinds: a prefix, maybe a group, and a suffix.
#include "codegen/cpu/QuantLayout.h"

#include "codegen/cpu/WeightPacking.h"

#include "llvm/ADT/StringExtras.h"

namespace llmc::cpu {

namespace {

struct LayoutName {
  llvm::StringLiteral prefix, suffix;
  QuantLayout::Kind kind;
  int64_t bytesBehindLines;
};
constexpr LayoutName kNames[] = {
    {"q4.", ".16", QuantLayout::Int4, 32},
    {"q4.", ".16.z", QuantLayout::Int4ZeroPoints, 48},
    {"q4x2.", ".16", QuantLayout::Int4TwoLevel, 16},
};
constexpr llvm::StringLiteral kInt8Name = "q8.16";
constexpr int64_t kInt8Padding = 64;

const LayoutName &nameOf(QuantLayout::Kind kind) {
  return *llvm::find_if(kNames, [&](const LayoutName &name) { return name.kind == kind; });
}

} // namespace

std::optional<QuantLayout> QuantLayout::parse(llvm::StringRef layout) {
  if (layout == kInt8Name)
    return QuantLayout{Int8, kInt8Padding};
  for (const LayoutName &name : kNames) {
    llvm::StringRef text = layout;
    int64_t group;
    if (text.consume_front(name.prefix) && text.consume_back(name.suffix) &&
        !text.getAsInteger(10, group) && (group == 32 || group == 64 || group == 128))
      return QuantLayout{name.kind, group};
  }
  return std::nullopt;
}

std::string QuantLayout::str() const {
  if (kind == Int8)
    return kInt8Name.str();
  const LayoutName &name = nameOf(kind);
  return (name.prefix + llvm::Twine(group) + name.suffix).str();
}

int64_t QuantLayout::groupBytes() const {
  return lineBytesOfGroup() + (isInt4() ? nameOf(kind).bytesBehindLines : 0);
}

std::optional<QuantLayout> quantLayoutOf(mlir::Type type) {
  return QuantLayout::parse(packedLayoutOf(type));
}

} // namespace llmc::cpu
