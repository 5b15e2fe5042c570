// SPDX-License-Identifier: Apache-2.0
//
// The nine C entries: argument checks, then CpuDevice.
#include "runtime/drivers/cpu/CpuDriver.h"

#include "runtime/device/DriverEntry.h"
#include "runtime/drivers/cpu/CpuDevice.h"

#include <charconv>
#include <string_view>

namespace llmc {

namespace {

constexpr uint32_t kMaxThreads = 1024;

CpuDevice &device(llmc_device *handle) { return *reinterpret_cast<CpuDevice *>(handle); }

Status parseNumber(std::string_view key, std::string_view text, uint32_t limit, uint32_t &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > limit)
    return Status::error(Code::InvalidArgument, "setting '{}' is '{}', expected 0 to {}", key, text,
                         limit);
  return Status::ok();
}

Status parseOptions(std::span<const llmc_option> options, CpuDeviceOptions &parsed) {
  for (const llmc_option &option : options) {
    if (!option.key || !option.value)
      return missingArgument("a setting");
    std::string_view key = option.key;
    if (key == "threads") {
      LLMC_TRY(parseNumber(key, option.value, kMaxThreads, parsed.threads));
    } else if (key == "isa") {
      parsed.isaLimit = option.value;
    } else if (key == "separate_memory") {
      uint32_t flag = 0;
      LLMC_TRY(parseNumber(key, option.value, 1, flag));
      parsed.separateMemory = flag != 0;
    } else {
      return Status::error(
          Code::InvalidArgument,
          "the cpu driver has no setting '{}'; it knows threads, isa, separate_memory", key);
    }
  }
  return Status::ok();
}

int32_t openDevice(const llmc_option *options, uint64_t count, llmc_device **result,
                   llmc_device_info *info, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkOpen(options, count, result, info));
    CpuDeviceOptions parsed;
    LLMC_TRY(parseOptions({options, count}, parsed));
    LLMC_TRY_ASSIGN(std::unique_ptr<CpuDevice> opened, CpuDevice::open(parsed, *info));
    *result = reinterpret_cast<llmc_device *>(opened.release());
    return Status::ok();
  });
}

void closeDevice(llmc_device *handle) { delete reinterpret_cast<CpuDevice *>(handle); }

int32_t alloc(llmc_device *handle, uint64_t size, uint32_t kind, llmc_memory *memory,
              llmc_driver_error *error) {
  return driverEntry(error, [&] {
    return handle && memory ? device(handle).alloc(size, kind, *memory)
                            : missingArgument("an argument of alloc");
  });
}

int32_t freeHandle(llmc_device *handle, llmc_handle object, llmc_driver_error *error) {
  return driverEntry(
      error, [&] { return handle ? device(handle).free(object) : missingArgument("the device"); });
}

int32_t map(llmc_device *handle, llmc_handle memory, void **view, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    return handle && view ? device(handle).map(memory, *view)
                          : missingArgument("an argument of map");
  });
}

int32_t loadCode(llmc_device *handle, const llmc_image *images, uint64_t count, llmc_handle *code,
                 uint64_t *chosen, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkLoadCode(handle, images, count, code, chosen));
    return device(handle).loadCode({images, count}, *code, *chosen);
  });
}

int32_t createProgram(llmc_device *handle, llmc_handle code, const llmc_step *steps, uint64_t count,
                      llmc_handle *program, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkCreateProgram(handle, steps, count, program));
    return device(handle).createProgram(code, {steps, count}, *program);
  });
}

int32_t submit(llmc_device *handle, llmc_handle program, const llmc_submit_info *info,
               uint64_t *ticket, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkSubmit(handle, info, ticket));
    return device(handle).submit(program, *info, *ticket);
  });
}

int32_t wait(llmc_device *handle, uint64_t ticket, llmc_driver_error *error) {
  if (!handle)
    return reportDriverError(error, missingArgument("the device"));
  DriverStep step;
  int32_t code = driverEntry(error, [&] { return device(handle).wait(ticket, step); });
  if (code != LLMC_DRIVER_OK && error && error->struct_size >= sizeof(llmc_driver_error)) {
    error->step = step.step;
    error->kernel_code = step.kernelCode;
  }
  return code;
}

} // namespace

const llmc_driver_v1 *cpuDriver() {
  static constexpr llmc_driver_v1 kDriver = {
      .struct_size = sizeof(llmc_driver_v1),
      .abi_version = LLMC_DRIVER_ABI_VERSION,
      .reserved = 0,
      .name = "cpu",
      .open = openDevice,
      .close = closeDevice,
      .alloc = alloc,
      .free = freeHandle,
      .map = map,
      .load_code = loadCode,
      .create_program = createProgram,
      .submit = submit,
      .wait = wait,
  };
  return &kDriver;
}

} // namespace llmc
