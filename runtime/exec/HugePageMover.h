// SPDX-License-Identifier: Apache-2.0
//
// Moves a mapped file's bytes into 2 MB pages while others read them. A file's
// pages are small ones, and each fault and each miss of the address cache costs
// time that a token's walk over all weights pays again and again. The bytes
// stay where they are in the address space: a piece is copied aside and then
// put in the place of the mapping in one step, so readers never notice, and at
// no time do more than a piece's bytes exist twice.
#ifndef LLMC_RUNTIME_EXEC_HUGEPAGEMOVER_H
#define LLMC_RUNTIME_EXEC_HUGEPAGEMOVER_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>

namespace llmc {

class HugePageMover {
public:
  /// Bytes copied aside at a time.
  static constexpr size_t kPieceBytes = size_t(16) << 20;

  /// `memory` is part of a private mapping that outlives this and whose bytes never change.
  explicit HugePageMover(std::span<const std::byte> memory) : memory(memory) {}
  /// Stops after the current piece.
  ~HugePageMover();
  HugePageMover(const HugePageMover &) = delete;
  HugePageMover &operator=(const HugePageMover &) = delete;

  /// Starts the background thread, once. It does nothing where the system gives no 2 MB pages, or
  /// has too little memory free to hold the bytes for good: a file's pages can be dropped, these
  /// cannot.
  void start();
  /// Waits until everything is moved, or it is clear that it will not be.
  void wait();
  /// Bytes that now lie in memory of their own.
  uint64_t movedBytes() const { return moved.load(std::memory_order_relaxed); }

private:
  void work();
  /// False when the system refuses.
  static bool movePiece(std::byte *target, size_t bytes);

  std::span<const std::byte> memory;
  std::atomic<bool> started{false}, stop{false};
  std::atomic<uint64_t> moved{0};
  std::mutex lock; // guards `thread`
  std::thread thread;
};

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_HUGEPAGEMOVER_H
