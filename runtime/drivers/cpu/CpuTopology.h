// SPDX-License-Identifier: Apache-2.0
//
// How many cores this process may really use: what the scheduler allows it,
// counted by core and not by hardware thread, and not more than its cgroup's
// CPU quota pays for.
#ifndef LLMC_RUNTIME_DRIVERS_CPU_CPU_TOPOLOGY_H
#define LLMC_RUNTIME_DRIVERS_CPU_CPU_TOPOLOGY_H

#include <cstdint>
#include <string>

namespace llmc {

struct CpuCount {
  uint32_t threads = 1; // hardware threads in the affinity mask
  uint32_t cores = 1;   // distinct cores among them, within the quota; never 0
};

/// `root` is put before /proc and /sys paths, for tests.
CpuCount countCpus(const std::string &root = "");

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_CPU_CPU_TOPOLOGY_H
