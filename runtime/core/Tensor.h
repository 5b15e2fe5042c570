// SPDX-License-Identifier: Apache-2.0
//
// Tensors as the runtime passes them around: an element type, a shape and a
// pointer to row-major host memory that someone else owns. No strides: whoever
// has a strided array makes it dense first.
#ifndef LLMC_RUNTIME_CORE_TENSOR_H
#define LLMC_RUNTIME_CORE_TENSOR_H

#include "runtime/core/Dtype.h"
#include "runtime/core/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace llmc {

/// Outermost dimension first; empty for a scalar.
using Shape = std::vector<int64_t>;

/// "(2, 7)"; "()" for a scalar.
std::string shapeText(std::span<const int64_t> shape);

/// Bytes of a dense tensor; an error for a negative dimension, an unknown type, or a product that
/// passes 2^63 - 1 (zero dimensions do not hide an overflow of the others).
Result<uint64_t> tensorBytes(Dtype dtype, std::span<const int64_t> shape);

/// Memory that is only read.
struct ConstTensor {
  Dtype dtype = Dtype::Invalid;
  Shape shape;
  const void *data = nullptr; // may be null when a dimension is 0
};

/// Memory that is written.
struct Tensor {
  Dtype dtype = Dtype::Invalid;
  Shape shape;
  void *data = nullptr;

  operator ConstTensor() const { return {dtype, shape, data}; }
};

} // namespace llmc

#endif // LLMC_RUNTIME_CORE_TENSOR_H
