// SPDX-License-Identifier: Apache-2.0
//
// Sizes that grow with the past: caches in blocks, and how often the arena is
// packed.
#include "tests/unit/exec/ExecutorFixture.h"

namespace llmc {
namespace {

using namespace test;

/// Session: x (1, sequence, 4) is appended to the cache; y (4) is the sum over it.
ProgramBuilder sessionProgram(uint32_t device) {
  ProgramBuilder builder;
  for (uint32_t i = 1; i <= device; ++i)
    builder.device("cpu" + std::to_string(i), "cpu");
  uint32_t sequence = builder.symbol("sequence");
  uint32_t past = builder.symbol("past");
  builder.beginEntry("session", LLMC_ENTRY_SESSION);
  uint32_t seq = builder.symbolExpr(sequence);
  uint32_t before = builder.symbolExpr(past);
  uint32_t tokens = builder.add(seq, before);
  uint32_t four = builder.constant(4);
  uint32_t rowBytes = builder.constant(16);
  uint32_t bytes = builder.mul(seq, rowBytes);
  uint32_t x = builder.input("x", Dtype::F32, {builder.constant(1), seq, four});
  uint32_t y = builder.output("y", Dtype::F32, {four});
  builder.bindSession(sequence, LLMC_BIND_SESSION_SEQ);
  builder.bindSession(past, LLMC_BIND_SESSION_PAST);
  uint32_t other = builder.kv(0);
  uint32_t kv = builder.kv(device);
  (void)other;
  // Its size grows with the past, as attention scores do.
  uint32_t scores = builder.arena(builder.mul(tokens, rowBytes), device);
  uint32_t fill = builder.kernel("test_fill", 1, 1, 2);
  uint32_t append = builder.kernel("test_kv_append", 2, 1, 2);
  uint32_t sum = builder.kernel("test_kv_sum", 2, 1, 1);
  if (device != 0) {
    uint32_t moved = builder.arena(bytes, device);
    builder.transfer(moved, x, bytes, device);
    x = moved;
  }
  builder.dispatch(fill, {scores}, {builder.mul(tokens, four), four}, "scores", device);
  builder.dispatch(append, {x, kv}, {seq, before}, "append", device);
  if (device == 0) {
    builder.dispatch(sum, {kv, y}, {tokens}, "sum", device);
  } else {
    uint32_t result = builder.arena(rowBytes, device);
    builder.dispatch(sum, {kv, result}, {tokens}, "sum", device);
    builder.transfer(y, result, rowBytes, 0);
  }
  builder.endEntry();
  return builder;
}

TEST(Executor, KeepsASessionsCacheInBlocks) {
  for (uint32_t device : {0, 1})
    for (bool separate : {false, true}) {
      std::vector<std::shared_ptr<Device>> devices = {
          openCpu("cpu0", "2", separate && device == 0)};
      if (device == 1)
        devices.push_back(openCpu("cpu1", "1", separate));
      auto executor = makeExecutor(sessionProgram(device), devices);
      ASSERT_TRUE(executor.isOk()) << executor.status().message();
      ASSERT_EQ((*executor)->kvBuffers().size(), 2u);
      Result<std::shared_ptr<KvPool>> pool = KvPool::create(devices, (*executor)->kvBuffers());
      ASSERT_TRUE(pool.isOk());
      Result<std::unique_ptr<KvState>> kv = KvState::create(*pool, 700);
      ASSERT_TRUE(kv.isOk());
      auto context = (*executor)->createContext();
      Floats history;
      auto feed = [&](int64_t count) {
        Floats x = ramp(static_cast<size_t>(count) * 4, static_cast<float>(history.size() + 1));
        Floats y(4);
        ConstTensor inputs[] = {in(x, {1, count, 4})};
        Tensor outputs[] = {out(y, {4})};
        CallOptions options;
        options.kv = kv->get();
        options.sequence = count;
        Status status = context->run(0, inputs, outputs, options);
        if (!status.isOk())
          return status;
        history.insert(history.end(), x.begin(), x.end());
        Floats expected(4, 0.0f);
        for (size_t i = 0; i < history.size(); ++i)
          expected[i % 4] += history[i];
        EXPECT_EQ(y, expected);
        EXPECT_EQ((*kv)->length(), static_cast<int64_t>(history.size() / 4));
        return Status::ok();
      };
      ASSERT_TRUE(feed(130).isOk());
      for (int i = 0; i < 500; ++i)
        ASSERT_TRUE(feed(1).isOk());
      // The prompt's, then one for each 256 tokens of past: 256, 512, 768.
      EXPECT_EQ(context->packingCount(), 4u);
      expectError(feed(71), Code::ResourceExhausted, "630 of 700 tokens, 71 more");
      ASSERT_TRUE(feed(70).isOk());
      ASSERT_TRUE((*kv)->truncate(100).isOk());
      history.resize(400);
      ASSERT_TRUE(feed(3).isOk());
    }
}

TEST(Executor, RefusesAWrongCache) {
  auto cpu = openCpu("cpu0", "1");
  auto executor = makeExecutor(sessionProgram(0), {cpu});
  ASSERT_TRUE(executor.isOk());
  auto context = (*executor)->createContext();
  Floats x(4);
  Floats y(4);
  ConstTensor inputs[] = {in(x, {1, 1, 4})};
  Tensor outputs[] = {out(y, {4})};
  expectError(context->run(0, inputs, outputs), Code::InvalidArgument, "needs a session's cache");
  auto pool = KvPool::create({cpu}, {{0, 64}});
  auto kv = KvState::create(*pool, 10);
  CallOptions options;
  options.kv = kv->get();
  options.sequence = 1;
  expectError(context->run(0, inputs, outputs, options), Code::InvalidArgument, "another program");
  pool = KvPool::create({openCpu("cpu0", "1")}, (*executor)->kvBuffers());
  kv = KvState::create(*pool, 10);
  options.kv = kv->get();
  expectError(context->run(0, inputs, outputs, options), Code::InvalidArgument, "another program");
  pool = KvPool::create({cpu}, (*executor)->kvBuffers());
  kv = KvState::create(*pool, 10);
  options.kv = kv->get();
  options.sequence = 0;
  expectError(context->run(0, inputs, outputs, options), Code::InvalidArgument, "0 tokens");
  options.sequence = 2;
  expectError(context->run(0, inputs, outputs, options), Code::InvalidArgument,
              "input 'x' dim 1 is 1, but 'sequence' is 2");
  EXPECT_EQ((*kv)->length(), 0);
}

TEST(Executor, RoundsThePastOfRunEntriesToo) {
  ProgramBuilder builder;
  uint32_t past = builder.symbol("past");
  builder.beginEntry("run");
  uint32_t p = builder.symbolExpr(past);
  uint32_t x = builder.input("past_key", Dtype::F32, {p}, {"past"}, LLMC_ROLE_PAST, 0);
  builder.bindInput(past, 0, 0);
  uint32_t y = builder.output("y", Dtype::F32, {p});
  uint32_t t = builder.arena(builder.mul(p, builder.constant(4)));
  uint32_t mirror = builder.kernel("test_mirror", 2, 1, 1);
  builder.dispatch(mirror, {x, t}, {p});
  builder.dispatch(mirror, {t, y}, {p});
  builder.endEntry();
  auto executor = makeExecutor(builder, {openCpu("cpu0", "1")});
  ASSERT_TRUE(executor.isOk());
  auto context = (*executor)->createContext();
  for (int64_t n = 1; n <= 512; ++n) {
    Floats x0 = ramp(static_cast<size_t>(n));
    Floats y0(static_cast<size_t>(n));
    ConstTensor inputs[] = {in(x0, {n})};
    Tensor outputs[] = {out(y0, {n})};
    ASSERT_TRUE(context->run(0, inputs, outputs).isOk());
    ASSERT_EQ(y0, mirrorReference(x0, 2));
  }
  EXPECT_EQ(context->packingCount(), 2u);
}

TEST(Executor, PacksExactlyWhereSizesShrinkWithThePast) {
  // 1000 - past: what the rounded past gives is too small.
  ProgramBuilder builder;
  uint32_t past = builder.symbol("past");
  builder.beginEntry("run");
  uint32_t p = builder.symbolExpr(past);
  uint32_t rest = builder.add(builder.constant(1000), builder.mul(p, builder.constant(-1)));
  builder.input("past_key", Dtype::F32, {p}, {"past"}, LLMC_ROLE_PAST, 0);
  builder.bindInput(past, 0, 0);
  uint32_t y = builder.output("y", Dtype::F32, {rest});
  uint32_t t = builder.arena(builder.mul(rest, builder.constant(4)));
  builder.dispatch(builder.kernel("test_fill", 1, 1, 2), {t}, {rest, p});
  builder.copy(y, t, builder.mul(rest, builder.constant(4)));
  builder.endEntry();
  auto executor = makeExecutor(builder, {openCpu("cpu0", "1")});
  ASSERT_TRUE(executor.isOk()) << executor.status().message();
  auto context = (*executor)->createContext();
  for (int64_t n : {0, 1, 2, 255, 256, 257, 900, 1000}) {
    Floats x0(static_cast<size_t>(n));
    Floats y0(static_cast<size_t>(1000 - n));
    ConstTensor inputs[] = {in(x0, {n})};
    Tensor outputs[] = {out(y0, {1000 - n})};
    Status status = context->run(0, inputs, outputs);
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(y0, Floats(static_cast<size_t>(1000 - n), static_cast<float>(n)));
  }
  Floats x0(1001);
  ConstTensor inputs[] = {in(x0, {1001})};
  expectError(context->outputShapes(0, inputs).status(), Code::InvalidArgument, "output 'y'");
}

} // namespace
} // namespace llmc
