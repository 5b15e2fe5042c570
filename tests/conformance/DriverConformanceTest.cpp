// SPDX-License-Identifier: Apache-2.0
//
// What runtime/abi/DriverAbi.h promises, for every registered driver and each
// way to open it. A driver joins by being registered; what it can't satisfy is
// an exception in kSubjects with its reason. Works through the C struct, since
// that is the contract.
#include "runtime/abi/KernelAbi.h"
#include "runtime/drivers/Drivers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <thread>

namespace llmc {
namespace {

/// One way to open a driver.
struct Subject {
  const char *name;
  const char *driver;
  std::vector<llmc_option> options;
  /// Name under which this device looks for its image; null when it has no test kernels.
  const char *imageName;
  /// Why the tests of what programs compute don't apply; null when they do.
  const char *executesNothing;
};

#if defined(__x86_64__)
constexpr const char *kCpuImage = "x86_64-avx2.so";
#else
constexpr const char *kCpuImage = nullptr;
#endif

const Subject kSubjects[] = {
    {"cpu", "cpu", {}, kCpuImage, nullptr},
    {"cpu_1_thread", "cpu", {{"threads", "1"}}, kCpuImage, nullptr},
    {"cpu_3_threads", "cpu", {{"threads", "3"}}, kCpuImage, nullptr},
    {"cpu_separate", "cpu", {{"separate_memory", "1"}, {"threads", "2"}}, kCpuImage, nullptr},
    {"null", "null", {}, "anything", "the null driver executes nothing, by definition"},
};

std::vector<char> readFile(const std::string &name) {
  std::ifstream file(std::string(LLMC_TEST_IMAGES "/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DriverConformance : public testing::TestWithParam<Subject> {
protected:
  void SetUp() override {
    DriverRegistry registry;
    ASSERT_TRUE(registerDrivers(registry).isOk());
    driver = registry.find(GetParam().driver);
    ASSERT_NE(driver, nullptr);
    error.struct_size = sizeof(error);
    info.struct_size = sizeof(info);
    ASSERT_EQ(
        driver->open(GetParam().options.data(), GetParam().options.size(), &device, &info, &error),
        LLMC_DRIVER_OK)
        << error.message;
  }
  void TearDown() override { driver->close(device); }

  llmc_memory alloc(uint64_t size, uint32_t kind) {
    llmc_memory memory{};
    EXPECT_EQ(driver->alloc(device, size, kind, &memory, &error), LLMC_DRIVER_OK) << error.message;
    return memory;
  }
  template <typename T> T *view(const llmc_memory &memory) {
    void *result = nullptr;
    EXPECT_EQ(driver->map(device, memory.handle, &result, &error), LLMC_DRIVER_OK);
    return static_cast<T *>(result);
  }
  llmc_handle loadTestCode() {
    std::vector<char> bytes = readFile("kernels.so");
    EXPECT_FALSE(bytes.empty());
    llmc_image image{GetParam().imageName, bytes.data(), bytes.size()};
    llmc_handle code = 0;
    uint64_t chosen = 99;
    EXPECT_EQ(driver->load_code(device, &image, 1, &code, &chosen, &error), LLMC_DRIVER_OK)
        << error.message;
    EXPECT_EQ(chosen, 0u);
    EXPECT_NE(code, 0u);
    return code;
  }
  llmc_handle program(llmc_handle code, const std::vector<llmc_step> &steps) {
    llmc_handle result = 0;
    EXPECT_EQ(driver->create_program(device, code, steps.data(), steps.size(), &result, &error),
              LLMC_DRIVER_OK)
        << error.message;
    return result;
  }
  int32_t submit(llmc_handle handle, const std::vector<llmc_address> &operands,
                 const std::vector<int64_t> &scalars, uint64_t &ticket) {
    llmc_submit_info submitInfo{};
    submitInfo.struct_size = sizeof(submitInfo);
    submitInfo.operands = operands.data();
    submitInfo.operand_count = operands.size();
    submitInfo.scalars = scalars.data();
    submitInfo.scalar_count = scalars.size();
    return driver->submit(device, handle, &submitInfo, &ticket, &error);
  }
  int32_t runProgram(llmc_handle handle, const std::vector<llmc_address> &operands,
                     const std::vector<int64_t> &scalars) {
    uint64_t ticket = 0;
    int32_t code = submit(handle, operands, scalars, ticket);
    return code != LLMC_DRIVER_OK ? code : driver->wait(device, ticket, &error);
  }
  void expectInvalid(int32_t code) {
    EXPECT_EQ(code, LLMC_DRIVER_INVALID_ARGUMENT);
    EXPECT_NE(error.message[0], '\0');
    error.message[0] = '\0';
  }

  const llmc_driver_v1 *driver = nullptr;
  llmc_device *device = nullptr;
  llmc_device_info info{};
  llmc_driver_error error{};
};

#define SKIP_IF_NOTHING_EXECUTES()                                                                 \
  if (GetParam().executesNothing)                                                                  \
  GTEST_SKIP() << GetParam().executesNothing
#define SKIP_WITHOUT_KERNELS()                                                                     \
  if (!GetParam().imageName)                                                                       \
  GTEST_SKIP() << "no test kernels for this architecture"

constexpr llmc_step kCopy = {LLMC_STEP_COPY, 2, 1, 0, 0, nullptr};

llmc_step dispatch(const char *kernel, uint32_t operands, uint32_t scalars, uint64_t scratch = 0) {
  return {LLMC_STEP_DISPATCH, operands, scalars, 0, scratch, kernel};
}

TEST_P(DriverConformance, DescribesItself) {
  EXPECT_GE(info.workers, 1u);
  EXPECT_LT(std::strlen(info.description), sizeof(info.description));
  EXPECT_NE(info.description[0], '\0');
}

TEST_P(DriverConformance, RefusesUnknownSettings) {
  llmc_option option{"colour", "blue"};
  llmc_device *other = nullptr;
  expectInvalid(driver->open(&option, 1, &other, &info, &error));
  EXPECT_EQ(other, nullptr);
  EXPECT_NE(std::string(driver->name), "");
}

TEST_P(DriverConformance, ClosesWhatIsStillHeldAndIgnoresNull) {
  // Leak checkers see to it that close() released this.
  alloc(1000, LLMC_MEMORY_DEVICE);
  program(0, {kCopy});
  driver->close(nullptr);
}

TEST_P(DriverConformance, MemoryIsAlignedZeroedAndSeparate) {
  const uint64_t sizes[] = {1, 63, 64, 65, 4095, 1 << 20, (4 << 20) - 1, 4 << 20, (9 << 20) + 17};
  std::vector<std::pair<llmc_address, uint64_t>> ranges;
  std::vector<llmc_handle> handles;
  for (uint32_t kind : {LLMC_MEMORY_DEVICE, LLMC_MEMORY_HOST}) {
    for (uint64_t size : sizes) {
      llmc_memory memory = alloc(size, kind);
      EXPECT_NE(memory.handle, 0u);
      EXPECT_EQ(memory.address % LLMC_MEMORY_ALIGN, 0u);
      ranges.emplace_back(memory.address, size);
      handles.push_back(memory.handle);
      auto *bytes = view<unsigned char>(memory);
      if (kind == LLMC_MEMORY_HOST) {
        ASSERT_NE(bytes, nullptr);
      }
      if (bytes) {
        EXPECT_TRUE(std::all_of(bytes, bytes + size, [](unsigned char byte) { return byte == 0; }));
        std::memset(bytes, 0xAB, size);
      }
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    EXPECT_LE(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
  EXPECT_EQ(std::set<llmc_handle>(handles.begin(), handles.end()).size(), handles.size());
  for (llmc_handle handle : handles)
    EXPECT_EQ(driver->free(device, handle, &error), LLMC_DRIVER_OK);
}

TEST_P(DriverConformance, MemoryIsZeroedAlsoWhenReused) {
  for (int i = 0; i < 20; ++i) {
    llmc_memory memory = alloc(777, LLMC_MEMORY_HOST);
    auto *bytes = view<unsigned char>(memory);
    EXPECT_TRUE(std::all_of(bytes, bytes + 777, [](unsigned char byte) { return byte == 0; }));
    std::memset(bytes, 0xCD, 777);
    EXPECT_EQ(driver->free(device, memory.handle, &error), LLMC_DRIVER_OK);
  }
}

TEST_P(DriverConformance, RefusesBadMemoryArguments) {
  llmc_memory memory{};
  expectInvalid(driver->alloc(device, 0, LLMC_MEMORY_DEVICE, &memory, &error));
  expectInvalid(driver->alloc(device, 64, 0, &memory, &error));
  expectInvalid(driver->alloc(device, 64, 77, &memory, &error));
  expectInvalid(driver->alloc(device, 64, LLMC_MEMORY_DEVICE, nullptr, &error));
  for (uint64_t size : {UINT64_MAX, UINT64_MAX - 63, uint64_t{1} << 62}) {
    EXPECT_EQ(driver->alloc(device, size, LLMC_MEMORY_DEVICE, &memory, &error),
              LLMC_DRIVER_UNAVAILABLE);
    EXPECT_NE(std::string(error.message).find(std::to_string(size)), std::string::npos)
        << error.message;
  }
  EXPECT_EQ(memory.handle, 0u);
}

TEST_P(DriverConformance, FreesOnceAndRefusesStaleHandles) {
  llmc_memory memory = alloc(64, LLMC_MEMORY_HOST);
  EXPECT_EQ(driver->free(device, memory.handle, &error), LLMC_DRIVER_OK);
  expectInvalid(driver->free(device, memory.handle, &error));
  expectInvalid(driver->free(device, 123456789, &error));
  void *bytes = nullptr;
  expectInvalid(driver->map(device, memory.handle, &bytes, &error));
  expectInvalid(driver->map(device, 0, &bytes, &error));
  EXPECT_EQ(driver->free(device, 0, &error), LLMC_DRIVER_OK);
}

TEST_P(DriverConformance, WorksWithoutAnErrorStruct) {
  llmc_memory memory{};
  EXPECT_EQ(driver->alloc(device, 0, LLMC_MEMORY_DEVICE, &memory, nullptr),
            LLMC_DRIVER_INVALID_ARGUMENT);
  llmc_driver_error small{};
  small.struct_size = 8; // from before there was a message
  EXPECT_EQ(driver->alloc(device, 0, LLMC_MEMORY_DEVICE, &memory, &small),
            LLMC_DRIVER_INVALID_ARGUMENT);
  EXPECT_EQ(small.message[0], '\0');
}

TEST_P(DriverConformance, HandlesNameOneKindOfObject) {
  llmc_memory memory = alloc(64, LLMC_MEMORY_HOST);
  llmc_handle copies = program(0, {kCopy});
  void *bytes = nullptr;
  uint64_t ticket = 0;
  llmc_handle other = 0;
  expectInvalid(driver->map(device, copies, &bytes, &error));
  expectInvalid(submit(memory.handle, {memory.address, memory.address}, {0}, ticket));
  expectInvalid(driver->create_program(device, memory.handle, &kCopy, 1, &other, &error));
}

TEST_P(DriverConformance, RefusesBadCode) {
  llmc_handle code = 0;
  uint64_t chosen = 0;
  EXPECT_EQ(driver->load_code(device, nullptr, 0, &code, &chosen, &error), LLMC_DRIVER_UNAVAILABLE);
  expectInvalid(driver->load_code(device, nullptr, 1, &code, &chosen, &error));
  SKIP_IF_NOTHING_EXECUTES();
  SKIP_WITHOUT_KERNELS();
  std::vector<char> good = readFile("kernels.so");
  const struct {
    const char *what;
    std::vector<char> bytes;
    int32_t code;
  } cases[] = {
      {"empty", std::vector<char>(1, 0), LLMC_DRIVER_CORRUPT},
      {"text", std::vector<char>(4096, 'x'), LLMC_DRIVER_CORRUPT},
      {"header only", {good.begin(), good.begin() + 64}, LLMC_DRIVER_CORRUPT},
      {"half",
       {good.begin(), good.begin() + static_cast<long>(good.size() / 4)},
       LLMC_DRIVER_CORRUPT},
      {"next version", readFile("kernels-next-abi.so"), LLMC_DRIVER_INCOMPATIBLE},
      {"no version", readFile("kernels-no-version.so"), LLMC_DRIVER_CORRUPT},
  };
  for (const auto &test : cases) {
    ASSERT_FALSE(test.bytes.empty()) << test.what;
    llmc_image image{GetParam().imageName, test.bytes.data(), test.bytes.size()};
    error.message[0] = '\0';
    EXPECT_EQ(driver->load_code(device, &image, 1, &code, &chosen, &error), test.code)
        << test.what << ": " << error.message;
    EXPECT_NE(error.message[0], '\0');
    EXPECT_EQ(code, 0u);
  }
}

TEST_P(DriverConformance, SkipsImagesOfOtherDevices) {
  SKIP_IF_NOTHING_EXECUTES();
  SKIP_WITHOUT_KERNELS();
  std::vector<char> bytes = readFile("kernels.so");
  llmc_image images[] = {{"some-other.ptx", "x", 1},
                         {"riscv64-rvv.so", "x", 1},
                         {GetParam().imageName, bytes.data(), bytes.size()},
                         {"blob", "x", 1}};
  llmc_handle code = 0;
  uint64_t chosen = 0;
  EXPECT_EQ(driver->load_code(device, images, 4, &code, &chosen, &error), LLMC_DRIVER_OK)
      << error.message;
  EXPECT_EQ(chosen, 2u);
  EXPECT_EQ(driver->load_code(device, images, 2, &code, &chosen, &error), LLMC_DRIVER_UNAVAILABLE);
  EXPECT_NE(std::string(error.message).find("riscv64"), std::string::npos) << error.message;
}

TEST_P(DriverConformance, RefusesBadPrograms) {
  SKIP_WITHOUT_KERNELS();
  llmc_handle code = loadTestCode();
  llmc_handle result = 0;
  auto create = [&](llmc_handle image, llmc_step step) {
    return driver->create_program(device, image, &step, 1, &result, &error);
  };
  expectInvalid(create(code, {99, 0, 0, 0, 0, "test_nop"}));
  expectInvalid(create(0, dispatch("test_nop", 0, 0)));
  expectInvalid(create(code, dispatch(nullptr, 0, 0)));
  expectInvalid(create(code, {LLMC_STEP_COPY, 3, 1, 0, 0, nullptr}));
  expectInvalid(create(code, {LLMC_STEP_COPY, 2, 0, 0, 0, nullptr}));
  expectInvalid(driver->create_program(device, code, nullptr, 1, &result, &error));
  EXPECT_EQ(result, 0u);
  if (!GetParam().executesNothing) {
    EXPECT_EQ(create(code, dispatch("no_such_kernel", 0, 0)), LLMC_DRIVER_NOT_FOUND);
    EXPECT_NE(std::string(error.message).find("no_such_kernel"), std::string::npos);
  }
}

TEST_P(DriverConformance, RefusesBadSubmits) {
  llmc_memory memory = alloc(128, LLMC_MEMORY_HOST);
  llmc_handle copies = program(0, {kCopy});
  uint64_t ticket = 0;
  expectInvalid(submit(copies, {memory.address}, {0}, ticket));
  expectInvalid(submit(copies, {memory.address, memory.address, memory.address}, {0}, ticket));
  expectInvalid(submit(copies, {memory.address, memory.address + 64}, {}, ticket));
  expectInvalid(submit(0, {}, {}, ticket));
  expectInvalid(driver->submit(device, copies, nullptr, &ticket, &error));
  EXPECT_EQ(ticket, 0u);
}

TEST_P(DriverConformance, WaitsForKnownTicketsInAnyOrder) {
  llmc_handle empty = program(0, {});
  expectInvalid(driver->wait(device, 0, &error));
  expectInvalid(driver->wait(device, 1, &error));
  uint64_t last = 0;
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 50; ++i) {
    uint64_t ticket = 0;
    ASSERT_EQ(submit(empty, {}, {}, ticket), LLMC_DRIVER_OK);
    EXPECT_GT(ticket, last);
    last = ticket;
    tickets.push_back(ticket);
  }
  expectInvalid(driver->wait(device, last + 1, &error));
  EXPECT_EQ(driver->wait(device, last, &error), LLMC_DRIVER_OK);
  for (uint64_t ticket : tickets)
    EXPECT_EQ(driver->wait(device, ticket, &error), LLMC_DRIVER_OK);
}

TEST_P(DriverConformance, CopiesBetweenItsMemories) {
  SKIP_IF_NOTHING_EXECUTES();
  constexpr uint64_t kBytes = 100003;
  llmc_memory from = alloc(kBytes, LLMC_MEMORY_HOST);
  llmc_memory inner = alloc(kBytes, LLMC_MEMORY_DEVICE);
  llmc_memory to = alloc(kBytes, LLMC_MEMORY_HOST);
  std::iota(view<unsigned char>(from), view<unsigned char>(from) + kBytes, 1);
  llmc_handle copies = program(0, {kCopy, kCopy});
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4097}, int64_t{kBytes - 3}}) {
    ASSERT_EQ(runProgram(copies, {inner.address, from.address + 3, to.address, inner.address},
                         {bytes, bytes}),
              LLMC_DRIVER_OK)
        << error.message;
    EXPECT_EQ(std::memcmp(view<char>(to), view<char>(from) + 3, static_cast<size_t>(bytes)), 0);
    if (bytes + 3 < int64_t{kBytes}) {
      EXPECT_EQ(view<char>(to)[bytes], 0);
    }
  }
}

TEST_P(DriverConformance, StepsSeeWhatEarlierStepsWrote) {
  SKIP_IF_NOTHING_EXECUTES();
  SKIP_WITHOUT_KERNELS();
  constexpr int64_t kCount = 1001;
  constexpr int kSteps = 64;
  llmc_handle code = loadTestCode();
  llmc_memory memories[2] = {alloc(kCount * 4, LLMC_MEMORY_HOST),
                             alloc(kCount * 4, LLMC_MEMORY_HOST)};
  std::vector<llmc_step> steps(kSteps, dispatch("test_mirror", 2, 1));
  std::vector<llmc_address> operands;
  std::vector<float> expected(kCount, 0.0f);
  for (int step = 0; step < kSteps; ++step) {
    operands.push_back(memories[step % 2].address);
    operands.push_back(memories[1 - step % 2].address);
    std::vector<float> next(kCount);
    for (int64_t i = 0; i < kCount; ++i)
      next[static_cast<size_t>(i)] =
          expected[static_cast<size_t>(kCount - 1 - i)] * 1.25f + static_cast<float>(i);
    expected = next;
  }
  llmc_handle mirrors = program(code, steps);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::memset(view<char>(memories[0]), 0, kCount * 4);
    ASSERT_EQ(runProgram(mirrors, operands, std::vector<int64_t>(kSteps, kCount)), LLMC_DRIVER_OK);
    ASSERT_EQ(std::memcmp(view<float>(memories[kSteps % 2]), expected.data(), kCount * 4), 0);
  }
}

TEST_P(DriverConformance, GivesEachWorkerItsOwnScratch) {
  SKIP_IF_NOTHING_EXECUTES();
  SKIP_WITHOUT_KERNELS();
  llmc_handle code = loadTestCode();
  llmc_memory out = alloc(info.workers * 8, LLMC_MEMORY_HOST);
  llmc_handle handle = program(code, {dispatch("test_scratch", 1, 0, 256)});
  ASSERT_EQ(runProgram(handle, {out.address}, {}), LLMC_DRIVER_OK);
  for (uint32_t worker = 0; worker < info.workers; ++worker)
    EXPECT_EQ(view<int64_t>(out)[worker], info.workers);
}

TEST_P(DriverConformance, ReportsAFailingStepOnceAndGoesOn) {
  SKIP_IF_NOTHING_EXECUTES();
  SKIP_WITHOUT_KERNELS();
  llmc_handle code = loadTestCode();
  llmc_memory out = alloc(64, LLMC_MEMORY_HOST);
  llmc_handle handle = program(code, {dispatch("test_fill", 1, 2), dispatch("test_fail", 0, 2),
                                      dispatch("test_fill", 1, 2)});
  for (int64_t worker : {int64_t{-1}, int64_t{0}, int64_t{info.workers} - 1}) {
    std::vector<int64_t> scalars = {4, 7, worker, LLMC_KERNEL_INDEX_OUT_OF_RANGE, 4, 9};
    uint64_t failing = 0;
    uint64_t fine = 0;
    ASSERT_EQ(submit(handle, {out.address, out.address}, scalars, failing), LLMC_DRIVER_OK);
    scalars[3] = LLMC_KERNEL_OK;
    EXPECT_EQ(view<float>(out)[0], 7.0f) << "the step after the failing one ran";
    ASSERT_EQ(submit(handle, {out.address, out.address}, scalars, fine), LLMC_DRIVER_OK);
    EXPECT_EQ(driver->wait(device, fine, &error), LLMC_DRIVER_OK);
    error.step = 77;
    EXPECT_NE(driver->wait(device, failing, &error), LLMC_DRIVER_OK);
    EXPECT_EQ(error.step, 1u);
    EXPECT_EQ(error.kernel_code, LLMC_KERNEL_INDEX_OUT_OF_RANGE);
    EXPECT_NE(error.message[0], '\0');
    EXPECT_EQ(driver->wait(device, failing, &error), LLMC_DRIVER_OK);
    EXPECT_EQ(view<float>(out)[0], 9.0f);
  }
}

TEST_P(DriverConformance, TimesEveryStep) {
  llmc_handle empty = program(0, {kCopy, kCopy, kCopy});
  llmc_memory memory = alloc(128, LLMC_MEMORY_HOST);
  std::vector<llmc_address> operands(6, memory.address);
  for (size_t i = 0; i < operands.size(); i += 2)
    operands[i] += 64;
  std::vector<int64_t> scalars(3, 64);
  std::vector<uint64_t> times(4, UINT64_MAX);
  llmc_submit_info submitInfo{};
  submitInfo.struct_size = sizeof(submitInfo);
  submitInfo.operands = operands.data();
  submitInfo.operand_count = operands.size();
  submitInfo.scalars = scalars.data();
  submitInfo.scalar_count = scalars.size();
  submitInfo.step_ns = times.data();
  uint64_t ticket = 0;
  ASSERT_EQ(driver->submit(device, empty, &submitInfo, &ticket, &error), LLMC_DRIVER_OK);
  ASSERT_EQ(driver->wait(device, ticket, &error), LLMC_DRIVER_OK);
  for (int i = 0; i < 3; ++i)
    EXPECT_LT(times[static_cast<size_t>(i)], uint64_t{60} * 1000 * 1000 * 1000);
  EXPECT_EQ(times[3], UINT64_MAX);
}

TEST_P(DriverConformance, MayStopWhenAskedTo) {
  llmc_handle empty = program(0, {kCopy});
  llmc_memory memory = alloc(128, LLMC_MEMORY_HOST);
  std::vector<llmc_address> operands = {memory.address, memory.address + 64};
  int64_t bytes = 64;
  int32_t stop = 1;
  llmc_submit_info submitInfo{};
  submitInfo.struct_size = sizeof(submitInfo);
  submitInfo.operands = operands.data();
  submitInfo.operand_count = 2;
  submitInfo.scalars = &bytes;
  submitInfo.scalar_count = 1;
  submitInfo.stop = &stop;
  uint64_t ticket = 0;
  ASSERT_EQ(driver->submit(device, empty, &submitInfo, &ticket, &error), LLMC_DRIVER_OK);
  int32_t code = driver->wait(device, ticket, &error);
  EXPECT_TRUE(code == LLMC_DRIVER_OK || code == LLMC_DRIVER_CANCELLED) << code;
}

TEST_P(DriverConformance, RunsManySubmits) {
  SKIP_WITHOUT_KERNELS();
  llmc_handle code = loadTestCode();
  llmc_memory out = alloc(64, LLMC_MEMORY_HOST);
  llmc_handle handle = program(code, {dispatch("test_fill", 1, 2), dispatch("test_nop", 0, 0)});
  for (int64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(runProgram(handle, {out.address}, {5, i}), LLMC_DRIVER_OK);
    if (!GetParam().executesNothing) {
      ASSERT_EQ(view<float>(out)[4], static_cast<float>(i));
    }
  }
}

TEST_P(DriverConformance, ServesSeveralThreads) {
  SKIP_WITHOUT_KERNELS();
  llmc_handle code = loadTestCode();
  llmc_handle handle = program(code, {dispatch("test_fill", 1, 2), dispatch("test_fail", 0, 2)});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      llmc_driver_error own{};
      own.struct_size = sizeof(own);
      llmc_memory out{};
      void *bytes = nullptr;
      wrong += driver->alloc(device, 4096, LLMC_MEMORY_HOST, &out, &own) != LLMC_DRIVER_OK;
      wrong += driver->map(device, out.handle, &bytes, &own) != LLMC_DRIVER_OK;
      for (int64_t i = 0; i < 200; ++i) {
        // Thread 0 fails on every submit; nobody else may hear of it.
        int64_t scalars[] = {1000, thread * 1000 + i, -1,
                             thread == 0 ? LLMC_KERNEL_DIVISION_BY_ZERO : LLMC_KERNEL_OK};
        llmc_submit_info submitInfo{};
        submitInfo.struct_size = sizeof(submitInfo);
        submitInfo.operands = &out.address;
        submitInfo.operand_count = 1;
        submitInfo.scalars = scalars;
        submitInfo.scalar_count = 4;
        uint64_t ticket = 0;
        wrong += driver->submit(device, handle, &submitInfo, &ticket, &own) != LLMC_DRIVER_OK;
        bool failed = driver->wait(device, ticket, &own) != LLMC_DRIVER_OK;
        if (GetParam().executesNothing)
          continue;
        wrong += failed != (thread == 0);
        wrong += static_cast<float *>(bytes)[999] != static_cast<float>(thread * 1000 + i);
      }
      wrong += driver->free(device, out.handle, &own) != LLMC_DRIVER_OK;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverConformance, testing::ValuesIn(kSubjects),
                         [](const auto &subject) { return subject.param.name; });

TEST(DriverConformanceTable, CoversEveryRegisteredDriver) {
  DriverRegistry registry;
  ASSERT_TRUE(registerDrivers(registry).isOk());
  EXPECT_FALSE(registry.all().empty());
  for (const llmc_driver_v1 *driver : registry.all())
    EXPECT_TRUE(std::any_of(
        std::begin(kSubjects), std::end(kSubjects),
        [&](const Subject &subject) { return std::string_view(subject.driver) == driver->name; }))
        << driver->name;
}

} // namespace
} // namespace llmc
