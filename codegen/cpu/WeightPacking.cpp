// SPDX-License-Identifier: Apache-2.0
//
// A packed matrix is a sequence of lines of 16 columns. Lines are made in groups of
// whole column blocks where the reader asks for that much, so that a row of the
// source is read in long pieces.
#include "codegen/cpu/WeightPacking.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace llmc::cpu {

StringRef packedLayoutOf(mlir::Type type) {
  auto tensor = dyn_cast<mlir::RankedTensorType>(type);
  auto layout =
      tensor ? dyn_cast_or_null<mlir::StringAttr>(tensor.getEncoding()) : mlir::StringAttr();
  return layout ? layout.getValue() : StringRef();
}

namespace {

constexpr uint64_t kColumns = kBlockColumns;
/// Column blocks made at once: a piece of 8 lines of each source row.
constexpr uint64_t kGroupBlocks = 8;

/// Reads pieces of a weight's rows, without a copy where the weight lies in memory.
class RowReader {
public:
  explicit RowReader(const Weight &weight)
      : weight(weight), view(weight.view()),
        rowBytes(uint64_t(weight.type().shape[1]) * (elementBits(weight.type().element) / 8)) {}

  /// Bytes [first, first + count) of `row`; `buffer` holds them if they must be copied.
  const char *read(uint64_t row, uint64_t first, uint64_t count, char *buffer) const {
    uint64_t offset = row * rowBytes + first;
    if (!view.empty())
      return view.data() + offset;
    weight.read(offset, MutableArrayRef<char>(buffer, count));
    return buffer;
  }

private:
  const Weight &weight;
  ArrayRef<char> view;
  uint64_t rowBytes;
};

/// `Bits` holds an element; a line takes `Depth` consecutive k of 16 columns.
template <typename Bits, uint64_t Depth> class PackColumns final : public WeightTransform {
  static constexpr uint64_t kLineBytes = sizeof(Bits) * Depth * kColumns;

public:
  PackColumns(StringRef layout, ElementType element, bool transposed)
      : layout(layout), element(element), transposed(transposed) {}

  std::string describe() const override {
    return ("pack " + layout + (transposed ? " transposed" : "")).str();
  }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    if (sources.size() != 1 || sources[0]->shape.size() != 2 || sources[0]->element != element)
      return createStringError("layout " + layout + " needs one source of rank 2 and type " +
                               elementName(element));
    SmallVector<int64_t, 4> shape = {int64_t(blocks(*sources[0])), int64_t(lines(*sources[0])),
                                     int64_t(kColumns)};
    if (Depth > 1)
      shape.push_back(Depth);
    return WeightType{element, shape};
  }

  void evaluate(ArrayRef<const Weight *> sources, uint64_t offset,
                MutableArrayRef<char> out) const override {
    const Weight &source = *sources[0];
    while (!out.empty()) {
      uint64_t inside = offset % kLineBytes;
      uint64_t whole = inside == 0 ? out.size() / kLineBytes : 0;
      if (whole > 0) {
        uint64_t made = makeLines(source, offset / kLineBytes, whole, out.data());
        offset += made * kLineBytes;
        out = out.drop_front(made * kLineBytes);
        continue;
      }
      char line[kLineBytes];
      makeLines(source, offset / kLineBytes, 1, line);
      uint64_t taken = std::min<uint64_t>(kLineBytes - inside, out.size());
      std::memcpy(out.data(), line + inside, taken);
      offset += taken;
      out = out.drop_front(taken);
    }
  }

private:
  uint64_t depth(const WeightType &type) const { return type.shape[transposed ? 1 : 0]; }
  uint64_t columns(const WeightType &type) const { return type.shape[transposed ? 0 : 1]; }
  uint64_t lines(const WeightType &type) const { return (depth(type) + Depth - 1) / Depth; }
  uint64_t blocks(const WeightType &type) const {
    return (columns(type) + kColumns - 1) / kColumns;
  }

