// SPDX-License-Identifier: Apache-2.0
//
// What the machine gives at best, to hold a kernel's speed against.
#ifndef LLMC_TOOLS_CLI_MACHINE_SPEED_H
#define LLMC_TOOLS_CLI_MACHINE_SPEED_H

namespace llmc::cli {

struct MachineSpeed {
  double readBandwidth;          ///< bytes per second from memory in 4 KiB pages
  double largePageReadBandwidth; ///< the same with 2 MiB pages where the system has them
  double multiplyAdd;            ///< f32 multiplications and additions per second, in registers

  double bestReadBandwidth() const {
    return readBandwidth > largePageReadBandwidth ? readBandwidth : largePageReadBandwidth;
  }
};

/// What `threads` threads reach together, the best of several passes; memory is read from a block
/// larger than caches. Takes about a second.
MachineSpeed measureMachine(unsigned threads);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_MACHINE_SPEED_H
