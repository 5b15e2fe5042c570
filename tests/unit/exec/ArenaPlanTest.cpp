// SPDX-License-Identifier: Apache-2.0
//
// The one property that matters, on random lifetimes, and how tight it packs.
#include "runtime/exec/ArenaPlan.h"

#include <gtest/gtest.h>

#include <random>

namespace llmc {
namespace {

bool alive(const ArenaBuffer &a, const ArenaBuffer &b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(ArenaPlan, BuffersAliveAtTheSameTimeNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<ArenaBuffer> buffers(random() % 60);
    for (ArenaBuffer &buffer : buffers) {
      buffer.size = random() % 4 == 0 ? random() % 3 : random() % 5000;
      buffer.first = random() % 40;
      buffer.last = buffer.first + random() % 10;
    }
    Result<ArenaPlan> plan = packArena(buffers);
    ASSERT_TRUE(plan.isOk());
    ASSERT_EQ(plan->offsets.size(), buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan->offsets[i] % 64, 0u);
      EXPECT_LE(plan->offsets[i] + buffers[i].size, plan->size);
      for (size_t j = 0; j < i; ++j) {
        if (!alive(buffers[i], buffers[j]))
          continue;
        EXPECT_TRUE(buffers[i].size == 0 || buffers[j].size == 0 ||
                    plan->offsets[i] + buffers[i].size <= plan->offsets[j] ||
                    plan->offsets[j] + buffers[j].size <= plan->offsets[i]);
      }
    }
    // The same question has the same answer.
    EXPECT_EQ(packArena(buffers)->offsets, plan->offsets);
  }
}

TEST(ArenaPlan, ReusesMemoryOfAChain) {
  // Each step reads the last buffer and writes the next: two are alive at a time.
  std::vector<ArenaBuffer> buffers;
  for (uint32_t i = 0; i < 100; ++i)
    buffers.push_back({1024, i, i + 1});
  EXPECT_EQ(packArena(buffers)->size, 2048u);
}

TEST(ArenaPlan, EmptyBuffersTakeNothing) {
  std::vector<ArenaBuffer> buffers(10, {0, 0, 5});
  EXPECT_EQ(packArena(buffers)->size, 0u);
  EXPECT_EQ(packArena({})->size, 0u);
}

TEST(ArenaPlan, RefusesSizesThatDoNotAddUp) {
  std::vector<ArenaBuffer> buffers = {{UINT64_MAX, 0, 1}};
  EXPECT_EQ(packArena(buffers).status().code(), Code::InvalidArgument);
  buffers = {{uint64_t{1} << 62, 0, 1}, {uint64_t{1} << 62, 0, 1}, {uint64_t{1} << 62, 0, 1}};
  EXPECT_EQ(packArena(buffers).status().code(), Code::InvalidArgument);
  buffers = {{uint64_t{1} << 62, 0, 0}, {uint64_t{1} << 62, 1, 1}, {uint64_t{1} << 62, 2, 2}};
  EXPECT_EQ(packArena(buffers)->size, uint64_t{1} << 62);
}

} // namespace
} // namespace llmc
