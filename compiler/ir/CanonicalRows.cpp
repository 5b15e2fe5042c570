// SPDX-License-Identifier: Apache-2.0
//
// Reading of columns from weights of either orientation, rows made in groups,
// and the account of errors.
#include "compiler/ir/CanonicalRows.h"

#include "compiler/ir/RowQuantizer.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llvm;

namespace llmc {

std::optional<CanonicalRow> CanonicalRow::ofType(const WeightFormat &format,
                                                 const WeightType &type) {
  if (type.element != ElementType::U8 || type.shape.size() != 2 || !format.isQuantized())
    return std::nullopt;
  auto bytes = static_cast<uint64_t>(type.shape[1]);
  // Bytes grow by one with the depth and by a tail with each group, so at most one depth fits.
  uint64_t unit = format.group ? uint64_t(format.group) + kTailBytes : bytes;
  uint64_t groups = unit ? (bytes + unit - 1) / unit : 0;
  if (bytes < groups * kTailBytes)
    return std::nullopt;
  CanonicalRow row(format, bytes - groups * kTailBytes);
  return row.bytes() == bytes ? std::optional(row) : std::nullopt;
}

float CanonicalRow::columnScale(const uint8_t *row) const {
  if (groups() == 0)
    return 0;
  float scale;
  std::memcpy(&scale, row + scaleAt(0), 4);
  uint8_t multiplier = row[multiplierAt(0)];
  return multiplier ? scale / float(multiplier) : 0;
}

namespace {

float halfToFloat(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u)
    return bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // The exponent's bias is put right by a product, which also makes subnormals normal.
  float value = bit_cast<float>(rest << 13) * 0x1p112f;
  return bit_cast<float>(bit_cast<uint32_t>(value) | sign);
}

void toFloats(ElementType element, const char *from, uint64_t count, float *to) {
  if (element == ElementType::F32) {
    std::memcpy(to, from, count * 4);
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + i * 2, 2);
    to[i] = element == ElementType::F16 ? halfToFloat(bits) : bit_cast<float>(uint32_t(bits) << 16);
  }
}

} // namespace

QuantizeRows::QuantizeRows(const WeightFormat &format, bool transposed, const WeightType &source)
    : format(format), transposed(transposed) {
  if (source.shape.size() != 2)
    return; // inferType refuses it
  depth = uint64_t(source.shape[transposed ? 1 : 0]);
  columns = uint64_t(source.shape[transposed ? 0 : 1]);
  errors = std::make_unique<RowError[]>(columns);
}

std::string QuantizeRows::describe() const {
  return "quantize " + format.str() + (transposed ? " transposed" : "");
}

Expected<WeightType> QuantizeRows::inferType(ArrayRef<const WeightType *> sources) const {
  bool floats = sources.size() == 1 && (sources[0]->element == ElementType::F32 ||
                                        sources[0]->element == ElementType::F16 ||
                                        sources[0]->element == ElementType::BF16);
  if (!floats || sources[0]->shape.size() != 2 || !format.isQuantized())
    return createStringError("format " + format.str() +
                             " needs one source of rank 2 and of type f32, f16 or bf16");
  return WeightType{ElementType::U8,
                    {int64_t(columns), int64_t(CanonicalRow(format, depth).bytes())}};
}

uint64_t QuantizeRows::granule(ArrayRef<const Weight *>) const {
  return CanonicalRow(format, depth).bytes() * kRowsAtOnce;
}

void QuantizeRows::evaluate(ArrayRef<const Weight *> sources, uint64_t offset,
                            MutableArrayRef<char> out) const {
  uint64_t bytes = CanonicalRow(format, depth).bytes();
  std::vector<uint8_t> partial;
  while (!out.empty()) {
    uint64_t row = offset / bytes, inside = offset % bytes;
    uint64_t whole = inside == 0 ? out.size() / bytes : 0;
    uint64_t taken;
    if (whole > 0) {
      uint64_t count = std::min(whole, kRowsAtOnce - row % kRowsAtOnce);
      makeRows(*sources[0], row, count, reinterpret_cast<uint8_t *>(out.data()));
      taken = count * bytes;
    } else {
      partial.resize(bytes);
      makeRows(*sources[0], row, 1, partial.data());
      taken = std::min<uint64_t>(bytes - inside, out.size());
      std::memcpy(out.data(), partial.data() + inside, taken);
    }
    offset += taken;
    out = out.drop_front(taken);
  }
}

void QuantizeRows::readColumns(const Weight &source, uint64_t first, uint64_t count,
                               uint64_t stride, float *out) const {
  ElementType element = source.type().element;
  uint64_t width = elementBits(element) / 8;
  ArrayRef<char> view = source.view();
  std::vector<char> buffer;
  auto read = [&](uint64_t at, uint64_t length) {
    if (!view.empty())
      return view.data() + at * width;
    buffer.resize(length * width);
    source.read(at * width, buffer);
    return static_cast<const char *>(buffer.data());
  };
  if (transposed) {
    for (uint64_t c = 0; c < count; ++c)
      toFloats(element, read((first + c) * depth, depth), depth, out + c * stride);
    return;
  }
  // A few rows of the source at a time, so that both sides are touched in whole cache lines.
  constexpr uint64_t kStep = 16;
  float piece[kStep][kRowsAtOnce];
  for (uint64_t k = 0; k < depth; k += kStep) {
    uint64_t rows = std::min(kStep, depth - k);
    for (uint64_t r = 0; r < rows; ++r)
      toFloats(element, read((k + r) * columns + first, count), count, piece[r]);
    for (uint64_t c = 0; c < count; ++c)
      for (uint64_t r = 0; r < rows; ++r)
        out[c * stride + k + r] = piece[r][c];
  }
}

void QuantizeRows::makeRows(const Weight &source, uint64_t first, uint64_t count,
                            uint8_t *out) const {
  CanonicalRow row(format, depth);
  // An odd number of cache lines to a row: columns would else share their places in the cache.
  uint64_t stride = (paddedDepth(depth) + 15) / 16 * 16 + 16;
  std::vector<float> values(count * stride);
  readColumns(source, first, count, stride, values.data());
  for (uint64_t c = 0; c < count; ++c) {
    RowResult result = quantizeRow(format, row, values.data() + c * stride, out + c * row.bytes());
    errors[first + c].error.store(result.error, std::memory_order_relaxed);
    errors[first + c].norm.store(result.norm, std::memory_order_relaxed);
    if (result.fault != RowFault::None)
      fault.store(uint8_t(result.fault), std::memory_order_relaxed);
  }
}

double QuantizeRows::relativeError() const {
  double error = 0, norm = 0;
  for (uint64_t c = 0; c < columns; ++c) {
    error += errors[c].error.load(std::memory_order_relaxed);
    norm += errors[c].norm.load(std::memory_order_relaxed);
  }
  return norm > 0 ? std::sqrt(error / norm) : 0;
}

std::string QuantizeRows::problem() const {
  switch (RowFault(fault.load(std::memory_order_relaxed))) {
  case RowFault::None:
    return {};
  case RowFault::NotFinite:
    return "it holds NaN or infinity";
  case RowFault::TooLarge:
    return "it holds values too large for the format's scales";
  }
  return {};
}

} // namespace llmc
