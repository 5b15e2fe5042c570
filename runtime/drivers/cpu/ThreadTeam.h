// SPDX-License-Identifier: Apache-2.0
//
// The persistent team of threads that runs phases. Within a region nobody
// sleeps: waiting is spinning, then yielding, so that a phase costs well under
// a microsecond and progress needs no more than a fair scheduler, also with
// more threads than cores. Between regions workers park.
#ifndef LLMC_RUNTIME_DRIVERS_CPU_THREAD_TEAM_H
#define LLMC_RUNTIME_DRIVERS_CPU_THREAD_TEAM_H

#include "runtime/core/Status.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace llmc {

/// Distance that keeps two variables from sharing a line, or a pair of prefetched lines.
inline constexpr size_t kSeparate = 128;

/// All `count` threads wait for one another, any number of times.
class Barrier {
public:
  /// `spin`: whether a waiter may keep its core for a while before it yields. Useless, and costly,
  /// when there are more threads than cores.
  Barrier(uint32_t count, bool spin) : count(count), spin(spin) {}
  void arriveAndWait();

private:
  const uint32_t count;
  const bool spin;
  alignas(kSeparate) std::atomic<uint32_t> arrived{0};
  alignas(kSeparate) std::atomic<uint32_t> phase{0};
};

class ThreadTeam {
public:
  /// `workers` >= 1, the thread that calls run() included. `cores`: how many can run at once.
  static Result<std::unique_ptr<ThreadTeam>> create(uint32_t workers, uint32_t cores);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam &) = delete;
  ThreadTeam &operator=(const ThreadTeam &) = delete;

  uint32_t workers() const { return size; }

  /// Calls body(context, worker) for every worker at the same time, worker 0 on the calling thread;
  /// returns when all have returned. One caller at a time. `body` must not throw.
  using Body = void (*)(void *context, uint32_t worker);
  void run(Body body, void *context);

  /// Inside a region: waits for all workers.
  void sync() {
    if (size > 1)
      barrier.arriveAndWait();
  }

private:
  ThreadTeam(uint32_t workers, bool spin) : size(workers), spin(spin), barrier(workers, spin) {}
  void work(uint32_t worker);
  /// Waits for a region after `seen`; returns its number.
  uint64_t awaitRegion(uint64_t seen);

  const uint32_t size;
  const bool spin;
  Barrier barrier;
  alignas(kSeparate) std::atomic<uint64_t> region{0}; // written under `lock`
  Body body = nullptr;                                // these three are published by `region`
  void *context = nullptr;
  bool closing = false;
  std::mutex lock;
  std::condition_variable wake;
  uint32_t parked = 0; // under `lock`
  std::vector<std::thread> threads;
};

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_CPU_THREAD_TEAM_H
