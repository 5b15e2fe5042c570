// SPDX-License-Identifier: Apache-2.0
//
// The drivers this runtime was built with. One line per driver in Drivers.cpp;
// there is no other list, and no registration behind main's back.
#ifndef LLMC_RUNTIME_DRIVERS_DRIVERS_H
#define LLMC_RUNTIME_DRIVERS_DRIVERS_H

#include "runtime/device/Device.h"

namespace llmc {

/// Adds every driver of this build to `registry`.
Status registerDrivers(DriverRegistry &registry);

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_DRIVERS_H
