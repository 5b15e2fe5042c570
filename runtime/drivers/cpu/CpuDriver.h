// SPDX-License-Identifier: Apache-2.0
//
// The driver of the host's CPUs. Settings:
//   threads=N           workers, 1 to 1024; 0 or absent: one per usable core
//   isa=LEVEL           the highest ISA level to use ("avx2"); absent: no limit
//   separate_memory=1   behave like a device with memory of its own: no host
//                       pointers as operands, no host view of device memory
#ifndef LLMC_RUNTIME_DRIVERS_CPU_CPU_DRIVER_H
#define LLMC_RUNTIME_DRIVERS_CPU_CPU_DRIVER_H

#include "runtime/abi/DriverAbi.h"

namespace llmc {

const llmc_driver_v1 *cpuDriver();

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_CPU_CPU_DRIVER_H
