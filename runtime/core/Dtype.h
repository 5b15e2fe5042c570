// SPDX-License-Identifier: Apache-2.0
//
// Element types with the numbers that ONNX's TensorProto.DataType gives them,
// so that importer, bundle and runtime share one numbering. The ABI constants
// are in runtime/abi/BundleFormat.h.
#ifndef LLMC_RUNTIME_CORE_DTYPE_H
#define LLMC_RUNTIME_CORE_DTYPE_H

#include "runtime/abi/BundleFormat.h"

#include <cstdint>
#include <string_view>

namespace llmc {

enum class Dtype : uint32_t {
  Invalid = 0,
  F32 = LLMC_DTYPE_F32,
  U8 = LLMC_DTYPE_U8,
  I8 = LLMC_DTYPE_I8,
  U16 = LLMC_DTYPE_U16,
  I16 = LLMC_DTYPE_I16,
  I32 = LLMC_DTYPE_I32,
  I64 = LLMC_DTYPE_I64,
  Bool = LLMC_DTYPE_BOOL,
  F16 = LLMC_DTYPE_F16,
  F64 = LLMC_DTYPE_F64,
  U32 = LLMC_DTYPE_U32,
  U64 = LLMC_DTYPE_U64,
  BF16 = LLMC_DTYPE_BF16,
};

/// Bytes of one element; 0 for an unknown type.
constexpr uint64_t dtypeSize(Dtype type) {
  switch (type) {
  case Dtype::U8:
  case Dtype::I8:
  case Dtype::Bool:
    return 1;
  case Dtype::U16:
  case Dtype::I16:
  case Dtype::F16:
  case Dtype::BF16:
    return 2;
  case Dtype::F32:
  case Dtype::I32:
  case Dtype::U32:
    return 4;
  case Dtype::F64:
  case Dtype::I64:
  case Dtype::U64:
    return 8;
  case Dtype::Invalid:
    break;
  }
  return 0;
}

/// "f32", "i64", …; "invalid" for an unknown type.
constexpr std::string_view dtypeName(Dtype type) {
  switch (type) {
  case Dtype::F32:
    return "f32";
  case Dtype::U8:
    return "u8";
  case Dtype::I8:
    return "i8";
  case Dtype::U16:
    return "u16";
  case Dtype::I16:
    return "i16";
  case Dtype::I32:
    return "i32";
  case Dtype::I64:
    return "i64";
  case Dtype::Bool:
    return "bool";
  case Dtype::F16:
    return "f16";
  case Dtype::F64:
    return "f64";
  case Dtype::U32:
    return "u32";
  case Dtype::U64:
    return "u64";
  case Dtype::BF16:
    return "bf16";
  case Dtype::Invalid:
    break;
  }
  return "invalid";
}

} // namespace llmc

#endif // LLMC_RUNTIME_CORE_DTYPE_H
