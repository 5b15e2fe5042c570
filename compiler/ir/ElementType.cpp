// SPDX-License-Identifier: Apache-2.0
//
// One table row per element type; every question about a type reads its row.
#include "compiler/ir/ElementType.h"

#include "mlir/IR/Builders.h"

#include <iterator>
#include <limits>

using namespace mlir;

namespace llmc {
namespace {

template <typename T> Type plain(MLIRContext *context) { return T::get(context); }
template <unsigned bits> Type signless(MLIRContext *context) {
  return IntegerType::get(context, bits);
}
template <unsigned bits> Type unsignedInt(MLIRContext *context) {
  return IntegerType::get(context, bits, IntegerType::Unsigned);
}
template <typename T> Type complexOf(MLIRContext *context) {
  return ComplexType::get(T::get(context));
}

struct Row {
  unsigned bits;
  llvm::StringLiteral name;
  llvm::StringLiteral onnxName;
  Type (*type)(MLIRContext *);
};

// Indexed by the type's number.
constexpr Row kRows[] = {
    {0, "invalid", "undefined", nullptr},
    {32, "f32", "float", plain<Float32Type>},
    {8, "u8", "uint8", unsignedInt<8>},
    {8, "i8", "int8", signless<8>},
    {16, "u16", "uint16", unsignedInt<16>},
    {16, "i16", "int16", signless<16>},
    {32, "i32", "int32", signless<32>},
    {64, "i64", "int64", signless<64>},
    {0, "string", "string", nullptr},
    {8, "bool", "bool", signless<1>},
    {16, "f16", "float16", plain<Float16Type>},
    {64, "f64", "double", plain<Float64Type>},
    {32, "u32", "uint32", unsignedInt<32>},
    {64, "u64", "uint64", unsignedInt<64>},
    {64, "c64", "complex64", complexOf<Float32Type>},
    {128, "c128", "complex128", complexOf<Float64Type>},
    {16, "bf16", "bfloat16", plain<BFloat16Type>},
    {8, "f8e4m3fn", "float8e4m3fn", plain<Float8E4M3FNType>},
    {8, "f8e4m3fnuz", "float8e4m3fnuz", plain<Float8E4M3FNUZType>},
    {8, "f8e5m2", "float8e5m2", plain<Float8E5M2Type>},
    {8, "f8e5m2fnuz", "float8e5m2fnuz", plain<Float8E5M2FNUZType>},
    {4, "u4", "uint4", unsignedInt<4>},
    {4, "i4", "int4", signless<4>},
    {4, "f4e2m1", "float4e2m1", plain<Float4E2M1FNType>},
    {8, "f8e8m0", "float8e8m0", plain<Float8E8M0FNUType>},
    {2, "u2", "uint2", unsignedInt<2>},
    {2, "i2", "int2", signless<2>},
    {6, "f6e2m3", "float6e2m3", plain<Float6E2M3FNType>},
    {6, "f6e3m2", "float6e3m2", plain<Float6E3M2FNType>},
};

const Row &row(ElementType type) { return kRows[static_cast<unsigned>(type)]; }

} // namespace

ElementType elementTypeFromNumber(int64_t number) {
  bool known = number > 0 && number < static_cast<int64_t>(std::size(kRows));
  return known ? static_cast<ElementType>(number) : ElementType::Invalid;
}

unsigned elementBits(ElementType type) { return row(type).bits; }
llvm::StringRef elementName(ElementType type) { return row(type).name; }
llvm::StringRef onnxElementName(ElementType type) { return row(type).onnxName; }

Type toMlirType(ElementType type, MLIRContext *context) {
  return row(type).type ? row(type).type(context) : Type();
}

ElementType fromMlirType(Type type) {
  for (unsigned number = 1; number < std::size(kRows); ++number)
    if (kRows[number].type && kRows[number].type(type.getContext()) == type)
      return static_cast<ElementType>(number);
  return ElementType::Invalid;
}

std::optional<uint64_t> elementCount(llvm::ArrayRef<int64_t> shape) {
  bool zero = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return std::nullopt;
    zero |= dim == 0;
  }
  if (zero)
    return 0;
  uint64_t count = 1;
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count) ||
        count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return std::nullopt;
  return count;
}

std::optional<uint64_t> tensorBytes(ElementType type, llvm::ArrayRef<int64_t> shape) {
  std::optional<uint64_t> count = elementCount(shape);
  uint64_t bits = elementBits(type);
  if (!count || bits == 0)
    return std::nullopt;
  if (bits % 8 != 0)
    return *count / 8 * bits + (*count % 8 * bits + 7) / 8;
  uint64_t bytes;
  if (__builtin_mul_overflow(*count, bits / 8, &bytes) ||
      bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return bytes;
}

} // namespace llmc
