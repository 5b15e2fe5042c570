// SPDX-License-Identifier: Apache-2.0
//
// A driver that accepts every program and executes nothing: what a run costs
// without its kernels, how much memory it takes, and the driver to copy from
// when writing a new one. Its memory has a host view and reads as zeros until
// the host writes to it.
#ifndef LLMC_RUNTIME_DRIVERS_NULL_NULL_DRIVER_H
#define LLMC_RUNTIME_DRIVERS_NULL_NULL_DRIVER_H

#include "runtime/abi/DriverAbi.h"

namespace llmc {

const llmc_driver_v1 *nullDriver();

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_NULL_NULL_DRIVER_H
