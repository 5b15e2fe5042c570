// SPDX-License-Identifier: Apache-2.0
//
// Barrier: a counter that each arrival raises and a phase word that the last
// arrival advances. A waiter reads the phase before it arrives, so it can't
// miss the change: the phase can't move on without its own arrival.
#include "runtime/drivers/cpu/ThreadTeam.h"

#include <chrono>
#include <sched.h>
#include <system_error>

namespace llmc {

namespace {

using Clock = std::chrono::steady_clock;
/// How long a waiter keeps its core before it yields between looks.
constexpr auto kSpinTime = std::chrono::microseconds(50);
/// How long a worker without work stays awake; covers the pause between two tokens.
constexpr auto kAwakeTime = std::chrono::milliseconds(1);
/// Looks between two reads of the clock.
constexpr int kLooks = 64;

void pauseCpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Looks at `done` until it holds (true) or `limit` after the start (false).
template <typename Done> bool spinFor(Clock::duration limit, Done done) {
  Clock::time_point end{};
  while (true) {
    for (int i = 0; i < kLooks; ++i) {
      if (done())
        return true;
      pauseCpu();
    }
    // The clock is read only by those who wait long.
    Clock::time_point now = Clock::now();
    if (end == Clock::time_point{})
      end = now + limit;
    else if (now >= end)
      return false;
  }
}

} // namespace

void Barrier::arriveAndWait() {
  uint32_t before = phase.load(std::memory_order_relaxed);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived.store(0, std::memory_order_relaxed);
    phase.store(before + 1, std::memory_order_release);
    return;
  }
  auto moved = [&] { return phase.load(std::memory_order_acquire) != before; };
  if (spin && spinFor(kSpinTime, moved))
    return;
  while (!moved())
    sched_yield();
}

Result<std::unique_ptr<ThreadTeam>> ThreadTeam::create(uint32_t workers, uint32_t cores) {
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(workers, workers <= cores));
  team->threads.reserve(workers - 1);
  try {
    for (uint32_t worker = 1; worker < workers; ++worker)
      team->threads.emplace_back([raw = team.get(), worker] { raw->work(worker); });
  } catch (const std::system_error &error) {
    return Status::error(Code::Unavailable, "cannot start thread {} of {}: {}",
                         team->threads.size() + 2, workers, error.code().message());
  }
  return team;
}

ThreadTeam::~ThreadTeam() {
  {
    std::lock_guard guard(lock);
    closing = true;
    region.fetch_add(1, std::memory_order_release);
  }
  wake.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void ThreadTeam::run(Body newBody, void *newContext) {
  if (size == 1) {
    newBody(newContext, 0);
    return;
  }
  bool anyoneParked;
  {
    std::lock_guard guard(lock);
    body = newBody;
    context = newContext;
    region.fetch_add(1, std::memory_order_release);
    anyoneParked = parked != 0;
  }
  if (anyoneParked)
    wake.notify_all();
  newBody(newContext, 0);
  barrier.arriveAndWait();
}

void ThreadTeam::work(uint32_t worker) {
  uint64_t seen = 0;
  while (true) {
    seen = awaitRegion(seen);
    if (closing)
      return;
    body(context, worker);
    // After this nothing of the region is touched: the caller may be gone.
    barrier.arriveAndWait();
  }
}

uint64_t ThreadTeam::awaitRegion(uint64_t seen) {
  auto started = [&] { return region.load(std::memory_order_acquire) != seen; };
  if (!(spin && spinFor(kSpinTime, started))) {
    Clock::time_point end = Clock::now() + kAwakeTime;
    while (!started() && Clock::now() < end)
      sched_yield();
    if (!started()) {
      std::unique_lock guard(lock);
      ++parked;
      wake.wait(guard, started);
      --parked;
    }
  }
  // Regions can't be skipped: the next one starts only after this worker's part of the last.
  return seen + 1;
}

} // namespace llmc
