// SPDX-License-Identifier: Apache-2.0
//
// What the executor's tests share: devices, tensors, and programs on the tiny C
// kernels of tests/kernels.
#ifndef LLMC_TESTS_UNIT_EXEC_EXECUTOR_FIXTURE_H
#define LLMC_TESTS_UNIT_EXEC_EXECUTOR_FIXTURE_H

#include "runtime/exec/Executor.h"

#include "runtime/drivers/Drivers.h"
#include "tests/unit/exec/ProgramBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace llmc::test {

#if defined(__x86_64__)
constexpr const char *kImageName = "x86_64-avx2.so";
#else
constexpr const char *kImageName = "none";
#endif

using Floats = std::vector<float>;

inline const std::vector<char> &testImage() {
  static const std::vector<char> bytes = [] {
    std::ifstream file(LLMC_TEST_IMAGES "/kernels.so", std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
  }();
  return bytes;
}

inline std::shared_ptr<Device> openCpu(const std::string &name, const std::string &threads,
                                       bool separate = false) {
  DriverRegistry registry;
  EXPECT_TRUE(registerDrivers(registry).isOk());
  std::vector<DeviceOption> options = {{"threads", threads}};
  if (separate)
    options.push_back({"separate_memory", "1"});
  Result<std::shared_ptr<Device>> device = Device::open(registry, "cpu", name, options);
  EXPECT_TRUE(device.isOk()) << device.status().message();
  return *device;
}

/// 64-byte aligned, as in a bundle.
struct Weights {
  explicit Weights(const Floats &values)
      : storage(values.size() * 4 + 64), size(values.size() * 4) {
    std::memcpy(begin(), values.data(), size);
  }
  std::byte *begin() {
    return storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  }
  std::span<const std::byte> span() { return {begin(), size}; }
  std::vector<std::byte> storage;
  size_t size;
};

inline Result<std::shared_ptr<Executor>> makeExecutor(const ProgramBuilder &builder,
                                                      std::vector<std::shared_ptr<Device>> devices,
                                                      std::span<const std::byte> weights = {},
                                                      ExecutorOptions options = {}) {
  Result<std::shared_ptr<const Program>> program = builder.build(weights.size());
  EXPECT_TRUE(program.isOk()) << program.status().message();
  ExecutorSource source;
  source.program = *program;
  source.weights = weights;
  source.images.push_back({kImageName, std::as_bytes(std::span(testImage()))});
  return Executor::create(std::move(source), std::move(devices), options);
}

inline ConstTensor in(const Floats &values, Shape shape) {
  return {Dtype::F32, std::move(shape), values.data()};
}
inline Tensor out(Floats &values, Shape shape) {
  values.assign(values.size(), -777.0f);
  return {Dtype::F32, std::move(shape), values.data()};
}

inline Floats ramp(size_t count, float scale = 1.0f) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * scale * 0.37f;
  return values;
}

inline void expectError(const Status &status, Code code, std::string_view text) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}

/// x: (n) -> mirror, `steps` times, step i on device `map[i % size]`; out: (n).
inline ProgramBuilder mirrorChain(int steps, const std::vector<uint32_t> &map) {
  ProgramBuilder builder;
  for (uint32_t device = 1; device <= *std::max_element(map.begin(), map.end()); ++device)
    builder.device("cpu" + std::to_string(device), "cpu");
  uint32_t n = builder.symbol("n");
  builder.beginEntry("run");
  uint32_t count = builder.symbolExpr(n);
  uint32_t bytes = builder.mul(count, builder.constant(4));
  uint32_t mirror = builder.kernel("test_mirror", 2, 1, 1);
  uint32_t x = builder.input("x", Dtype::F32, {count});
  builder.bindInput(n, 0, 0);
  uint32_t y = builder.output("y", Dtype::F32, {count});
  uint32_t current = x;
  uint32_t at = 0;
  for (int step = 0; step < steps; ++step) {
    uint32_t device = map[static_cast<size_t>(step) % map.size()];
    if (device != at) {
      uint32_t moved = builder.arena(bytes, device);
      builder.transfer(moved, current, bytes, device);
      current = moved;
    }
    uint32_t next = builder.arena(bytes, device);
    builder.dispatch(mirror, {current, next}, {count}, "mirror " + std::to_string(step), device);
    current = next;
    at = device;
  }
  if (at == 0)
    builder.copy(y, current, bytes);
  else
    builder.transfer(y, current, bytes, 0);
  builder.wait(0);
  builder.endEntry();
  return builder;
}

inline Floats mirrorReference(Floats values, int steps) {
  for (int step = 0; step < steps; ++step) {
    Floats next(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      next[i] = values[values.size() - 1 - i] * 1.25f + static_cast<float>(i);
    values = next;
  }
  return values;
}

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_EXEC_EXECUTOR_FIXTURE_H
