// SPDX-License-Identifier: Apache-2.0
//
// A queue of tiles in order; those behind the front are computed meanwhile.
#include "compiler/bundle/TileReader.h"

using namespace llvm;

namespace llmc {

TileReader::TileReader(mlir::MLIRContext &context) {
  if (!context.isMultithreadingEnabled())
    return;
  pool = &context.getThreadPool();
  ahead = 2 * pool->getMaxConcurrency() + 1;
}

TileReader::~TileReader() {
  for (Tile &tile : started)
    if (tile.done.valid())
      tile.done.wait();
}

void TileReader::add(const Weight &weight) {
  if (weight.byteSize() > 0)
    waiting.push_back({&weight, 0});
}

void TileReader::start() {
  auto &[weight, offset] = waiting.front();
  uint64_t size = std::min(weight->tileBytes(), weight->byteSize() - offset);
  Tile &tile = started.emplace_back(Tile{weight, offset, size, {}, {}});
  offset += size;
  if (offset == weight->byteSize())
    waiting.pop_front();
  if (!tile.weight->view().empty())
    return;
  if (!spare.empty()) {
    tile.bytes = std::move(spare.back());
    spare.pop_back();
  }
  tile.bytes.resize(size);
  // Elements of a deque stay where they are while others come and go at its ends.
  auto evaluate = [&tile] { tile.weight->read(tile.offset, tile.bytes); };
  if (pool)
    tile.done = pool->async(evaluate);
  else
    evaluate();
}

ArrayRef<char> TileReader::next() {
  if (inUse) {
    if (!started.front().bytes.empty())
      spare.push_back(std::move(started.front().bytes));
    started.pop_front();
  }
  while (started.size() < ahead && !waiting.empty())
    start();
  assert(!started.empty() && "nothing is left to read");
  inUse = true;
  Tile &tile = started.front();
  if (tile.done.valid())
    tile.done.wait();
  ArrayRef<char> view = tile.weight->view();
  return view.empty() ? ArrayRef<char>(tile.bytes) : view.slice(tile.offset, tile.size);
}

} // namespace llmc
