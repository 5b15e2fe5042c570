// SPDX-License-Identifier: Apache-2.0
//
// Host memory for model inputs and outputs that are kept from token to token.
// Grows to what is asked for and never shrinks; a failed allocation is a Status.
#ifndef LLMC_RUNTIME_LLM_HOST_BUFFER_H
#define LLMC_RUNTIME_LLM_HOST_BUFFER_H

#include "runtime/core/Status.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace llmc {

class HostBuffer {
public:
  std::byte *data() { return memory.get(); }
  const std::byte *data() const { return memory.get(); }
  uint64_t capacity() const { return bytes; }

  /// Makes room for `needed` bytes, taking `preferred` if it must allocate. What was in it is lost
  /// then.
  Status reserve(uint64_t needed, uint64_t preferred = 0) {
    if (needed <= bytes)
      return Status::ok();
    uint64_t size = ((needed > preferred ? needed : preferred) + kAlignment - 1) & -kAlignment;
    memory.reset();
    bytes = 0;
    memory.reset(static_cast<std::byte *>(std::aligned_alloc(kAlignment, size)));
    if (!memory)
      return Status::error(Code::Unavailable, "out of memory: {} bytes can't be allocated", size);
    bytes = size;
    return Status::ok();
  }

private:
  struct Free {
    void operator()(std::byte *pointer) const { std::free(pointer); }
  };
  static constexpr uint64_t kAlignment = 64;
  std::unique_ptr<std::byte, Free> memory;
  uint64_t bytes = 0;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_HOST_BUFFER_H
