// SPDX-License-Identifier: Apache-2.0
//
// The one form in which quantized weights are handed over: canonical rows.
// Whoever makes quantized values (rounding here, an import of a quantized
// model) makes these, and a device's packing reads these.
//
// A weight of N output columns with K values each is a U8 weight [N, bytes]. A
// row holds, for k in order and for each group (all of K for int8):
//
//   the values, a byte each     int8: two's complement, -127..127; int4: 0..15
//   the scale as f32            int4: exactly an f16; int4x2: column scale times multiplier
//   a byte zero point           int4: the value that means zero, 8 if symmetric; int8: 0
//   a byte multiplier           int4x2: 1..15; else 0
//   two bytes 0
//
// The last group is short where K is not a multiple of the group. A value means
// (value - zero point) * scale.
#ifndef LLMC_COMPILER_IR_CANONICALROWS_H
#define LLMC_COMPILER_IR_CANONICALROWS_H

#include "compiler/ir/WeightFormat.h"
#include "compiler/ir/WeightStore.h"

#include <atomic>

namespace llmc {

/// Rows that a reader should ask for at once, starting at a multiple of it: a source that has
/// columns in its rows is then read in long pieces.
constexpr uint64_t kRowsAtOnce = 128;

/// Where things stand in a canonical row.
class CanonicalRow {
public:
  CanonicalRow(const WeightFormat &format, uint64_t depth)
      : columnDepth(depth), group(uint64_t(format.groupOf(int64_t(depth)))) {}
  /// From the type of a weight of canonical rows; nothing for a type that isn't one.
  static std::optional<CanonicalRow> ofType(const WeightFormat &format, const WeightType &type);

  uint64_t depth() const { return columnDepth; }
  uint64_t groups() const { return group ? (columnDepth + group - 1) / group : 0; }
  uint64_t bytes() const { return columnDepth + groups() * kTailBytes; }
  /// Values of group `g`.
  uint64_t count(uint64_t g) const { return std::min(group, columnDepth - g * group); }
  uint64_t valuesAt(uint64_t g) const { return g * (group + kTailBytes); }
  uint64_t scaleAt(uint64_t g) const { return valuesAt(g) + count(g); }
  uint64_t zeroAt(uint64_t g) const { return scaleAt(g) + 4; }
  uint64_t multiplierAt(uint64_t g) const { return scaleAt(g) + 5; }
  /// Of int4x2: what a group's scale is without its multiplier. Exact.
  float columnScale(const uint8_t *row) const;

private:
  static constexpr uint64_t kTailBytes = 8;
  uint64_t columnDepth, group;
};

/// f32, f16 or bf16 [K, N], or [N, K] when `transposed`, to canonical rows: each group's scale is
/// the one that makes the squared error least among a few that clip more or less, refined by least
/// squares, and values are rounded to the nearest.
class QuantizeRows final : public WeightTransform {
public:
  QuantizeRows(const WeightFormat &format, bool transposed, const WeightType &source);

  std::string describe() const override;
  llvm::Expected<WeightType> inferType(llvm::ArrayRef<const WeightType *> sources) const override;
  uint64_t granule(llvm::ArrayRef<const Weight *> sources) const override;
  void evaluate(llvm::ArrayRef<const Weight *> sources, uint64_t offset,
                llvm::MutableArrayRef<char> out) const override;

  /// Of all rows that were evaluated: the root of the squared error over the squared weights. The
  /// same for any order and division of reads.
  double relativeError() const;
  /// What makes the weight unfit for the format, as found so far; empty when nothing does.
  std::string problem() const;

private:
  /// Columns [first, first + count) as rows of `stride` floats, filled up with zeros.
  void readColumns(const Weight &source, uint64_t first, uint64_t count, uint64_t stride,
                   float *out) const;
  void makeRows(const Weight &source, uint64_t first, uint64_t count, uint8_t *out) const;

  WeightFormat format;
  bool transposed;
  uint64_t depth = 0, columns = 0;
  struct RowError {
    std::atomic<double> error{0}, norm{0};
  };
  /// A row's entry has one value however often it is evaluated, so that this is no state.
  std::unique_ptr<RowError[]> errors;
  mutable std::atomic<uint8_t> fault{0};
};

} // namespace llmc

#endif // LLMC_COMPILER_IR_CANONICALROWS_H
