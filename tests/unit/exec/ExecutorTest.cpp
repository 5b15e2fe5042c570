// SPDX-License-Identifier: Apache-2.0
//
// Hand-built programs on tiny C kernels, compared with plain loops.
#include "runtime/abi/KernelAbi.h"
#include "tests/unit/exec/ExecutorFixture.h"

#include <atomic>
#include <random>
#include <thread>

namespace llmc {
namespace {

using namespace test;

TEST(Executor, RunsDynamicShapesIncludingEmptyOnes) {
  auto executor = makeExecutor(mirrorChain(9, {0}), {openCpu("cpu0", "2")});
  ASSERT_TRUE(executor.isOk()) << executor.status().message();
  auto context = (*executor)->createContext();
  for (size_t n : {0, 1, 2, 63, 64, 1000, 5, 0}) {
    Floats x = ramp(n);
    Floats y(n);
    Shape shape = {static_cast<int64_t>(n)};
    ConstTensor inputs[] = {in(x, shape)};
    Result<std::vector<Shape>> shapes = context->outputShapes(0, inputs);
    ASSERT_TRUE(shapes.isOk());
    EXPECT_EQ(*shapes, std::vector<Shape>{shape});
    Tensor outputs[] = {out(y, shape)};
    Status status = context->run(0, inputs, outputs);
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(y, mirrorReference(x, 9));
  }
  // Nine results, two of them alive at a time.
  EXPECT_EQ(context->arenaBytes(), 2 * 4032u);
}

TEST(Executor, ResultsDoNotDependOnTheThreadCount) {
  constexpr int kSteps = 50;
  for (size_t n : {1, 7, 1000}) {
    Floats x = ramp(n);
    Floats expected = mirrorReference(x, kSteps);
    for (const char *threads : {"1", "2", "3", "16"}) {
      auto executor = makeExecutor(mirrorChain(kSteps, {0}), {openCpu("cpu0", threads)});
      ASSERT_TRUE(executor.isOk());
      auto context = (*executor)->createContext();
      for (int repeat = 0; repeat < 5; ++repeat) {
        Floats y(n);
        ConstTensor inputs[] = {in(x, {static_cast<int64_t>(n)})};
        Tensor outputs[] = {out(y, {static_cast<int64_t>(n)})};
        ASSERT_TRUE(context->run(0, inputs, outputs).isOk());
        ASSERT_EQ(std::memcmp(y.data(), expected.data(), n * 4), 0) << threads;
      }
    }
  }
}

TEST(Executor, SplitsOverDevicesGiveTheSameBits) {
  constexpr int kSteps = 12;
  const std::vector<uint32_t> maps[] = {{0, 1}, {1}, {0, 0, 0, 1, 1, 1}, {1, 1, 0}, {0, 1, 2}};
  for (const std::vector<uint32_t> &map : maps)
    for (uint32_t separate = 0; separate < 8; ++separate) {
      uint32_t count = *std::max_element(map.begin(), map.end()) + 1;
      std::vector<std::shared_ptr<Device>> devices;
      for (uint32_t i = 0; i < count; ++i)
        devices.push_back(
            openCpu("cpu" + std::to_string(i), i == 0 ? "2" : "1", (separate >> i & 1) != 0));
      auto executor = makeExecutor(mirrorChain(kSteps, map), devices);
      ASSERT_TRUE(executor.isOk()) << executor.status().message();
      auto context = (*executor)->createContext();
      for (size_t n : {0, 1, 333}) {
        Floats x = ramp(n);
        Floats y(n);
        ConstTensor inputs[] = {in(x, {static_cast<int64_t>(n)})};
        Tensor outputs[] = {out(y, {static_cast<int64_t>(n)})};
        Status status = context->run(0, inputs, outputs);
        ASSERT_TRUE(status.isOk()) << status.message();
        Floats expected = mirrorReference(x, kSteps);
        ASSERT_TRUE(n == 0 || std::memcmp(y.data(), expected.data(), n * 4) == 0);
      }
    }
}

TEST(Executor, TransfersMoreThanOneStagingChunk) {
  constexpr size_t kCount = (9 << 20) / 4 + 5;
  auto executor =
      makeExecutor(mirrorChain(2, {1, 2}), {openCpu("cpu0", "1", true), openCpu("cpu1", "1", true),
                                            openCpu("cpu2", "1", true)});
  ASSERT_TRUE(executor.isOk());
  auto context = (*executor)->createContext();
  Floats x = ramp(kCount);
  Floats y(kCount);
  ConstTensor inputs[] = {in(x, {kCount})};
  Tensor outputs[] = {out(y, {kCount})};
  ASSERT_TRUE(context->run(0, inputs, outputs).isOk());
  EXPECT_EQ(y, mirrorReference(x, 2));
}

/// a: (rows), b: (columns), c: (rows or 1, columns or 1 ...) with broadcasting sizes:
/// p = a ⊗ b; y = p + p + w where w is a weight of (8) for rows * columns = 8.
ProgramBuilder outerProgram(uint32_t device) {
  ProgramBuilder builder;
  for (uint32_t i = 1; i <= device; ++i)
    builder.device("cpu" + std::to_string(i), "cpu");
  uint32_t rows = builder.symbol("rows");
  uint32_t columns = builder.symbol("columns");
  uint32_t third = builder.symbol("third");
  builder.beginEntry("run");
  uint32_t r = builder.symbolExpr(rows);
  uint32_t c = builder.symbolExpr(columns);
  uint32_t t = builder.symbolExpr(third);
  uint32_t wide = builder.expr(LLMC_EXPR_BROADCAST, c, t);
  uint32_t total = builder.mul(r, c);
  uint32_t bytes = builder.mul(total, builder.constant(4));
  uint32_t a = builder.input("a", Dtype::F32, {r});
  uint32_t b = builder.input("b", Dtype::F32, {c});
  builder.input("shape_only", Dtype::F32, {t, builder.constant(3)});
  builder.input("both", Dtype::F32, {builder.add(r, c)}, {"rows + columns"});
  builder.bindInput(rows, 0, 0);
  builder.bindInput(columns, 1, 0);
  builder.bindInput(third, 2, 0);
  uint32_t y = builder.output("y", Dtype::F32, {r, wide});
  uint32_t w = builder.weight(64, 32, device);
  builder.check(LLMC_CHECK_EQ, total, builder.constant(8), "rows * columns must be 8");
  uint32_t outer = builder.kernel("test_outer", 3, 1, 2);
  uint32_t add = builder.kernel("test_add", 3, 1, 1);
  auto move = [&](uint32_t buffer, uint32_t size) {
    if (device == 0)
      return buffer;
    uint32_t moved = builder.arena(size, device);
    builder.transfer(moved, buffer, size, device);
    return moved;
  };
  uint32_t aBytes = builder.mul(r, builder.constant(4));
  uint32_t bBytes = builder.mul(c, builder.constant(4));
  a = move(a, aBytes);
  b = move(b, bBytes);
  uint32_t p = builder.arena(bytes, device);
  uint32_t q = builder.arena(bytes, device);
  uint32_t s = builder.arena(bytes, device);
  uint32_t flat = builder.alias(p, bytes);
  builder.dispatch(outer, {a, b, p}, {r, c}, "outer", device);
  builder.dispatch(add, {p, flat, q}, {total}, "double", device);
  builder.dispatch(add, {q, w, s}, {total}, "bias", device);
  if (device == 0)
    builder.copy(y, s, bytes);
  else
    builder.transfer(y, s, bytes, 0);
  builder.endEntry();
  return builder;
}

struct OuterRun {
  OuterRun(int64_t rows, int64_t columns, int64_t third)
      : a(ramp(static_cast<size_t>(rows))), b(ramp(static_cast<size_t>(columns), 2.0f)),
        c(static_cast<size_t>(third) * 3), d(static_cast<size_t>(rows + columns)),
        y(static_cast<size_t>(rows * columns)),
        inputs{in(a, {rows}), in(b, {columns}), in(c, {third, 3}), in(d, {rows + columns})},
        outputs{out(y, {rows, columns})} {}
  Floats expected(const Floats &weights) const {
    Floats result(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      float p = a[i / b.size()] * b[i % b.size()];
      result[i] = (p + p) + weights[16 + i];
    }
    return result;
  }
  Floats a, b, c, d, y;
  std::vector<ConstTensor> inputs;
  std::vector<Tensor> outputs;
};

TEST(Executor, BindsWeightsAliasesAndBroadcastSizes) {
  Floats values = ramp(24);
  Weights weights(values);
  for (uint32_t device : {0, 1})
    for (bool separate : {false, true}) {
      std::vector<std::shared_ptr<Device>> devices = {
          openCpu("cpu0", "2", separate && device == 0)};
      if (device == 1)
        devices.push_back(openCpu("cpu1", "1", separate));
      auto executor = makeExecutor(outerProgram(device), devices, weights.span());
      ASSERT_TRUE(executor.isOk()) << executor.status().message();
      EXPECT_EQ((*executor)->codeNames()[device], kImageName);
      auto context = (*executor)->createContext();
      for (int64_t rows : {1, 2, 4, 8}) {
        OuterRun run(rows, 8 / rows, rows % 2 == 0 ? 1 : 8 / rows);
        Status status = context->run(0, run.inputs, run.outputs);
        ASSERT_TRUE(status.isOk()) << status.message();
        EXPECT_EQ(run.y, run.expected(values));
      }
    }
}

TEST(Executor, ExplainsWrongInputs) {
  Floats values = ramp(24);
  Weights weights(values);
  auto executor = makeExecutor(outerProgram(0), {openCpu("cpu0", "1")}, weights.span());
  ASSERT_TRUE(executor.isOk());
  auto context = (*executor)->createContext();
  auto expect = [&](auto change, std::string_view text) {
    OuterRun run(2, 4, 1);
    change(run);
    expectError(context->run(0, run.inputs, run.outputs), Code::InvalidArgument, text);
  };
  expect([](OuterRun &run) { run.inputs[3].shape = {7}; },
         "input 'both' dim 0 is 7, but 'rows + columns' is 6");
  expect([](OuterRun &run) { run.inputs[2].shape = {1, 4}; },
         "input 'shape_only' dim 1 is 4, but the model takes 3");
  expect([](OuterRun &run) { run.inputs[2].shape = {2, 3}; },
         "'columns' is 4 and 'third' is 2, which cannot be broadcast");
  expect([](OuterRun &run) { run.inputs[0].shape = {2, 1}; },
         "input 'a' has shape (2, 1), but the model takes 1 dims");
  expect([](OuterRun &run) { run.inputs[0].dtype = Dtype::I64; },
         "input 'a' is i64, but the model takes f32");
  expect([](OuterRun &run) { run.inputs[0].shape = {-2}; }, "negative");
  expect([](OuterRun &run) { run.inputs[0].shape = {INT64_MAX}; }, "does not fit");
  expect([](OuterRun &run) { run.inputs.pop_back(); }, "takes 4 inputs, 3 were given");
  expect([](OuterRun &run) { run.inputs[0].data = nullptr; }, "input 'a' has no memory");
  expect([](OuterRun &run) { run.outputs[0].data = nullptr; }, "output 'y' has no memory");
  expect([](OuterRun &run) { run.outputs[0].shape = {4, 2}; },
         "output 'y' has shape (2, 4), but memory of shape (4, 2) was given");
  expect([](OuterRun &run) { run.outputs[0].dtype = Dtype::F16; },
         "output 'y' is f32, but f16 memory was given");
  expect([](OuterRun &run) { run.outputs.clear(); }, "gives 1 outputs");
  OuterRun wrong(3, 4, 1);
  expectError(context->run(0, wrong.inputs, wrong.outputs), Code::InvalidArgument,
              "cannot run: rows * columns must be 8 (found 12 and 8)");
  EXPECT_EQ(context->outputShapes(0, wrong.inputs).status().code(), Code::InvalidArgument);
  expectError(context->run(1, wrong.inputs, wrong.outputs), Code::InvalidArgument, "entry 1");
  OuterRun right(2, 4, 4);
  EXPECT_TRUE(context->run(0, right.inputs, right.outputs).isOk());
}

TEST(Executor, OutputsMayShareMemoryWithInputs) {
  // y = mirror(x) in place; and an input that is not aligned to its element size.
  ProgramBuilder builder;
  uint32_t n = builder.symbol("n");
  builder.beginEntry("run");
  uint32_t count = builder.symbolExpr(n);
  uint32_t x = builder.input("x", Dtype::F32, {count});
  builder.bindInput(n, 0, 0);
  uint32_t y = builder.output("y", Dtype::F32, {count});
  builder.dispatch(builder.kernel("test_mirror", 2, 1, 1), {x, y}, {count});
  builder.endEntry();
  for (bool separate : {false, true}) {
    auto executor = makeExecutor(builder, {openCpu("cpu0", "2", separate)});
    ASSERT_TRUE(executor.isOk());
    auto context = (*executor)->createContext();
    Floats x0 = ramp(101);
    for (size_t shift : {0, 1, 50}) {
      Floats memory(200);
      std::copy(x0.begin(), x0.end(), memory.begin());
      ConstTensor inputs[] = {{Dtype::F32, {101}, memory.data()}};
      Tensor outputs[] = {{Dtype::F32, {101}, memory.data() + shift}};
      ASSERT_TRUE(context->run(0, inputs, outputs).isOk());
      EXPECT_EQ(Floats(memory.begin() + static_cast<long>(shift),
                       memory.begin() + static_cast<long>(shift) + 101),
                mirrorReference(x0, 1));
    }
    std::vector<char> odd(101 * 4 + 1);
    std::memcpy(odd.data() + 1, x0.data(), 101 * 4);
    Floats y0(101);
    ConstTensor inputs[] = {{Dtype::F32, {101}, odd.data() + 1}};
    Tensor outputs[] = {out(y0, {101})};
    ASSERT_TRUE(context->run(0, inputs, outputs).isOk());
    EXPECT_EQ(y0, mirrorReference(x0, 1));
    Tensor misaligned[] = {{Dtype::F32, {101}, odd.data() + 1}};
    expectError(context->run(0, inputs, misaligned), Code::InvalidArgument, "not aligned");
  }
}

TEST(Executor, CopiesAnInputOrWeightToAnOutput) {
  ProgramBuilder builder;
  builder.beginEntry("run");
  uint32_t three = builder.constant(3);
  uint32_t bytes = builder.constant(12);
  uint32_t x = builder.input("x", Dtype::F32, {three});
  uint32_t w = builder.weight(64, 12);
  uint32_t y = builder.output("y", Dtype::F32, {three});
  uint32_t z = builder.output("z", Dtype::F32, {three});
  builder.copy(y, x, bytes);
  builder.copy(z, w, bytes);
  builder.endEntry();
  Weights weights(ramp(24));
  for (bool separate : {false, true}) {
    auto executor = makeExecutor(builder, {openCpu("cpu0", "2", separate)}, weights.span());
    ASSERT_TRUE(executor.isOk()) << executor.status().message();
    EXPECT_EQ((*executor)->codeNames()[0], "") << "no kernel runs, so no code is needed";
    auto context = (*executor)->createContext();
    Floats x0 = {1, 2, 3};
    Floats y0(3);
    Floats z0(3);
    ConstTensor inputs[] = {in(x0, {3})};
    Tensor outputs[] = {out(y0, {3}), out(z0, {3})};
    ASSERT_TRUE(context->run(0, inputs, outputs).isOk());
    EXPECT_EQ(y0, x0);
    Floats all = ramp(24);
    EXPECT_EQ(z0, Floats(all.begin() + 16, all.begin() + 19));
  }
}

TEST(Executor, NamesTheNodeOfAKernelError) {
  ProgramBuilder builder;
  builder.beginEntry("run");
  uint32_t fail = builder.kernel("test_fail", 0, 0, 2);
  uint32_t nop = builder.kernel("test_nop", 0, 0, 0);
  uint32_t all = builder.constant(-1);
  uint32_t code = builder.constant(LLMC_KERNEL_INDEX_OUT_OF_RANGE);
  builder.dispatch(nop, {}, {}, "/model/first");
  builder.dispatch(fail, {}, {all, code}, "/model/embed_tokens/Gather");
  builder.dispatch(nop, {}, {}, "/model/last");
  builder.endEntry();
  for (const char *threads : {"1", "2", "16"}) {
    auto executor = makeExecutor(builder, {openCpu("cpu0", threads)});
    ASSERT_TRUE(executor.isOk());
    auto context = (*executor)->createContext();
    for (int repeat = 0; repeat < 50; ++repeat)
      expectError(context->run(0, {}, {}), Code::InvalidArgument,
                  "node '/model/embed_tokens/Gather': device 'cpu0': an index is out of range");
  }
}

TEST(Executor, RefusesMissingKernelsAndCode) {
  ProgramBuilder builder;
  builder.beginEntry("run");
  builder.dispatch(builder.kernel("no_such_kernel", 0, 0, 0), {}, {});
  builder.endEntry();
  expectError(makeExecutor(builder, {openCpu("cpu0", "1")}).status(), Code::NotFound,
              "entry 'run': device 'cpu0': image");
  Result<std::shared_ptr<const Program>> program = builder.build();
  ASSERT_TRUE(program.isOk());
  ExecutorSource source;
  source.program = *program;
  expectError(Executor::create(source, {openCpu("cpu0", "1")}).status(), Code::Unavailable,
              "no code for a CPU");
  source.images.push_back({"riscv64-rvv.so", std::as_bytes(std::span(testImage()))});
  expectError(Executor::create(source, {openCpu("cpu0", "1")}).status(), Code::Unavailable,
              "riscv64-rvv");
  expectError(Executor::create(source, {}).status(), Code::InvalidArgument, "1 devices, 0 were");
}

TEST(Executor, KeepsToItsMemoryLimit) {
  ExecutorOptions options;
  options.arenaLimit = 10000;
  auto executor = makeExecutor(mirrorChain(3, {0}), {openCpu("cpu0", "1")}, {}, options);
  ASSERT_TRUE(executor.isOk());
  auto context = (*executor)->createContext();
  for (size_t n : {1250, 1300, 1250}) {
    Floats x = ramp(n);
    Floats y(n);
    ConstTensor inputs[] = {in(x, {static_cast<int64_t>(n)})};
    Tensor outputs[] = {out(y, {static_cast<int64_t>(n)})};
    Status status = context->run(0, inputs, outputs);
    if (n == 1250) {
      EXPECT_EQ(status.code(), Code::Unavailable);
    }
  }
  Floats x = ramp(1248);
  Floats y(1248);
  ConstTensor inputs[] = {in(x, {1248})};
  Tensor outputs[] = {out(y, {1248})};
  EXPECT_TRUE(context->run(0, inputs, outputs).isOk());
  Floats large = ramp(5000);
  ConstTensor tooMany[] = {in(large, {5000})};
  Floats y2(5000);
  Tensor outputs2[] = {out(y2, {5000})};
  expectError(context->run(0, tooMany, outputs2), Code::Unavailable, "needs 40064 bytes");
  EXPECT_TRUE(context->run(0, inputs, outputs).isOk()) << "a refusal changes nothing";
}

TEST(Executor, RefusesBuffersLargerThanTheirMemory) {
  // The bundle says more bytes than the input has.
  ProgramBuilder builder;
  builder.beginEntry("run");
  uint32_t three = builder.constant(3);
  uint32_t x = builder.input("x", Dtype::F32, {three});
  uint32_t more = builder.alias(x, builder.constant(13));
  uint32_t y = builder.output("y", Dtype::F32, {three});
  builder.copy(y, more, builder.constant(12));
  builder.endEntry();
  auto executor = makeExecutor(builder, {openCpu("cpu0", "1")});
  ASSERT_TRUE(executor.isOk());
  Floats x0(3);
  Floats y0(3);
  ConstTensor inputs[] = {in(x0, {3})};
  Tensor outputs[] = {out(y0, {3})};
  expectError((*executor)->createContext()->run(0, inputs, outputs), Code::Corrupt,
              "13 bytes in memory of 12");

  ProgramBuilder copies;
  copies.beginEntry("run");
  three = copies.constant(3);
  x = copies.input("x", Dtype::F32, {three});
  y = copies.output("y", Dtype::F32, {three});
  copies.copy(y, x, copies.constant(16));
  copies.endEntry();
  executor = makeExecutor(copies, {openCpu("cpu0", "1")});
  ASSERT_TRUE(executor.isOk());
  expectError((*executor)->createContext()->run(0, inputs, outputs), Code::Corrupt, "16 bytes");
}

TEST(Executor, StopsWhenCancelled) {
  auto executor = makeExecutor(mirrorChain(50, {0}), {openCpu("cpu0", "2")});
  ASSERT_TRUE(executor.isOk());
  auto context = (*executor)->createContext();
  constexpr size_t kCount = 200000;
  Floats x = ramp(kCount);
  Floats y(kCount);
  ConstTensor inputs[] = {in(x, {kCount})};
  Tensor outputs[] = {out(y, {kCount})};
  CancelFlag cancel;
  CallOptions options;
  options.cancel = &cancel;
  cancel.set();
  EXPECT_EQ(context->run(0, inputs, outputs, options).code(), Code::Cancelled);
  cancel.clear();
  EXPECT_TRUE(context->run(0, inputs, outputs, options).isOk());
  EXPECT_EQ(y, mirrorReference(x, 50));
  // From another thread, at some point of some call; the last one must see it.
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel.set();
  });
  Status status = Status::ok();
  while (status.isOk())
    status = context->run(0, inputs, outputs, options);
  other.join();
  EXPECT_EQ(status.code(), Code::Cancelled) << status.message();
}

