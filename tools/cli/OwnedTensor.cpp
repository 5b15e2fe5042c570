// SPDX-License-Identifier: Apache-2.0
//
// Elements of every type as numbers.
#include "tools/cli/OwnedTensor.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace llmc::cli {

namespace {

template <typename T> T load(const std::byte *data, uint64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

double halfToDouble(uint16_t bits) {
  int exponent = (bits >> 10) & 31;
  int mantissa = bits & 1023;
  double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 31)
    return mantissa ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

} // namespace

double elementAsDouble(Dtype dtype, const std::byte *data, uint64_t index) {
  switch (dtype) {
  case Dtype::F32:
    return load<float>(data, index);
  case Dtype::F64:
    return load<double>(data, index);
  case Dtype::F16:
    return halfToDouble(load<uint16_t>(data, index));
  case Dtype::BF16:
    return std::bit_cast<float>(uint32_t(load<uint16_t>(data, index)) << 16);
  case Dtype::Bool:
  case Dtype::U8:
    return load<uint8_t>(data, index);
  case Dtype::I8:
    return load<int8_t>(data, index);
  case Dtype::U16:
    return load<uint16_t>(data, index);
  case Dtype::I16:
    return load<int16_t>(data, index);
  case Dtype::U32:
    return load<uint32_t>(data, index);
  case Dtype::I32:
    return load<int32_t>(data, index);
  case Dtype::U64:
    return double(load<uint64_t>(data, index));
  case Dtype::I64:
    return double(load<int64_t>(data, index));
  case Dtype::Invalid:
    break;
  }
  return std::nan("");
}

} // namespace llmc::cli
