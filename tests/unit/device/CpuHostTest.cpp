// SPDX-License-Identifier: Apache-2.0
//
// What the cpu driver finds out about its host, against /proc/cpuinfo and made
// up /sys and cgroup files; the choice among images; images that must not run.
#include "runtime/drivers/cpu/CpuFeatures.h"
#include "runtime/drivers/cpu/CpuImage.h"
#include "runtime/drivers/cpu/CpuTopology.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <set>
#include <sstream>

namespace llmc {
namespace {

namespace fs = std::filesystem;

std::vector<char> readImage(const std::string &name) {
  std::ifstream file(std::string(LLMC_TEST_IMAGES "/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder that stands for the root of a file system.
class FakeRoot {
public:
  FakeRoot() {
    char name[] = "/tmp/llmc-root-XXXXXX";
    path = mkdtemp(name);
  }
  ~FakeRoot() { fs::remove_all(path); }
  void write(const std::string &file, const std::string &text) const {
    fs::create_directories(fs::path(path + file).parent_path());
    std::ofstream(path + file) << text << "\n";
  }
  std::string path;
};

TEST(CpuTopology, CountsCoresAndNotTheirThreads) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  auto threads = static_cast<uint32_t>(CPU_COUNT(&set));
  FakeRoot root;
  EXPECT_EQ(countCpus(root.path).threads, threads);
  EXPECT_EQ(countCpus(root.path).cores, threads) << "nothing is known of siblings";
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set))
      root.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                     "/topology/thread_siblings_list",
                 "0-255");
  EXPECT_EQ(countCpus(root.path).cores, 1u);
  EXPECT_EQ(countCpus(root.path).threads, threads);
}

TEST(CpuTopology, HeedsTheTightestQuotaOfItsCgroups) {
  FakeRoot root;
  uint32_t cores = countCpus(root.path).cores;
  root.write("/proc/self/cgroup", "1:name=systemd:/old\n0::/pods/one");
  const struct {
    const char *own;
    const char *parent;
    uint32_t expected;
  } cases[] = {
      {"max 100000", "max 100000", UINT32_MAX}, {"50000 100000", "max 100000", 1},
      {"100001 100000", "max 100000", 2},       {"max 100000", "20000 100000", 1},
      {"900000 100000", "100000 100000", 1},    {"nonsense", "", UINT32_MAX},
      {"-1 100000", "0 0", UINT32_MAX},         {"99999999999999 1", "max", UINT32_MAX},
  };
  for (const auto &test : cases) {
    root.write("/sys/fs/cgroup/pods/one/cpu.max", test.own);
    root.write("/sys/fs/cgroup/pods/cpu.max", test.parent);
    EXPECT_EQ(countCpus(root.path).cores, std::min(cores, test.expected))
        << test.own << "; " << test.parent;
  }
}

TEST(CpuTopology, ThisMachineHasAtLeastOneCore) {
  CpuCount count = countCpus();
  EXPECT_GE(count.cores, 1u);
  EXPECT_LE(count.cores, count.threads);
}

#if defined(__x86_64__)

TEST(CpuFeatures, AgreesWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line) && flags.empty();)
    if (line.rfind("flags", 0) == 0) {
      std::istringstream words(line.substr(line.find(':') + 1));
      flags = {std::istream_iterator<std::string>(words), {}};
    }
  ASSERT_FALSE(flags.empty());
  const struct {
    const char *level;
    std::vector<std::pair<const char *, const char *>> needs; // ours, the kernel's
  } levels[] = {
      {"avx2",
       {{"sse3", "pni"},
        {"ssse3", "ssse3"},
        {"fma", "fma"},
        {"cmpxchg16b", "cx16"},
        {"sse4.1", "sse4_1"},
        {"sse4.2", "sse4_2"},
        {"movbe", "movbe"},
        {"popcnt", "popcnt"},
        {"avx", "avx"},
        {"f16c", "f16c"},
        {"bmi1", "bmi1"},
        {"avx2", "avx2"},
        {"bmi2", "bmi2"},
        {"lzcnt", "abm"}}},
      {"avx512",
       {{"avx512f", "avx512f"},
        {"avx512dq", "avx512dq"},
        {"avx512cd", "avx512cd"},
        {"avx512bw", "avx512bw"},
        {"avx512vl", "avx512vl"}}},
      {"avx512vnni", {{"avx512_vnni", "avx512_vnni"}}},
  };
  std::string missing;
  for (const auto &level : levels) {
    for (auto [ours, kernels] : level.needs)
      if (flags.count(kernels) == 0)
        missing += (missing.empty() ? "" : ", ") + std::string(ours);
    EXPECT_EQ(missingFeatures(level.level), missing);
  }
}

