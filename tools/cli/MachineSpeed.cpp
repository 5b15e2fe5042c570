// SPDX-License-Identifier: Apache-2.0
//
// Each thread sums its part in several streams at once, since one doesn't keep
// enough requests under way; how many are best depends on the machine, so the
// quickest counts. Arithmetic is measured in registers, in enough chains to hide
// the latency.
#include "tools/cli/MachineSpeed.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace llmc::cli {

namespace {

constexpr size_t kBytes = size_t(256) << 20;
constexpr int kPasses = 4;

/// Seconds until all of `threads` calls of work(thread) are done; the least of several passes.
double bestSeconds(unsigned threads, const std::function<void(unsigned)> &work) {
  double best = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> team;
    for (unsigned t = 0; t < threads; ++t)
      team.emplace_back(work, t);
    for (std::thread &thread : team)
      thread.join();
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

/// The sum of a block, read in `Streams` parts at once.
template <size_t Streams> uint64_t sum(const uint64_t *begin, size_t words) {
  const size_t part = words / Streams;
  uint64_t sums[Streams][8] = {};
  for (size_t i = 0; i + 8 <= part; i += 8)
    for (size_t stream = 0; stream < Streams; ++stream)
      for (size_t lane = 0; lane < 8; ++lane)
        sums[stream][lane] += begin[stream * part + i + lane];
  uint64_t total = 0;
  for (const auto &stream : sums)
    for (uint64_t lane : stream)
      total += lane;
  return total;
}

constexpr uint64_t (*kSums[])(const uint64_t *, size_t) = {sum<1>, sum<2>, sum<4>, sum<8>};

/// `advice`: MADV_HUGEPAGE or MADV_NOHUGEPAGE. 0 when there is no memory.
double measureReads(unsigned threads, int advice) {
  constexpr size_t kLargePage = size_t(2) << 20;
  void *mapped = mmap(nullptr, kBytes + kLargePage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return 0;
  auto address = (reinterpret_cast<uintptr_t>(mapped) + kLargePage - 1) & ~(kLargePage - 1);
  auto *words = reinterpret_cast<uint64_t *>(address);
  (void)madvise(words, kBytes, advice); // where it is not known, pages are as they are
  size_t part = kBytes / sizeof(uint64_t) / threads;
  std::fill(words, words + part * threads, 1);
  std::atomic<uint64_t> total = 0; // so that no read can be left out
  double seconds = 1e9;
  for (auto *read : kSums)
    seconds = std::min(
        seconds, bestSeconds(threads, [&](unsigned t) { total += read(words + t * part, part); }));
  munmap(mapped, kBytes + kLargePage);
  return total.load() > 0 ? double(part * threads * sizeof(uint64_t)) / seconds : 0;
}

constexpr size_t kRounds = size_t(4) << 20;

/// Rounds of one multiply-add in each of `Chains` vectors.
template <typename Vector, size_t Chains>
[[gnu::always_inline]] inline float multiplyAdd(float factor, float term) {
  Vector chains[Chains] = {};
  for (size_t round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < Chains; ++i)
      chains[i] = chains[i] * factor + term;
  float total = 0;
  for (size_t i = 0; i < Chains; ++i)
    total += chains[i][0];
  return total;
}

typedef float Vector16 __attribute__((vector_size(16)));
typedef float Vector32 __attribute__((vector_size(32)));
typedef float Vector64 __attribute__((vector_size(64)));

struct MultiplyAdd {
  float (*run)(float factor, float term);
  double operations; ///< of a run
};

template <typename Vector, size_t Chains> constexpr double operationsOf() {
  return double(kRounds) * double(Chains) * double(sizeof(Vector) / sizeof(float)) * 2;
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] float multiplyAdd512(float factor, float term) {
  return multiplyAdd<Vector64, 12>(factor, term);
}
[[gnu::target("avx2,fma")]] float multiplyAdd256(float factor, float term) {
  return multiplyAdd<Vector32, 12>(factor, term);
}
#endif
float multiplyAdd128(float factor, float term) { return multiplyAdd<Vector16, 12>(factor, term); }

MultiplyAdd widestMultiplyAdd() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return {multiplyAdd512, operationsOf<Vector64, 12>()};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {multiplyAdd256, operationsOf<Vector32, 12>()};
#endif
  return {multiplyAdd128, operationsOf<Vector16, 12>()};
}

double measureMultiplyAdd(unsigned threads) {
  MultiplyAdd kernel = widestMultiplyAdd();
  std::atomic<float> total = 0;
  double seconds = bestSeconds(threads, [&](unsigned) { total.fetch_add(kernel.run(0.5f, 1.0f)); });
  return total.load() > 0 ? kernel.operations * threads / seconds : 0;
}

} // namespace

MachineSpeed measureMachine(unsigned threads) {
  threads = std::max(threads, 1u);
  return {measureReads(threads, MADV_NOHUGEPAGE), measureReads(threads, MADV_HUGEPAGE),
          measureMultiplyAdd(threads)};
}

} // namespace llmc::cli
