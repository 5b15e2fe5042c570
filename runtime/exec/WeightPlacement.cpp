// SPDX-License-Identifier: Apache-2.0
//
// Weights that several buffers share, or that overlap, are brought once.
#include "runtime/exec/WeightPlacement.h"

#include <algorithm>

namespace llmc {

Result<WeightPlacement> WeightPlacement::create(const Program &program, uint32_t index,
                                                std::shared_ptr<Device> device,
                                                std::span<const std::byte> weights) {
  WeightPlacement placement;
  if (device->usesHostMemory()) {
    placement.host = weights;
    return placement;
  }
  std::vector<Piece> pieces;
  for (const llmc_entry_record &entry : program.entries())
    for (const llmc_buffer_record &buffer : program.buffers(entry))
      if (buffer.kind == LLMC_BUFFER_WEIGHT && buffer.device == index && buffer.size != 0)
        pieces.push_back({buffer.offset, buffer.offset + buffer.size, 0});
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece &a, const Piece &b) { return a.begin < b.begin; });
  uint64_t total = 0;
  for (const Piece &piece : pieces) {
    if (!placement.pieces.empty() && piece.begin < placement.pieces.back().end) {
      placement.pieces.back().end = std::max(placement.pieces.back().end, piece.end);
    } else {
      placement.pieces.push_back(piece);
    }
  }
  for (Piece &piece : placement.pieces) {
    piece.offset = total;
    uint64_t size = piece.end - piece.begin;
    total += (size + LLMC_MEMORY_ALIGN - 1) / LLMC_MEMORY_ALIGN * LLMC_MEMORY_ALIGN;
  }
  LLMC_TRY_ASSIGN(placement.memory, device->alloc(total, MemoryKind::Device));
  DeviceCopier copier(device);
  for (const Piece &piece : placement.pieces)
    LLMC_TRY(copier.upload(placement.at(piece.begin), weights.data() + piece.begin,
                           piece.end - piece.begin));
  return placement;
}

Place WeightPlacement::at(uint64_t offset) const {
  if (!host.empty()) {
    // Kernels only read weights; addresses have no const.
    auto *view = const_cast<std::byte *>(host.data()) + offset;
    return {reinterpret_cast<uintptr_t>(view), view};
  }
  auto *view = static_cast<std::byte *>(memory.view);
  auto it =
      std::upper_bound(pieces.begin(), pieces.end(), offset,
                       [](uint64_t value, const Piece &piece) { return value < piece.begin; });
  if (it == pieces.begin())
    return {memory.address, view}; // an empty weight
  const Piece &piece = *std::prev(it);
  uint64_t inMemory = std::min(piece.offset + (offset - piece.begin), memory.size);
  return {memory.address + inMemory, view ? view + inMemory : nullptr};
}

} // namespace llmc
