// SPDX-License-Identifier: Apache-2.0
//
// Element types of weights, with the numbers that ONNX's TensorProto.DataType
// (and so runtime/abi/BundleFormat.h) gives them, and their MLIR counterparts.
// Integers of ONNX's intN are signless in MLIR, those of uintN are unsigned.
#ifndef LLMC_COMPILER_IR_ELEMENTTYPE_H
#define LLMC_COMPILER_IR_ELEMENTTYPE_H

#include "mlir/IR/BuiltinTypes.h"

#include <cstdint>
#include <optional>

namespace llmc {

enum class ElementType : uint8_t {
  Invalid = 0,
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  String = 8, // has no fixed size; never in a WeightStore
  Bool = 9,   // one byte, 0 or 1
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  C64 = 14,
  C128 = 15,
  BF16 = 16,
  F8E4M3FN = 17,
  F8E4M3FNUZ = 18,
  F8E5M2 = 19,
  F8E5M2FNUZ = 20,
  U4 = 21,
  I4 = 22,
  F4E2M1 = 23,
  F8E8M0 = 24,
  U2 = 25,
  I2 = 26,
  F6E2M3 = 27,
  F6E3M2 = 28,
};

/// The type that ONNX numbers `number`; Invalid for an unknown number.
ElementType elementTypeFromNumber(int64_t number);
/// Bits one element takes in a tensor's bytes (elements under 8 bits are packed from the low bits
/// of a byte up); 0 for Invalid and String.
unsigned elementBits(ElementType type);
/// "f32", "i4", …
llvm::StringRef elementName(ElementType type);
/// The name ONNX's documents use: "float", "int4", …
llvm::StringRef onnxElementName(ElementType type);
/// Null for Invalid and String.
mlir::Type toMlirType(ElementType type, mlir::MLIRContext *context);
/// Invalid for a type that has no counterpart.
ElementType fromMlirType(mlir::Type type);

/// Elements of a tensor, or nothing when a dim is negative or the product exceeds int64.
std::optional<uint64_t> elementCount(llvm::ArrayRef<int64_t> shape);
/// Bytes of a tensor, or nothing as above, or for a type without a size.
std::optional<uint64_t> tensorBytes(ElementType type, llvm::ArrayRef<int64_t> shape);

} // namespace llmc

#endif // LLMC_COMPILER_IR_ELEMENTTYPE_H
