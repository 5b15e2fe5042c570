// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of quantization: one column of a weight to one canonical row.
// Every operation is an IEEE one in a fixed order, so that the bytes are the
// same on every machine.
#ifndef LLMC_COMPILER_IR_ROWQUANTIZER_H
#define LLMC_COMPILER_IR_ROWQUANTIZER_H

#include "compiler/ir/CanonicalRows.h"

namespace llmc {

/// What a column cannot be.
enum class RowFault : uint8_t { None, NotFinite, TooLarge };

struct RowResult {
  double error = 0; ///< sum of squared differences
  double norm = 0;  ///< sum of squares
  RowFault fault = RowFault::None;
};

/// Floats that quantizeRow reads: the depth rounded up, the rest being zeros.
constexpr uint64_t paddedDepth(uint64_t depth) { return (depth + 7) / 8 * 8; }

/// Writes row.bytes() bytes. With a fault they mean nothing.
RowResult quantizeRow(const WeightFormat &format, const CanonicalRow &row, const float *values,
                      uint8_t *out);
/// The same bytes without instructions beyond the baseline, for comparison.
RowResult quantizeRowPortably(const WeightFormat &format, const CanonicalRow &row,
                              const float *values, uint8_t *out);

} // namespace llmc

#endif // LLMC_COMPILER_IR_ROWQUANTIZER_H
