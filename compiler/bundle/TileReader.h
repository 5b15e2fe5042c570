// SPDX-License-Identifier: Apache-2.0
//
// Evaluates weights ahead of the one thread that writes them, on all cores and
// in tiles. What is read doesn't depend on how many there are, and memory is a
// few tiles for each.
#ifndef LLMC_COMPILER_BUNDLE_TILE_READER_H
#define LLMC_COMPILER_BUNDLE_TILE_READER_H

#include "compiler/ir/WeightStore.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/ThreadPool.h"

#include <deque>
#include <future>

namespace llmc {

class TileReader {
public:
  /// Uses the context's threads, or none where it was told to.
  explicit TileReader(mlir::MLIRContext &context);
  ~TileReader();

  /// Appends all bytes of a weight, which outlives the reader, to what is to be read.
  void add(const Weight &weight);
  /// The next bytes: one tile of one weight, valid until the next call. Not to be called behind
  /// the last byte.
  llvm::ArrayRef<char> next();

private:
  struct Tile {
    const Weight *weight;
    uint64_t offset, size;
    std::vector<char> bytes; ///< unless the weight lies in memory
    std::shared_future<void> done;
  };
  void start();

  llvm::ThreadPoolInterface *pool = nullptr;
  size_t ahead = 1;
  std::deque<std::pair<const Weight *, uint64_t>> waiting; ///< weights and offsets not begun yet
  std::deque<Tile> started;                                ///< in order; the front is in use
  std::vector<std::vector<char>> spare;                    ///< buffers of tiles that are done with
  bool inUse = false;
};

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_TILE_READER_H
