// SPDX-License-Identifier: Apache-2.0
//
// Each thread sums its part in four streams at once, as the kernels read
// weights, since one stream doesn't keep enough requests under way.
#include "tools/cli/MemoryBandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace llmc::cli {

namespace {

constexpr size_t kBytes = size_t(256) << 20;
constexpr size_t kStreams = 4;
constexpr int kPasses = 4; // the first one maps the pages

uint64_t sum(const uint64_t *begin, size_t words) {
  const size_t part = words / kStreams;
  uint64_t sums[kStreams][8] = {};
  for (size_t i = 0; i + 8 <= part; i += 8)
    for (size_t stream = 0; stream < kStreams; ++stream)
      for (size_t lane = 0; lane < 8; ++lane)
        sums[stream][lane] += begin[stream * part + i + lane];
  uint64_t total = 0;
  for (const auto &stream : sums)
    for (uint64_t lane : stream)
      total += lane;
  return total;
}

} // namespace

double readBandwidth(unsigned threads) {
  threads = std::max(threads, 1u);
  std::vector<uint64_t> memory(kBytes / sizeof(uint64_t), 1);
  std::atomic<uint64_t> result = 0; // so that no read can be left out
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    size_t part = memory.size() / threads;
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> readers;
    for (unsigned t = 0; t < threads; ++t)
      readers.emplace_back([&, t] { result += sum(memory.data() + t * part, part); });
    for (std::thread &reader : readers)
      reader.join();
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, double(part * threads * sizeof(uint64_t)) / time.count());
  }
  return result.load() > 0 ? best : 0;
}

} // namespace llmc::cli
