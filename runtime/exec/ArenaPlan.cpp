// SPDX-License-Identifier: Apache-2.0
//
// Placed buffers are kept by offset, so that one walk over those that live at
// the same time finds the first gap.
#include "runtime/exec/ArenaPlan.h"

#include "runtime/abi/BundleFormat.h"

#include <algorithm>
#include <numeric>

namespace llmc {

Result<ArenaPlan> packArena(std::span<const ArenaBuffer> buffers) {
  constexpr uint64_t kLimit = INT64_MAX;
  constexpr uint64_t kAlign = LLMC_ALIGN_BUFFER;
  std::vector<uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return buffers[a].size != buffers[b].size ? buffers[a].size > buffers[b].size : a < b;
  });

  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<uint32_t> placed; // by offset
  for (uint32_t index : order) {
    const ArenaBuffer &buffer = buffers[index];
    if (buffer.size == 0)
      break; // and so are all that follow
    if (buffer.size > kLimit - kAlign)
      return Status::error(Code::InvalidArgument, "a buffer of {} bytes is too large", buffer.size);
    uint64_t size = (buffer.size + kAlign - 1) / kAlign * kAlign;
    uint64_t offset = 0;
    for (uint32_t other : placed) {
      const ArenaBuffer &neighbour = buffers[other];
      if (neighbour.last < buffer.first || buffer.last < neighbour.first)
        continue;
      if (plan.offsets[other] >= offset && plan.offsets[other] - offset >= size)
        break;
      uint64_t end = plan.offsets[other] + (neighbour.size + kAlign - 1) / kAlign * kAlign;
      offset = std::max(offset, end);
    }
    if (size > kLimit - offset)
      return Status::error(Code::InvalidArgument, "the buffers of a call pass {} bytes", kLimit);
    plan.offsets[index] = offset;
    plan.size = std::max(plan.size, offset + size);
    placed.insert(std::upper_bound(
                      placed.begin(), placed.end(), offset,
                      [&](uint64_t value, uint32_t other) { return value < plan.offsets[other]; }),
                  index);
  }
  return plan;
}

} // namespace llmc
