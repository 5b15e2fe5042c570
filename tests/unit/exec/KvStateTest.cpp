// SPDX-License-Identifier: Apache-2.0
//
// Blocks come and go with the tokens, tables follow, limits hold.
#include "runtime/exec/KvState.h"

#include "runtime/drivers/Drivers.h"

#include <gtest/gtest.h>

#include <set>

namespace llmc {
namespace {

class KvStateTest : public testing::Test {
protected:
  void SetUp() override {
    DriverRegistry registry;
    ASSERT_TRUE(registerDrivers(registry).isOk());
    for (const char *name : {"cpu0", "cpu1"}) {
      DeviceOption options[] = {{"threads", "1"}};
      Result<std::shared_ptr<Device>> device = Device::open(registry, "cpu", name, options);
      ASSERT_TRUE(device.isOk());
      devices.push_back(*device);
    }
  }
  std::shared_ptr<KvPool> pool(uint64_t maxBytes = UINT64_MAX) {
    Result<std::shared_ptr<KvPool>> result =
        KvPool::create(devices, {{0, 1000}, {1, 1024}, {0, 64}}, maxBytes);
    EXPECT_TRUE(result.isOk());
    return *result;
  }
  static std::unique_ptr<KvState> state(std::shared_ptr<KvPool> pool, int64_t capacity) {
    Result<std::unique_ptr<KvState>> result = KvState::create(std::move(pool), capacity);
    EXPECT_TRUE(result.isOk());
    return std::move(*result);
  }
  static llmc_address entry(const KvState &state, size_t buffer, size_t block) {
    return reinterpret_cast<const llmc_address *>(state.table(buffer))[block];
  }
  std::vector<std::shared_ptr<Device>> devices;
};

TEST_F(KvStateTest, GrowsByBlocksOf64Tokens) {
  std::shared_ptr<KvPool> blocks = pool();
  EXPECT_EQ(blocks->groupBytes(), 1024u + 1024u + 64u);
  auto kv = state(blocks, 1000);
  EXPECT_EQ(blocks->allocatedBytes(), 0u);
  const struct {
    int64_t tokens;
    uint64_t groups;
  } steps[] = {{0, 0}, {1, 1}, {64, 1}, {65, 2}, {64, 2}, {129, 3}, {1000, 16}};
  for (const auto &step : steps) {
    ASSERT_TRUE(kv->reserve(step.tokens).isOk());
    EXPECT_EQ(blocks->allocatedBytes(), step.groups * blocks->groupBytes());
  }
  std::set<llmc_address> seen;
  for (size_t buffer = 0; buffer < 3; ++buffer)
    for (size_t block = 0; block < 16; ++block) {
      llmc_address address = entry(*kv, buffer, block);
      EXPECT_NE(address, 0u);
      EXPECT_EQ(address % 64, 0u);
      EXPECT_TRUE(seen.insert(address).second);
    }
}

TEST_F(KvStateTest, RefusesMoreThanItsCapacity) {
  auto kv = state(pool(), 100);
  Status status = kv->reserve(101);
  EXPECT_EQ(status.code(), Code::ResourceExhausted);
  EXPECT_NE(status.message().find("101"), std::string::npos);
  EXPECT_NE(status.message().find("100"), std::string::npos);
  EXPECT_TRUE(kv->reserve(100).isOk());
  EXPECT_EQ(KvState::create(pool(), 0).status().code(), Code::InvalidArgument);
  EXPECT_EQ(KvState::create(pool(), INT64_MAX).status().code(), Code::InvalidArgument);
}

TEST_F(KvStateTest, TruncatingGivesBlocksToOtherSequences) {
  std::shared_ptr<KvPool> blocks = pool(/*maxBytes=*/3 * 2112);
  auto first = state(blocks, 1000);
  auto second = state(blocks, 1000);
  ASSERT_TRUE(first->reserve(150).isOk());
  first->setLength(150);
  Status status = second->reserve(1);
  EXPECT_EQ(status.code(), Code::ResourceExhausted);
  llmc_address kept = entry(*first, 1, 0);
  ASSERT_TRUE(first->truncate(64).isOk());
  EXPECT_EQ(first->length(), 64);
  EXPECT_EQ(entry(*first, 1, 0), kept);
  EXPECT_EQ(entry(*first, 1, 1), 0u);
  EXPECT_TRUE(second->reserve(128).isOk());
  EXPECT_EQ(second->reserve(129).code(), Code::ResourceExhausted);
  EXPECT_EQ(first->truncate(65).code(), Code::InvalidArgument);
  EXPECT_EQ(first->truncate(-1).code(), Code::InvalidArgument);
  first->reset();
  EXPECT_EQ(first->length(), 0);
  EXPECT_TRUE(second->reserve(129).isOk());
  EXPECT_EQ(blocks->allocatedBytes(), 3 * blocks->groupBytes());
}

TEST_F(KvStateTest, RefusesImpossibleBuffers) {
  EXPECT_EQ(KvPool::create(devices, {{2, 64}}).status().code(), Code::InvalidArgument);
  EXPECT_EQ(KvPool::create(devices, {{0, UINT64_MAX}}).status().code(), Code::InvalidArgument);
  EXPECT_EQ(KvPool::create(devices, {{0, uint64_t{1} << 61},
                                     {0, uint64_t{1} << 61},
                                     {0, uint64_t{1} << 61},
                                     {0, uint64_t{1} << 61}})
                .status()
                .code(),
            Code::InvalidArgument);
  // Possible, but more than there is: an error of the machine, and nothing stays booked.
  Result<std::shared_ptr<KvPool>> huge = KvPool::create(devices, {{0, uint64_t{1} << 60}});
  ASSERT_TRUE(huge.isOk());
  auto kv = state(*huge, 64);
  EXPECT_EQ(kv->reserve(1).code(), Code::Unavailable);
  EXPECT_EQ((*huge)->allocatedBytes(), 0u);
}

} // namespace
} // namespace llmc
