// SPDX-License-Identifier: Apache-2.0
//
// Blocks are packed in groups that one read of canonical rows serves, so that a
// quantizer that reads its source column by column does so in long pieces.
#include "codegen/cpu/QuantPacking.h"

#include "compiler/ir/CanonicalRows.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace llmc::cpu {
namespace {

using Kind = WeightFormat::Kind;

constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kRows = 16; // of a block
/// Blocks that are packed from one read.
constexpr uint64_t kBlocksAtOnce = kRowsAtOnce / kRows;

WeightFormat formatOf(const QuantLayout &layout) {
  switch (layout.kind) {
  case QuantLayout::Int8:
    return {Kind::Int8, 0, false};
  case QuantLayout::Int4TwoLevel:
    return {Kind::Int4x2, layout.group, false};
  case QuantLayout::Int4:
  case QuantLayout::Int4ZeroPoints:
    return {Kind::Int4, layout.group, layout.kind == QuantLayout::Int4ZeroPoints};
  }
  return {};
}

/// IEEE half of a float that is representable as one, which scales of groups are.
uint16_t exactHalf(float value) {
  auto bits = bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x38800000u) // normal as a half
    return sign | static_cast<uint16_t>((magnitude - 0x38000000u) >> 13);
  return sign | static_cast<uint16_t>(bit_cast<float>(magnitude) * 0x1p24f);
}

class PackQuantized final : public WeightTransform {
public:
  explicit PackQuantized(const QuantLayout &layout) : layout(layout), format(formatOf(layout)) {}

  std::string describe() const override { return "pack " + layout.str(); }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    std::optional<CanonicalRow> row =
        sources.size() == 1 ? CanonicalRow::ofType(format, *sources[0]) : std::nullopt;
    if (!row)
      return createStringError("layout " + layout.str() + " needs one source of rows in format " +
                               format.str());
    uint64_t blocks = (uint64_t(sources[0]->shape[0]) + kRows - 1) / kRows;
    return WeightType{ElementType::U8, {int64_t(blocks), layout.blockBytes(int64_t(row->depth()))}};
  }

  uint64_t granule(ArrayRef<const Weight *> sources) const override {
    return blockBytes(*sources[0]) * kBlocksAtOnce;
  }

  void evaluate(ArrayRef<const Weight *> sources, uint64_t offset,
                MutableArrayRef<char> out) const override {
    const Weight &source = *sources[0];
    uint64_t bytes = blockBytes(source);
    std::vector<char> rows, partial;
    while (!out.empty()) {
      uint64_t block = offset / bytes, inside = offset % bytes;
      uint64_t whole = inside == 0 ? out.size() / bytes : 0;
      if (whole > 0) {
        // Up to the next multiple of what is read at once.
        uint64_t count = std::min(whole, kBlocksAtOnce - block % kBlocksAtOnce);
        makeBlocks(source, block, count, rows, out.data());
        offset += count * bytes;
        out = out.drop_front(count * bytes);
        continue;
      }
      partial.resize(bytes);
      makeBlocks(source, block, 1, rows, partial.data());
      uint64_t taken = std::min<uint64_t>(bytes - inside, out.size());
      std::memcpy(out.data(), partial.data() + inside, taken);
      offset += taken;
      out = out.drop_front(taken);
    }
  }

