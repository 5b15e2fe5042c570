// SPDX-License-Identifier: Apache-2.0
//
// Calls through the driver struct, and the one place where a driver's code and
// message become a Status.
#include "runtime/device/Device.h"

#include <algorithm>

namespace llmc {

namespace {
llmc_driver_error freshError() {
  llmc_driver_error error{};
  error.struct_size = sizeof(error);
  error.step = LLMC_NO_STEP;
  return error;
}
} // namespace

Status DriverRegistry::add(const llmc_driver_v1 *driver) {
  if (!driver || driver->struct_size < sizeof(llmc_driver_v1))
    return Status::error(Code::Incompatible, "a driver's struct is smaller than version {} of it",
                         LLMC_DRIVER_ABI_VERSION);
  if (driver->abi_version != LLMC_DRIVER_ABI_VERSION)
    return Status::error(Code::Incompatible, "driver is of ABI version {}, this runtime's is {}",
                         driver->abi_version, LLMC_DRIVER_ABI_VERSION);
  if (!driver->name || !*driver->name)
    return Status::error(Code::InvalidArgument, "a driver has no name");
  if (!driver->open || !driver->close || !driver->alloc || !driver->free || !driver->map ||
      !driver->load_code || !driver->create_program || !driver->submit || !driver->wait)
    return Status::error(Code::InvalidArgument, "driver '{}' lacks one of its nine entries",
                         driver->name);
  if (find(driver->name))
    return Status::error(Code::InvalidArgument, "driver '{}' is registered already", driver->name);
  drivers.push_back(driver);
  return Status::ok();
}

const llmc_driver_v1 *DriverRegistry::find(std::string_view name) const {
  auto it = std::find_if(drivers.begin(), drivers.end(),
                         [&](const llmc_driver_v1 *driver) { return driver->name == name; });
  return it == drivers.end() ? nullptr : *it;
}

DeviceObject &DeviceObject::operator=(DeviceObject &&other) noexcept {
  if (this != &other) {
    release();
    owner = std::move(other.owner);
    value = std::exchange(other.value, 0);
  }
  return *this;
}

void DeviceObject::release() {
  // A handle is freed once and by its owner, so the only failure would be the driver's own.
  if (value != 0)
    (void)owner->driver->free(owner->device, value, nullptr);
  value = 0;
  owner.reset();
}

Result<std::shared_ptr<Device>> Device::open(const DriverRegistry &registry,
                                             std::string_view driver, std::string name,
                                             std::span<const DeviceOption> options) {
  const llmc_driver_v1 *entry = registry.find(driver);
  if (!entry) {
    std::string known;
    for (const llmc_driver_v1 *other : registry.all())
      known += fmt::format("{}'{}'", known.empty() ? "" : ", ", other->name);
    return Status::error(Code::Unavailable,
                         "device '{}' needs the driver '{}', but this runtime has {}", name, driver,
                         known.empty() ? "none" : known);
  }
  std::vector<llmc_option> plain;
  plain.reserve(options.size());
  for (const DeviceOption &option : options)
    plain.push_back({option.key.c_str(), option.value.c_str()});
  std::shared_ptr<Device> result(new Device(entry, std::move(name)));
  result->info.struct_size = sizeof(result->info);
  llmc_driver_error error = freshError();
  LLMC_TRY(result->check(
      entry->open(plain.data(), plain.size(), &result->device, &result->info, &error), error));
  return result;
}

Device::~Device() { driver->close(device); }

Status Device::check(int32_t code, const llmc_driver_error &error) const {
  if (code == LLMC_DRIVER_OK)
    return Status::ok();
  bool known = code > LLMC_DRIVER_OK && code <= LLMC_DRIVER_INTERNAL;
  return Status::error(known ? static_cast<Code>(code) : Code::Internal, "device '{}': {}",
                       deviceName, error.message);
}

Result<DeviceMemory> Device::alloc(uint64_t size, MemoryKind kind) {
  DeviceMemory result;
  result.size = std::max<uint64_t>(size, 1);
  llmc_memory memory{};
  llmc_driver_error error = freshError();
  LLMC_TRY(check(driver->alloc(device, result.size, static_cast<uint32_t>(kind), &memory, &error),
                 error));
  result.object = DeviceObject(shared_from_this(), memory.handle);
  result.address = memory.address;
  LLMC_TRY(check(driver->map(device, memory.handle, &result.view, &error), error));
  return result;
}

Result<DeviceCode> Device::loadCode(std::span<const llmc_image> images) {
  llmc_handle code = 0;
  uint64_t chosen = 0;
  llmc_driver_error error = freshError();
  LLMC_TRY(check(driver->load_code(device, images.data(), images.size(), &code, &chosen, &error),
                 error));
  return DeviceCode{DeviceObject(shared_from_this(), code), static_cast<size_t>(chosen)};
}

Result<DeviceObject> Device::createProgram(llmc_handle code, std::span<const llmc_step> steps) {
  llmc_handle program = 0;
  llmc_driver_error error = freshError();
  LLMC_TRY(check(driver->create_program(device, code, steps.data(), steps.size(), &program, &error),
                 error));
  return DeviceObject(shared_from_this(), program);
}

Result<uint64_t> Device::submit(llmc_handle program, const llmc_submit_info &submitInfo) {
  uint64_t ticket = 0;
  llmc_driver_error error = freshError();
  LLMC_TRY(check(driver->submit(device, program, &submitInfo, &ticket, &error), error));
  return ticket;
}

Status Device::wait(uint64_t ticket, StepFailure *failure) {
  llmc_driver_error error = freshError();
  int32_t code = driver->wait(device, ticket, &error);
  if (failure)
    *failure = {error.step, error.kernel_code};
  return check(code, error);
}

} // namespace llmc
