// SPDX-License-Identifier: Apache-2.0
//
// Two tables: where CPUID shows each feature, and which features a level adds
// to the level before it. A register state that the operating system doesn't
// save counts as missing, whatever CPUID says.
#include "runtime/drivers/cpu/CpuFeatures.h"

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace llmc {

#if defined(__x86_64__)
namespace {

enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };
/// Parts of XCR0 that must be enabled for the registers a feature uses.
constexpr uint64_t kNoState = 0;
constexpr uint64_t kYmmState = 0x06; // XMM, YMM
constexpr uint64_t kZmmState = 0xE6; // the above, opmask, ZMM

struct Feature {
  std::string_view name;
  std::string_view level; // the first that needs it
  uint32_t leaf;
  Register reg;
  uint32_t bit;
  uint64_t state;
};

constexpr Feature kFeatures[] = {
    // avx2 = x86-64-v3
    {"sse3", "avx2", 1, kEcx, 0, kNoState},
    {"ssse3", "avx2", 1, kEcx, 9, kNoState},
    {"fma", "avx2", 1, kEcx, 12, kYmmState},
    {"cmpxchg16b", "avx2", 1, kEcx, 13, kNoState},
    {"sse4.1", "avx2", 1, kEcx, 19, kNoState},
    {"sse4.2", "avx2", 1, kEcx, 20, kNoState},
    {"movbe", "avx2", 1, kEcx, 22, kNoState},
    {"popcnt", "avx2", 1, kEcx, 23, kNoState},
    {"avx", "avx2", 1, kEcx, 28, kYmmState},
    {"f16c", "avx2", 1, kEcx, 29, kYmmState},
    {"bmi1", "avx2", 7, kEbx, 3, kNoState},
    {"avx2", "avx2", 7, kEbx, 5, kYmmState},
    {"bmi2", "avx2", 7, kEbx, 8, kNoState},
    {"lzcnt", "avx2", 0x80000001, kEcx, 5, kNoState},
    // avx512 = x86-64-v4
    {"avx512f", "avx512", 7, kEbx, 16, kZmmState},
    {"avx512dq", "avx512", 7, kEbx, 17, kZmmState},
    {"avx512cd", "avx512", 7, kEbx, 28, kZmmState},
    {"avx512bw", "avx512", 7, kEbx, 30, kZmmState},
    {"avx512vl", "avx512", 7, kEbx, 31, kZmmState},
    {"avx512_vnni", "avx512vnni", 7, kEcx, 11, kZmmState},
};
/// Lowest first; each includes the ones before it.
constexpr std::string_view kLevels[] = {"avx2", "avx512", "avx512vnni"};

std::array<uint32_t, 4> cpuid(uint32_t leaf) {
  std::array<uint32_t, 4> regs{};
  __get_cpuid_count(leaf, 0, &regs[kEax], &regs[kEbx], &regs[kEcx], &regs[kEdx]);
  return regs;
}

uint64_t enabledState() {
  constexpr uint32_t kOsxsave = 1u << 27;
  if ((cpuid(1)[kEcx] & kOsxsave) == 0)
    return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool hasFeature(const Feature &feature) {
  return (cpuid(feature.leaf)[feature.reg] >> feature.bit & 1) != 0 &&
         (enabledState() & feature.state) == feature.state;
}

} // namespace

std::string_view hostArch() { return "x86_64"; }

std::string cpuModelName() {
  if (cpuid(0x80000000)[kEax] < 0x80000004)
    return "x86_64";
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    std::array<uint32_t, 4> regs = cpuid(0x80000002 + i);
    std::memcpy(text + size_t{16} * i, regs.data(), 16);
  }
  std::string name(text);
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "x86_64" : name;
}

#else
namespace {
struct Feature {
  std::string_view name;
  std::string_view level;
};
constexpr std::array<Feature, 0> kFeatures{};
constexpr std::array<std::string_view, 0> kLevels{};
bool hasFeature(const Feature &) { return false; }
} // namespace

#if defined(__aarch64__)
std::string_view hostArch() { return "aarch64"; }
#else
std::string_view hostArch() { return "unknown"; }
#endif
std::string cpuModelName() { return std::string(hostArch()); }
#endif

std::optional<int> isaLevelRank(std::string_view level) {
  int rank = 0;
  for (std::string_view known : kLevels) {
    if (known == level)
      return rank;
    ++rank;
  }
  return std::nullopt;
}

std::string missingFeatures(std::string_view level) {
  std::optional<int> rank = isaLevelRank(level);
  std::string missing;
  for (const Feature &feature : kFeatures) {
    if (*isaLevelRank(feature.level) > rank || hasFeature(feature))
      continue;
    missing += missing.empty() ? "" : ", ";
    missing += feature.name;
  }
  return missing;
}

std::string_view bestIsaLevel() {
  std::string_view best;
  for (std::string_view level : kLevels)
    if (missingFeatures(level).empty())
      best = level;
  return best;
}

} // namespace llmc
