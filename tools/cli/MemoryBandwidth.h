// SPDX-License-Identifier: Apache-2.0
//
// What the memory gives, to hold a kernel's speed against.
#ifndef LLMC_TOOLS_CLI_MEMORY_BANDWIDTH_H
#define LLMC_TOOLS_CLI_MEMORY_BANDWIDTH_H

namespace llmc::cli {

/// Bytes per second that `threads` threads read together, the best of several passes over more
/// memory than caches hold. Takes a few tenths of a second.
double readBandwidth(unsigned threads);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_MEMORY_BANDWIDTH_H
