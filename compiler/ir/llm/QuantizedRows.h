// SPDX-License-Identifier: Apache-2.0
//
// How `llm.quantize` stores a row: what passes must know to type it, and what
// kernels read. A row is padded to a multiple of 128 elements and cut into
// records of `group` elements:
//
//   group x s8   round(x * 127 / max|x|), in the order of k
//   f32          the scale max|x| / 127; NaN when the group holds NaN or an infinity
//   2 x s16      -8 * the sum over k % 4 < 2, and over k % 4 >= 2
//   i32          the sum of the values
//   4 bytes 0
//
// Values lie in [-127, 127]. The sums let kernels multiply with weights that
// are stored with an offset.
#ifndef LLMC_COMPILER_IR_LLM_QUANTIZED_ROWS_H
#define LLMC_COMPILER_IR_LLM_QUANTIZED_ROWS_H

#include <cstdint>

namespace llmc::llm {

constexpr int64_t kQuantizedPadding = 128;

struct QuantizedRecord {
  int64_t group; ///< elements: 32 or 64

  static constexpr bool isGroup(int64_t group) { return group == 32 || group == 64; }
  constexpr int64_t bytes() const { return group + 16; }
  constexpr int64_t scaleOffset() const { return group; }
  constexpr int64_t pairOffset() const { return group + 4; }
  constexpr int64_t sumOffset() const { return group + 8; }
  constexpr int64_t recordsOf(int64_t depth) const {
    return (depth + kQuantizedPadding - 1) / kQuantizedPadding * (kQuantizedPadding / group);
  }
  constexpr int64_t rowBytes(int64_t depth) const { return recordsOf(depth) * bytes(); }
};

} // namespace llmc::llm

#endif // LLMC_COMPILER_IR_LLM_QUANTIZED_ROWS_H