TEST(CpuFeatures, LevelsAreOrdered) {
  EXPECT_LT(*isaLevelRank("avx2"), *isaLevelRank("avx512"));
  EXPECT_LT(*isaLevelRank("avx512"), *isaLevelRank("avx512vnni"));
  EXPECT_FALSE(isaLevelRank("sse9"));
  EXPECT_FALSE(isaLevelRank(""));
  EXPECT_FALSE(cpuModelName().empty());
}

TEST(CpuImage, TheHighestUsableLevelIsChosen) {
  llmc_image images[] = {{"gfx.spv", "x", 1},
                         {"x86_64-avx512.so", "x", 1},
                         {"x86_64-avx2.so", "x", 1},
                         {"aarch64-neon.so", "x", 1},
                         {"x86_64-future.so", "x", 1}};
  if (bestIsaLevel().empty())
    GTEST_SKIP() << "this CPU has none of the levels";
  std::string best = fmt::format("x86_64-{}.so", bestIsaLevel());
  Result<size_t> chosen = chooseCpuImage(images, "");
  ASSERT_TRUE(chosen.isOk()) << chosen.status().message();
  EXPECT_EQ(images[*chosen].name, best);
  chosen = chooseCpuImage(images, "avx2");
  ASSERT_TRUE(chosen.isOk());
  EXPECT_STREQ(images[*chosen].name, "x86_64-avx2.so");
}

TEST(CpuImage, SaysWhatIsLackingForEachImage) {
  llmc_image images[] = {
      {"x86_64-avx512.so", "x", 1}, {"aarch64-neon.so", "x", 1}, {"x86_64-future.so", "x", 1}};
  Result<size_t> chosen = chooseCpuImage(images, "avx2");
  EXPECT_EQ(chosen.status().code(), Code::Unavailable);
  const std::string &text = chosen.status().message();
  if (missingFeatures("avx512").empty())
    EXPECT_NE(text.find("x86_64-avx512 is above the level avx2"), std::string::npos) << text;
  else
    EXPECT_NE(
        text.find("x86_64-avx512 needs " + missingFeatures("avx512") + ", which this CPU lacks"),
        std::string::npos)
        << text;
  EXPECT_NE(text.find("aarch64-neon is for another architecture"), std::string::npos) << text;
  EXPECT_NE(text.find("x86_64-future is a level that this runtime doesn't know"), std::string::npos)
      << text;
  EXPECT_NE(chooseCpuImage({}, "").status().message().find("no code for a CPU"), std::string::npos);
}

#endif

TEST(CpuImage, RefusesImagesThatAreNotFreestanding) {
  const struct {
    const char *file;
    const char *text;
  } cases[] = {
      {"kernels-constructor.so", "constructors"},
      {"kernels-needs-libc.so", "needs another library"},
  };
  for (const auto &test : cases) {
    std::vector<char> bytes = readImage(test.file);
    ASSERT_FALSE(bytes.empty());
    Result<std::shared_ptr<CpuImage>> image =
        CpuImage::load(test.file, std::as_bytes(std::span(bytes)));
    EXPECT_EQ(image.status().code(), Code::Corrupt);
    EXPECT_NE(image.status().message().find(test.text), std::string::npos)
        << image.status().message();
  }
}

TEST(CpuImage, CopiesOfAnImageAreSeparate) {
  // The loader must not take the second for the first, whatever descriptor it gets.
  std::vector<char> bytes = readImage("kernels.so");
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto first = CpuImage::load("first", std::as_bytes(std::span(bytes)));
    auto second = CpuImage::load("second", std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(first.isOk() && second.isOk());
    EXPECT_NE(*(*first)->kernel("test_add"), *(*second)->kernel("test_add"));
    EXPECT_EQ((*first)->kernel("nothing").status().code(), Code::NotFound);
  }
}

TEST(CpuImage, EveryTruncationIsAnErrorOrLoads) {
  std::vector<char> bytes = readImage("kernels.so");
  size_t refused = 0;
  for (size_t size = 0; size < bytes.size(); size += 61) {
    auto image = CpuImage::load("cut", std::as_bytes(std::span(bytes)).first(size));
    refused += !image.isOk();
  }
  EXPECT_GT(refused, 0u);
}

} // namespace
} // namespace llmc
