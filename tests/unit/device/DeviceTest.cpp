// SPDX-License-Identifier: Apache-2.0
//
// The registry, and what the C++ side adds to the ABI: names in errors, and
// objects that release themselves.
#include "runtime/device/Device.h"

#include "runtime/drivers/Drivers.h"
#include "runtime/drivers/null/NullDriver.h"

#include <gtest/gtest.h>

#include <cstring>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace llmc {
namespace {

TEST(DriverRegistry, RefusesDriversThatBreakTheAbi) {
  DriverRegistry registry;
  llmc_driver_v1 driver = *nullDriver();
  EXPECT_EQ(registry.add(nullptr).code(), Code::Incompatible);
  driver.struct_size -= 8;
  EXPECT_EQ(registry.add(&driver).code(), Code::Incompatible);
  driver = *nullDriver();
  driver.abi_version = 2;
  EXPECT_EQ(registry.add(&driver).code(), Code::Incompatible);
  driver = *nullDriver();
  driver.wait = nullptr;
  EXPECT_EQ(registry.add(&driver).code(), Code::InvalidArgument);
  driver = *nullDriver();
  driver.name = "";
  EXPECT_EQ(registry.add(&driver).code(), Code::InvalidArgument);
  driver = *nullDriver();
  driver.struct_size += 64; // a newer driver
  EXPECT_TRUE(registry.add(&driver).isOk());
  EXPECT_EQ(registry.add(nullDriver()).code(), Code::InvalidArgument) << "the name is taken";
  EXPECT_EQ(registry.find("null"), &driver);
  EXPECT_EQ(registry.find("cuda"), nullptr);
}

TEST(Device, SaysWhichDriversThereAre) {
  DriverRegistry registry;
  ASSERT_TRUE(registerDrivers(registry).isOk());
  Status status = Device::open(registry, "cuda", "cuda0").status();
  EXPECT_EQ(status.code(), Code::Unavailable);
  EXPECT_EQ(status.message(),
            "device 'cuda0' needs the driver 'cuda', but this runtime has 'cpu', 'null'");
}

TEST(Device, RefusesBadSettingsByName) {
  DriverRegistry registry;
  ASSERT_TRUE(registerDrivers(registry).isOk());
  const struct {
    DeviceOption option;
    const char *text;
  } cases[] = {
      {{"threads", "many"}, "'threads' is 'many', expected 0 to 1024"},
      {{"threads", "1025"}, "'threads' is '1025'"},
      {{"threads", "-1"}, "'threads' is '-1'"},
      {{"threads", ""}, "'threads' is ''"},
      {{"separate_memory", "2"}, "expected 0 to 1"},
      {{"isa", "sse9"}, "'sse9' is no ISA level"},
      {{"colour", "blue"}, "no setting 'colour'"},
  };
  for (const auto &test : cases) {
    Status status = Device::open(registry, "cpu", "cpu7", std::span(&test.option, 1)).status();
    EXPECT_EQ(status.code(), Code::InvalidArgument);
    EXPECT_NE(status.message().find("device 'cpu7': "), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(test.text), std::string::npos) << status.message();
  }
}

TEST(Device, ObjectsReleaseThemselvesOnceAndKeepTheDeviceOpen) {
  DriverRegistry registry;
  ASSERT_TRUE(registerDrivers(registry).isOk());
  Result<std::shared_ptr<Device>> device = Device::open(registry, "null", "null0");
  ASSERT_TRUE(device.isOk());
  Result<DeviceMemory> memory = (*device)->alloc(0, MemoryKind::Host);
  ASSERT_TRUE(memory.isOk());
  EXPECT_NE(memory->view, nullptr);
  std::weak_ptr<Device> weak = *device;
  device->reset();
  DeviceMemory moved = std::move(*memory);
  EXPECT_FALSE(memory->object);
  EXPECT_TRUE(moved.object);
  static_cast<char *>(moved.view)[0] = 1;
  EXPECT_FALSE(weak.expired());
  moved = DeviceMemory();
  EXPECT_TRUE(weak.expired());
}

#if defined(__x86_64__)
TEST(CpuDevice, FloatModeOfTheCallerChangesNothing) {
  DriverRegistry registry;
  ASSERT_TRUE(registerDrivers(registry).isOk());
  DeviceOption options[] = {{"threads", "2"}};
  Result<std::shared_ptr<Device>> device = Device::open(registry, "cpu", "cpu0", options);
  ASSERT_TRUE(device.isOk());
  std::vector<char> bytes;
  {
    FILE *file = std::fopen(LLMC_TEST_IMAGES "/kernels.so", "rb");
    ASSERT_NE(file, nullptr);
    bytes.resize(1 << 20);
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
    std::fclose(file);
  }
  llmc_image image{"x86_64-avx2.so", bytes.data(), bytes.size()};
  Result<DeviceCode> code = (*device)->loadCode({&image, 1});
  ASSERT_TRUE(code.isOk()) << code.status().message();
  llmc_step step{LLMC_STEP_DISPATCH, 3, 1, 0, 0, "test_add"};
  Result<DeviceObject> program = (*device)->createProgram(code->object.handle(), {&step, 1});
  ASSERT_TRUE(program.isOk());
  constexpr float kDenormal = 1e-42f;
  std::vector<float> a(100, kDenormal);
  std::vector<float> sum(100);
  llmc_address operands[] = {reinterpret_cast<uintptr_t>(a.data()),
                             reinterpret_cast<uintptr_t>(a.data()),
                             reinterpret_cast<uintptr_t>(sum.data())};
  int64_t count = 100;
  llmc_submit_info info{};
  info.struct_size = sizeof(info);
  info.operands = operands;
  info.operand_count = 3;
  info.scalars = &count;
  info.scalar_count = 1;
  unsigned saved = _mm_getcsr();
  unsigned flushing = saved | 0x8040; // flush to zero, denormals are zero
  _mm_setcsr(flushing);
  Result<uint64_t> ticket = (*device)->submit(program->handle(), info);
  unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  ASSERT_TRUE(ticket.isOk());
  ASSERT_TRUE((*device)->wait(*ticket).isOk());
  EXPECT_EQ(after & 0xFFC0, flushing & 0xFFC0) << "the caller's mode comes back";
  for (float value : sum)
    EXPECT_EQ(std::memcmp(&value, &sum[0], 4), 0);
  EXPECT_GT(sum[0], 0.0f);
}
#endif

} // namespace
} // namespace llmc
