// SPDX-License-Identifier: Apache-2.0
//
// Reads the affinity mask, /sys/devices/system/cpu and the cgroup files. All
// of them may be missing or odd (containers); then the larger count stands.
#include "runtime/drivers/cpu/CpuTopology.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <sched.h>
#include <set>
#include <thread>
#include <vector>

namespace llmc {

namespace {

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The CPUs that the scheduler may use for this process.
std::vector<int> allowedCpus() {
  std::vector<int> cpus;
  // The mask grows with the machine: a too small one is refused with EINVAL.
  for (int capacity = 1024; capacity <= 1 << 18; capacity *= 2) {
    cpu_set_t *set = CPU_ALLOC(capacity);
    if (!set)
      break;
    size_t bytes = CPU_ALLOC_SIZE(capacity);
    bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < capacity; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set))
        cpus.push_back(cpu);
    CPU_FREE(set);
    if (known)
      break;
  }
  return cpus;
}

/// Whole CPUs that a cgroup's quota pays for, rounded up; 0 for no limit. `line`: "200000 100000".
uint32_t quotaCpus(const std::string &line) {
  long long quota = 0;
  long long period = 0;
  if (std::sscanf(line.c_str(), "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
    return 0;
  return static_cast<uint32_t>(std::min<long long>((quota + period - 1) / period, 1 << 18));
}

/// The tightest quota on the way from this process's cgroup (version 2) to the root; 0 for none.
uint32_t cgroupCpus(const std::string &root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  std::string group;
  while (std::getline(groups, line))
    if (line.rfind("0::", 0) == 0)
      group = line.substr(3);
  uint32_t tightest = 0;
  while (true) {
    if (uint32_t cpus = quotaCpus(firstLine(root + "/sys/fs/cgroup" + group + "/cpu.max")))
      tightest = tightest == 0 ? cpus : std::min(tightest, cpus);
    size_t slash = group.rfind('/');
    if (slash == std::string::npos)
      return tightest;
    group.resize(slash);
  }
}

} // namespace

CpuCount countCpus(const std::string &root) {
  std::vector<int> cpus = allowedCpus();
  CpuCount count;
  if (cpus.empty()) {
    count.threads = count.cores = std::max(1u, std::thread::hardware_concurrency());
  } else {
    // Threads of one core list the same siblings.
    std::set<std::string> cores;
    for (int cpu : cpus) {
      std::string siblings = firstLine(
          fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, cpu));
      cores.insert(siblings.empty() ? fmt::format("cpu{}", cpu) : siblings);
    }
    count.threads = static_cast<uint32_t>(cpus.size());
    count.cores = static_cast<uint32_t>(cores.size());
  }
  if (uint32_t quota = cgroupCpus(root))
    count.cores = std::min(count.cores, quota);
  return count;
}

} // namespace llmc
