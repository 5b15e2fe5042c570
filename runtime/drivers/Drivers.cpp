// SPDX-License-Identifier: Apache-2.0
//
// The list of drivers.
#include "runtime/drivers/Drivers.h"

#include "runtime/drivers/cpu/CpuDriver.h"
#include "runtime/drivers/null/NullDriver.h"

namespace llmc {

Status registerDrivers(DriverRegistry &registry) {
  LLMC_TRY(registry.add(cpuDriver()));
  LLMC_TRY(registry.add(nullDriver()));
  return Status::ok();
}

} // namespace llmc
