// SPDX-License-Identifier: Apache-2.0
//
// The layouts of quantized weights: 16 columns of a product form a block, which
// holds all of k in 64-byte lines; each line feeds 16 results. One packed copy
// serves every number of rows and every ISA level.
//
//   q4.G.16    per group of G (32, 64, 128) k: G/8 lines, then 16 f16 scales. Byte 4n+c of line j:
//              low nibble k = 8j+c of column n, high nibble k = 8j+4+c, stored + 8
//   q4.G.16.z  the same with 16 u8 zero points behind the scales: value - zero point
//   q4x2.G.16  the lines, then 16 u8 multipliers; 16 f32 scales end the block:
//              (value - 8) * multiplier * scale
//   q8.16      lines [K/4][16][4] of u8 = value + 128, K padded to 64; 16 f32 scales end the block
//
// N is padded to a multiple of 16 with scale 0, K with weights of value 0.
#ifndef LLMC_CODEGEN_CPU_QUANT_LAYOUT_H
#define LLMC_CODEGEN_CPU_QUANT_LAYOUT_H

#include "mlir/IR/Types.h"

#include <optional>
#include <string>

namespace llmc::cpu {

struct QuantLayout {
  enum Kind { Int4, Int4ZeroPoints, Int4TwoLevel, Int8 };
  Kind kind;
  int64_t group; ///< k that share a scale or multiplier; for int8 the padding of K

  static std::optional<QuantLayout> parse(llvm::StringRef layout);
  std::string str() const;

  bool isInt4() const { return kind != Int8; }
  /// Whether 16 f32 scales end a block.
  bool hasBlockScales() const { return kind == Int4TwoLevel || kind == Int8; }
  int64_t lineBytesOfGroup() const { return group * (isInt4() ? 8 : 16); }
  int64_t groupBytes() const;
  int64_t groups(int64_t depth) const { return (depth + group - 1) / group; }
  int64_t blockBytes(int64_t depth) const {
    return groups(depth) * groupBytes() + (hasBlockScales() ? 64 : 0);
  }
  int64_t weightBytes(int64_t depth, int64_t columns) const {
    return (columns + 15) / 16 * blockBytes(depth);
  }
  /// The group in which a product's left side is quantized.
  int64_t activationGroup() const { return group == 32 ? 32 : 64; }
};

/// The quantized layout of a packed weight's type.
std::optional<QuantLayout> quantLayoutOf(mlir::Type type);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_QUANT_LAYOUT_H
