// SPDX-License-Identifier: Apache-2.0
//
// Packs buffers with known sizes and lifetimes into one block of memory.
// Buffers that live at the same time never share a byte; offsets are multiples
// of 64 and depend on sizes and lifetimes alone.
#ifndef LLMC_RUNTIME_EXEC_ARENA_PLAN_H
#define LLMC_RUNTIME_EXEC_ARENA_PLAN_H

#include "runtime/core/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace llmc {

struct ArenaBuffer {
  uint64_t size = 0;
  uint32_t first = 0; // lives from here …
  uint32_t last = 0;  // … to here, inclusive
};

struct ArenaPlan {
  std::vector<uint64_t> offsets; // per buffer; 0 for an empty one
  uint64_t size = 0;             // of the whole
};

/// Largest first, each at the lowest place that is free during its life. InvalidArgument when the
/// sizes don't add up within 63 bits.
Result<ArenaPlan> packArena(std::span<const ArenaBuffer> buffers);

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_ARENA_PLAN_H
