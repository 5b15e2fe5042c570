// SPDX-License-Identifier: Apache-2.0
//
// How a weight is stored, in words that users write: "f16", "int8", "int4:g64".
// Float formats are element types. A weight in one of the others still *means*
// f32: its type keeps that element type and carries the format as its encoding,
// tensor<64x128xf32, "int4:g64">, until outlining puts a device's layout there.
#ifndef LLMC_COMPILER_IR_WEIGHTFORMAT_H
#define LLMC_COMPILER_IR_WEIGHTFORMAT_H

#include "compiler/ir/ElementType.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace llmc {

struct WeightFormat {
  enum class Kind : uint8_t {
    F32,
    F16,
    Bf16,
    Int8,   ///< one scale for each output column
    Int4,   ///< one f16 scale for each group of `group` values of a column
    Int4x2, ///< one f32 scale for each column, times an integer 1..15 for each group
  };

  Kind kind = Kind::F32;
  int64_t group = 0;       ///< values that share a scale, 32, 64 or 128; 0: all of a column
  bool asymmetric = false; ///< groups have zero points of their own; else zero is in the middle

  /// "int4" alone is int4:g64. Fails with a list of what there is.
  static llvm::Expected<WeightFormat> parse(llvm::StringRef text);
  std::string str() const;

  /// Whether values are integers that are multiplied by scales.
  bool isQuantized() const { return kind >= Kind::Int8; }
  /// Values of a column that share a scale when the column has `depth` of them.
  int64_t groupOf(int64_t depth) const { return group ? group : depth; }
  /// The element type of a weight in this format; F32 for quantized ones.
  ElementType elementType() const;

  bool operator==(const WeightFormat &) const = default;
};

/// The quantized format that a type carries as its encoding, if it carries one.
std::optional<WeightFormat> formatOf(mlir::Type type);
/// `type` with its values stored in `format`; static shapes only.
mlir::RankedTensorType withFormat(mlir::RankedTensorType type, const WeightFormat &format);

} // namespace llmc

#endif // LLMC_COMPILER_IR_WEIGHTFORMAT_H
