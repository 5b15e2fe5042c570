// SPDX-License-Identifier: Apache-2.0
//
// The driver ABI as C++: opened devices and their memories, code and programs
// as objects that release themselves, errors as Status. Adds no behaviour of
// its own, so that whatever holds for the ABI holds here.
#ifndef LLMC_RUNTIME_DEVICE_DEVICE_H
#define LLMC_RUNTIME_DEVICE_DEVICE_H

#include "runtime/abi/DriverAbi.h"
#include "runtime/core/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc {

/// The drivers a process can open, by name. Filled once by registerDrivers() (or by hand in a test)
/// and passed to whoever opens devices.
class DriverRegistry {
public:
  /// Checks size, version, name and entries. The struct is borrowed and must outlive the registry
  /// and every device opened from it.
  Status add(const llmc_driver_v1 *driver);
  /// Null when there is none of that name.
  const llmc_driver_v1 *find(std::string_view name) const;
  std::span<const llmc_driver_v1 *const> all() const { return drivers; }

private:
  std::vector<const llmc_driver_v1 *> drivers;
};

/// A setting of a device, by name. See each driver for what it knows.
struct DeviceOption {
  std::string key;
  std::string value;
};

enum class MemoryKind : uint32_t { Device = LLMC_MEMORY_DEVICE, Host = LLMC_MEMORY_HOST };

/// How a submit went wrong, for whoever can name the step.
struct StepFailure {
  uint32_t step = LLMC_NO_STEP;
  int32_t kernelCode = 0;
};

class Device;

/// A handle of a device, released with the object. Keeps the device open.
class DeviceObject {
public:
  DeviceObject() = default;
  DeviceObject(std::shared_ptr<Device> device, llmc_handle handle)
      : owner(std::move(device)), value(handle) {}
  DeviceObject(DeviceObject &&other) noexcept { *this = std::move(other); }
  DeviceObject &operator=(DeviceObject &&other) noexcept;
  ~DeviceObject() { release(); }

  llmc_handle handle() const { return value; }
  explicit operator bool() const { return value != 0; }

private:
  void release();
  std::shared_ptr<Device> owner;
  llmc_handle value = 0;
};

struct DeviceMemory {
  DeviceObject object;
  llmc_address address = 0;
  uint64_t size = 0;
  void *view = nullptr; // host view; null where the device has none
};

struct DeviceCode {
  DeviceObject object;
  size_t chosen = 0; // index into the images given
};

class Device : public std::enable_shared_from_this<Device> {
public:
  /// `name` is what errors call the device ("cpu0").
  static Result<std::shared_ptr<Device>> open(const DriverRegistry &registry,
                                              std::string_view driver, std::string name,
                                              std::span<const DeviceOption> options = {});
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const std::string &name() const { return deviceName; }
  std::string_view driverName() const { return driver->name; }
  std::string_view description() const { return info.description; }
  /// Host pointers are this device's addresses.
  bool usesHostMemory() const { return (info.flags & LLMC_DEVICE_HOST_MEMORY) != 0; }
  uint32_t workers() const { return info.workers; }

  /// Zeroed; size 0 is rounded up so that the address is always valid.
  Result<DeviceMemory> alloc(uint64_t size, MemoryKind kind);
  Result<DeviceCode> loadCode(std::span<const llmc_image> images);
  Result<DeviceObject> createProgram(llmc_handle code, std::span<const llmc_step> steps);
  Result<uint64_t> submit(llmc_handle program, const llmc_submit_info &submitInfo);
  Status wait(uint64_t ticket, StepFailure *failure = nullptr);

private:
  friend class DeviceObject;
  Device(const llmc_driver_v1 *driver, std::string name)
      : driver(driver), deviceName(std::move(name)) {}
  Status check(int32_t code, const llmc_driver_error &error) const;

  const llmc_driver_v1 *driver;
  std::string deviceName;
  llmc_device *device = nullptr;
  llmc_device_info info{};
};

} // namespace llmc

#endif // LLMC_RUNTIME_DEVICE_DEVICE_H