TEST(Executor, ProfilesInstructions) {
  auto executor =
      makeExecutor(mirrorChain(3, {0, 1, 0}), {openCpu("cpu0", "2"), openCpu("cpu1", "1")});
  ASSERT_TRUE(executor.isOk());
  auto context = (*executor)->createContext();
  Floats x = ramp(100000);
  Floats y(100000);
  ConstTensor inputs[] = {in(x, {100000})};
  Tensor outputs[] = {out(y, {100000})};
  CallOptions options;
  EXPECT_TRUE(context->run(0, inputs, outputs, options).isOk());
  EXPECT_TRUE(context->profile().empty());
  options.profile = true;
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(context->run(0, inputs, outputs, options).isOk());
  std::vector<ProfileRow> rows = context->profile();
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].label, "mirror 0");
  EXPECT_EQ(rows[0].kernel, "label of test_mirror");
  EXPECT_EQ(rows[1].kernel, "transfer");
  EXPECT_EQ(rows[5].kernel, "copy");
  for (const ProfileRow &row : rows) {
    EXPECT_EQ(row.calls, 3u);
    EXPECT_GT(row.microseconds, 0.1);
  }
  context->clearProfile();
  EXPECT_TRUE(context->profile().empty());
}

TEST(Executor, ServesSeveralContextsAtOnce) {
  auto executor = makeExecutor(mirrorChain(20, {0}), {openCpu("cpu0", "2")});
  ASSERT_TRUE(executor.isOk());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      auto context = (*executor)->createContext();
      for (size_t i = 0; i < 40; ++i) {
        size_t n = 10 + thread * 100 + i;
        Floats x = ramp(n, static_cast<float>(thread + 1));
        Floats y(n);
        ConstTensor inputs[] = {in(x, {static_cast<int64_t>(n)})};
        Tensor outputs[] = {out(y, {static_cast<int64_t>(n)})};
        wrong += !context->run(0, inputs, outputs).isOk();
        wrong += y != mirrorReference(x, 20);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Executor, RunsOnTheNullDeviceWithZeros) {
  ProgramBuilder builder;
  uint32_t null = builder.device("null0", "null");
  uint32_t n = builder.symbol("n");
  builder.beginEntry("run");
  uint32_t count = builder.symbolExpr(n);
  uint32_t bytes = builder.mul(count, builder.constant(4));
  uint32_t x = builder.input("x", Dtype::F32, {count});
  builder.bindInput(n, 0, 0);
  uint32_t y = builder.output("y", Dtype::F32, {count});
  uint32_t a = builder.arena(bytes, null);
  uint32_t b = builder.arena(bytes, null);
  builder.transfer(a, x, bytes, null);
  builder.dispatch(builder.kernel("test_mirror", 2, 1, 1), {a, b}, {count}, "mirror", null);
  builder.transfer(y, b, bytes, 0);
  builder.endEntry();
  DriverRegistry registry;
  ASSERT_TRUE(registerDrivers(registry).isOk());
  Result<std::shared_ptr<const Program>> program = builder.build();
  ASSERT_TRUE(program.isOk()) << program.status().message();
  DriverSetting settings[] = {{"cpu", {"threads", "1"}}};
  auto devices = openDevices(registry, **program, settings);
  ASSERT_TRUE(devices.isOk()) << devices.status().message();
  EXPECT_EQ((*devices)[1]->name(), "null0");
  auto executor = makeExecutor(builder, *devices);
  ASSERT_TRUE(executor.isOk()) << executor.status().message();
  Floats x0 = ramp(50);
  Floats y0(50);
  ConstTensor inputs[] = {in(x0, {50})};
  Tensor outputs[] = {out(y0, {50})};
  ASSERT_TRUE((*executor)->createContext()->run(0, inputs, outputs).isOk());
  EXPECT_EQ(y0, Floats(50, 0.0f));

  DriverSetting wrong[] = {{"null", {"threads", "1"}}};
  expectError(openDevices(registry, **program, wrong).status(), Code::InvalidArgument,
              "device 'null0'");
  expectError(openDevices(DriverRegistry(), **program, {}).status(), Code::Unavailable,
              "device 'cpu0' needs the driver 'cpu'");
}

TEST(Executor, ReusesTheArenaWithoutMixingLiveBuffers) {
  // Random graphs: buffer i is filled with a number, later used in sums that a plain loop repeats.
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    ProgramBuilder builder;
    builder.beginEntry("run");
    uint32_t add = builder.kernel("test_add", 3, 1, 1);
    uint32_t fill = builder.kernel("test_fill", 1, 1, 2);
    constexpr int64_t kCount = 100;
    uint32_t count = builder.constant(kCount);
    uint32_t y = builder.output("y", Dtype::F32, {count});
    std::vector<uint32_t> buffers;
    std::vector<float> values;
    for (int i = 0; i < 60; ++i) {
      // Larger than needed by a random amount, so that neighbours differ in size.
      uint32_t size = builder.constant(kCount * 4 + static_cast<int64_t>(random() % 3000));
      uint32_t buffer = i == 59 ? y : builder.arena(size);
      if (i < 4 || (i != 59 && random() % 4 == 0)) {
        auto value = static_cast<int64_t>(random() % 50);
        builder.dispatch(fill, {buffer}, {count, builder.constant(value)});
        values.push_back(static_cast<float>(value));
      } else {
        size_t a = random() % buffers.size();
        size_t b = random() % buffers.size();
        builder.dispatch(add, {buffers[a], buffers[b], buffer}, {count});
        values.push_back(values[a] + values[b]);
      }
      buffers.push_back(buffer);
    }
    builder.endEntry();
    auto executor = makeExecutor(builder, {openCpu("cpu0", "2")});
    ASSERT_TRUE(executor.isOk()) << executor.status().message();
    Floats y0(kCount);
    Tensor outputs[] = {out(y0, {kCount})};
    ASSERT_TRUE((*executor)->createContext()->run(0, {}, outputs).isOk());
    EXPECT_EQ(y0, Floats(kCount, values.back()));
  }
}

} // namespace
} // namespace llmc
