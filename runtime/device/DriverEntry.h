// SPDX-License-Identifier: Apache-2.0
//
// For drivers written in C++: the inside speaks Status and exceptions of the
// standard library, the C entry speaks codes. Every entry of such a driver is
// wrapped in driverEntry(), so that nothing else can cross the boundary.
#ifndef LLMC_RUNTIME_DEVICE_DRIVER_ENTRY_H
#define LLMC_RUNTIME_DEVICE_DRIVER_ENTRY_H

#include "runtime/abi/DriverAbi.h"
#include "runtime/core/Status.h"

#include <exception>
#include <new>

namespace llmc {

/// Which step of a program failed, and how; goes into llmc_driver_error beside the Status.
struct DriverStep {
  uint32_t step = LLMC_NO_STEP;
  int32_t kernelCode = 0;
};

/// Writes what `error` (may be null) has room for.
int32_t reportDriverError(llmc_driver_error *error, const Status &status, DriverStep step = {});

/// Runs `body`, which returns a Status, and reports what went wrong.
template <typename Body> int32_t driverEntry(llmc_driver_error *error, Body body) {
  try {
    return reportDriverError(error, body());
  } catch (const std::bad_alloc &) {
    return reportDriverError(error, Status::error(Code::Unavailable, "out of host memory"));
  } catch (const std::exception &caught) {
    return reportDriverError(error, Status::error(Code::Internal, "{}", caught.what()));
  }
}

// The checks of arguments that every driver makes before it looks at what they mean.
Status missingArgument(const char *what);
Status checkOpen(const llmc_option *options, uint64_t count, llmc_device **result,
                 const llmc_device_info *info);
Status checkLoadCode(const llmc_device *device, const llmc_image *images, uint64_t count,
                     const llmc_handle *code, const uint64_t *chosen);
Status checkCreateProgram(const llmc_device *device, const llmc_step *steps, uint64_t count,
                          const llmc_handle *program);
Status checkSubmit(const llmc_device *device, const llmc_submit_info *info, const uint64_t *ticket);

} // namespace llmc

#endif // LLMC_RUNTIME_DEVICE_DRIVER_ENTRY_H