private:
  CanonicalRow rowOf(const Weight &source) const {
    return *CanonicalRow::ofType(format, source.type());
  }
  uint64_t blockBytes(const Weight &source) const {
    return uint64_t(layout.blockBytes(int64_t(rowOf(source).depth())));
  }

  void makeBlocks(const Weight &source, uint64_t block, uint64_t count, std::vector<char> &rows,
                  char *out) const {
    CanonicalRow row = rowOf(source);
    uint64_t bytes = blockBytes(source), all = uint64_t(source.type().shape[0]);
    uint64_t first = block * kRows, known = std::min(count * kRows, all - first);
    rows.resize(known * row.bytes());
    source.read(first * row.bytes(), rows);
    for (uint64_t b = 0; b < count; ++b) {
      uint64_t begin = b * kRows, present = std::min(kRows, known - begin);
      makeBlock(row, reinterpret_cast<const uint8_t *>(rows.data()) + begin * row.bytes(), present,
                reinterpret_cast<uint8_t *>(out) + b * bytes);
    }
  }

  /// One block of `present` canonical rows, which lie one behind the other.
  void makeBlock(const CanonicalRow &row, const uint8_t *rows, uint64_t present,
                 uint8_t *out) const {
    std::memset(out, 0, size_t(layout.blockBytes(int64_t(row.depth()))));
    for (uint64_t n = 0; n < kRows; ++n) {
      const uint8_t *from = n < present ? rows + n * row.bytes() : nullptr;
      if (!layout.isInt4())
        packBytes(row, from, n, out);
      else
        packNibbles(row, from, n, out);
    }
  }

  void packBytes(const CanonicalRow &row, const uint8_t *from, uint64_t n, uint8_t *out) const {
    uint64_t depth = uint64_t(layout.groups(int64_t(row.depth())) * layout.group);
    uint64_t known = from ? row.depth() : 0;
    for (uint64_t k = 0; k < depth; k += 4) {
      uint32_t four = 0;
      if (k < known)
        std::memcpy(&four, from + k, std::min<uint64_t>(4, known - k));
      four ^= 0x80808080u;
      std::memcpy(out + k / 4 * kLineBytes + n * 4, &four, 4);
    }
    if (from)
      std::memcpy(out + depth * kRows + n * 4, from + row.scaleAt(0), 4);
  }

  void packNibbles(const CanonicalRow &row, const uint8_t *from, uint64_t n, uint8_t *out) const {
    auto group = uint64_t(layout.group), groups = uint64_t(layout.groups(int64_t(row.depth())));
    bool twoLevel = layout.kind == QuantLayout::Int4TwoLevel;
    for (uint64_t g = 0; g < groups; ++g) {
      uint8_t *lines = out + g * uint64_t(layout.groupBytes());
      uint8_t *tail = lines + uint64_t(layout.lineBytesOfGroup());
      uint8_t zero = from ? from[row.zeroAt(g)] : uint8_t(8);
      uint8_t values[128];
      std::memset(values, zero, group);
      if (from)
        std::memcpy(values, from + row.valuesAt(g), row.count(g));
      for (uint64_t j = 0; j < group / 8; ++j) {
        uint32_t low, high;
        std::memcpy(&low, values + 8 * j, 4);
        std::memcpy(&high, values + 8 * j + 4, 4);
        uint32_t four = low | high << 4; // four bytes at once: none exceeds 15
        std::memcpy(lines + j * kLineBytes + n * 4, &four, 4);
      }
      if (!twoLevel) {
        float scale = 0;
        if (from)
          std::memcpy(&scale, from + row.scaleAt(g), 4);
        uint16_t half = exactHalf(scale);
        std::memcpy(tail + n * 2, &half, 2);
        if (layout.kind == QuantLayout::Int4ZeroPoints)
          tail[kRows * 2 + n] = zero;
      } else if (from) {
        tail[n] = from[row.multiplierAt(g)];
      }
    }
    // A column's own scale is that of any group without its multiplier.
    if (twoLevel && from) {
      float scale = row.columnScale(from);
      std::memcpy(out + groups * uint64_t(layout.groupBytes()) + n * 4, &scale, 4);
    }
  }

  QuantLayout layout;
  WeightFormat format;
};

} // namespace

QuantLayout quantLayoutFor(const WeightFormat &format) {
  for (QuantLayout::Kind kind : {QuantLayout::Int8, QuantLayout::Int4, QuantLayout::Int4ZeroPoints,
                                 QuantLayout::Int4TwoLevel})
    if (QuantLayout layout{kind, format.group ? format.group : 64}; formatOf(layout) == format)
      return layout;
  llvm_unreachable("every quantized format has a layout");
}

std::unique_ptr<WeightTransform> packQuantized(const QuantLayout &layout) {
  return std::make_unique<PackQuantized>(layout);
}

} // namespace llmc::cpu