  /// Makes up to `count` lines from line `first` on; returns how many.
  uint64_t makeLines(const Weight &source, uint64_t first, uint64_t count, char *out) const {
    uint64_t perBlock = lines(source.type()), block = first / perBlock, line = first % perBlock;
    uint64_t blockCount = line == 0 ? std::min(count / perBlock, kGroupBlocks) : 0;
    uint64_t lineCount = perBlock;
    if (blockCount == 0) {
      blockCount = 1;
      lineCount = std::min(perBlock - line, count);
    }
    auto *to = reinterpret_cast<Bits *>(out);
    if (transposed)
      for (uint64_t b = 0; b < blockCount; ++b)
        packRows(source, block + b, line, lineCount, to + b * perBlock * kColumns * Depth);
    else
      packPieces(source, block, blockCount, line, lineCount, to);
    return blockCount * lineCount;
  }

  /// Source [K, N]: every row gives one piece to each of `blockCount` blocks.
  void packPieces(const Weight &source, uint64_t block, uint64_t blockCount, uint64_t line,
                  uint64_t lineCount, Bits *out) const {
    RowReader reader(source);
    uint64_t rows = depth(source.type()), all = columns(source.type());
    uint64_t column = block * kColumns, width = std::min(blockCount * kColumns, all - column);
    bool ragged = width < blockCount * kColumns;
    char buffer[kGroupBlocks * kColumns * sizeof(Bits)];
    for (uint64_t l = 0; l < lineCount; ++l) {
      for (uint64_t d = 0; d < Depth; ++d) {
        uint64_t row = (line + l) * Depth + d;
        Bits piece[kGroupBlocks * kColumns];
        if (ragged || row >= rows)
          std::memset(piece, 0, sizeof(piece));
        if (row < rows)
          std::memcpy(piece, reader.read(row, column * sizeof(Bits), width * sizeof(Bits), buffer),
                      width * sizeof(Bits));
        for (uint64_t b = 0; b < blockCount; ++b) {
          Bits *to = out + (b * lineCount + l) * kColumns * Depth + d;
          for (uint64_t c = 0; c < kColumns; ++c)
            to[c * Depth] = piece[b * kColumns + c];
        }
      }
    }
  }

  /// Source [N, K]: 16 rows are transposed.
  void packRows(const Weight &source, uint64_t block, uint64_t line, uint64_t lineCount,
                Bits *out) const {
    constexpr uint64_t kSpan = 64; // lines of all 16 rows at a time
    RowReader reader(source);
    uint64_t rows = columns(source.type()), all = depth(source.type());
    char buffer[kColumns][kSpan * Depth * sizeof(Bits)];
    Bits tile[kColumns][kSpan * Depth];
    for (uint64_t start = 0; start < lineCount; start += kSpan) {
      uint64_t span = std::min(kSpan, lineCount - start), k = (line + start) * Depth;
      uint64_t known = std::min(span * Depth, all - k);
      for (uint64_t c = 0; c < kColumns; ++c) {
        uint64_t row = block * kColumns + c;
        if (row >= rows || known < span * Depth)
          std::memset(tile[c], 0, sizeof(tile[c]));
        if (row < rows)
          std::memcpy(tile[c], reader.read(row, k * sizeof(Bits), known * sizeof(Bits), buffer[c]),
                      known * sizeof(Bits));
      }
      Bits *to = out + start * kColumns * Depth;
      for (uint64_t l = 0; l < span; ++l)
        for (uint64_t c = 0; c < kColumns; ++c)
          for (uint64_t d = 0; d < Depth; ++d)
            to[(l * kColumns + c) * Depth + d] = tile[c][l * Depth + d];
    }
  }

  StringRef layout;
  ElementType element;
  bool transposed;
};

} // namespace

std::unique_ptr<WeightTransform> packColumns(StringRef layout, bool transposed) {
  if (layout == kPackedF32)
    return std::make_unique<PackColumns<uint32_t, 1>>(kPackedF32, ElementType::F32, transposed);
  if (layout == kPackedF16)
    return std::make_unique<PackColumns<uint16_t, 1>>(kPackedF16, ElementType::F16, transposed);
  if (layout == kPackedBf16)
    return std::make_unique<PackColumns<uint16_t, 2>>(kPackedBf16, ElementType::BF16, transposed);
  return nullptr;
}

} // namespace llmc::cpu
