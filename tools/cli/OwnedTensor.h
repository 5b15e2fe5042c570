// SPDX-License-Identifier: Apache-2.0
//
// A named tensor that owns its bytes: what the commands read from and write to
// files. Always dense, row-major, in the host's byte order; `data` holds
// exactly the elements that `dtype` and `dims` say.
#ifndef LLMC_TOOLS_CLI_OWNED_TENSOR_H
#define LLMC_TOOLS_CLI_OWNED_TENSOR_H

#include "runtime/core/Tensor.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace llmc::cli {

/// Memory for tensors starts at cache lines, as the runtime's own buffers do.
template <typename T> struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <typename U> AlignedAllocator(const AlignedAllocator<U> &) {}
  T *allocate(size_t count) {
    return static_cast<T *>(::operator new(count * sizeof(T), std::align_val_t(64)));
  }
  void deallocate(T *memory, size_t) { ::operator delete(memory, std::align_val_t(64)); }
  bool operator==(const AlignedAllocator &) const { return true; }
};
using Bytes = std::vector<std::byte, AlignedAllocator<std::byte>>;

struct OwnedTensor {
  std::string name;
  Dtype dtype = Dtype::Invalid;
  Shape dims;
  Bytes data;

  uint64_t elements() const { return data.size() / dtypeSize(dtype); }
};

/// Element `index` as a number; exact for all but the largest 64-bit integers.
double elementAsDouble(Dtype dtype, const std::byte *data, uint64_t index);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_OWNED_TENSOR_H
