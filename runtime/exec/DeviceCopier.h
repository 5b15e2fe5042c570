// SPDX-License-Identifier: Apache-2.0
//
// Moves bytes between host and device memory, and between devices, whatever
// views a device gives: through the host's view where there is one, else by
// the device's own copies in and out of staging memory.
#ifndef LLMC_RUNTIME_EXEC_DEVICE_COPIER_H
#define LLMC_RUNTIME_EXEC_DEVICE_COPIER_H

#include "runtime/core/Status.h"
#include "runtime/device/Device.h"

#include <cstdint>
#include <memory>

namespace llmc {

/// Some memory of a device, and the host's view of the same bytes (null where there is none).
struct Place {
  llmc_address address = 0;
  std::byte *view = nullptr;
};

/// One per device and thread; calls wait until the bytes have arrived.
class DeviceCopier {
public:
  explicit DeviceCopier(std::shared_ptr<Device> device) : device(std::move(device)) {}

  Status upload(const Place &to, const void *from, uint64_t bytes);
  Status download(void *to, const Place &from, uint64_t bytes);

private:
  Status prepare();
  Status copy(llmc_address to, llmc_address from, uint64_t bytes);

  std::shared_ptr<Device> device;
  DeviceMemory incoming; // separate, so that nothing uploaded is ever mistaken for a result
  DeviceMemory outgoing;
  DeviceObject program;
};

/// From one device to another.
Status transfer(DeviceCopier &toDevice, const Place &to, DeviceCopier &fromDevice,
                const Place &from, uint64_t bytes);

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_DEVICE_COPIER_H
