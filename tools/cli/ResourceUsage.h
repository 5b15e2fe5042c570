// SPDX-License-Identifier: Apache-2.0
//
// What the process has used, as the system counts it.
#ifndef LLMC_TOOLS_CLI_RESOURCE_USAGE_H
#define LLMC_TOOLS_CLI_RESOURCE_USAGE_H

#include <cstdint>
#include <sys/resource.h>

namespace llmc::cli {

/// The highest resident size so far, mapped file pages included.
inline uint64_t peakMemoryBytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) * 1024;
}

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_RESOURCE_USAGE_H
