// SPDX-License-Identifier: Apache-2.0
//
// To write a driver, copy this file and replace, from the top down: what a
// Device holds, how memory comes about, what "loading" an image means, and the
// body of submit. The checks of arguments stay; tests/conformance runs them
// for every registered driver.
#include "runtime/drivers/null/NullDriver.h"

#include "runtime/device/DriverEntry.h"
#include "runtime/device/HandleTable.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>

namespace llmc {

namespace {

struct Memory {
  explicit Memory(void *data) : data(data) {}
  ~Memory() { std::free(data); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  void *data;
};

struct LoadedCode {};

struct Program {
  uint64_t steps = 0;
  uint64_t operands = 0;
  uint64_t scalars = 0;
};

struct Device {
  HandleTable<Memory, LoadedCode, Program> handles;
  std::mutex lock;
  uint64_t lastTicket = 0;
};

Device &device(llmc_device *handle) { return *reinterpret_cast<Device *>(handle); }

template <typename... Args> Status invalid(fmt::format_string<Args...> text, Args &&...args) {
  return Status::error(Code::InvalidArgument, text, std::forward<Args>(args)...);
}

int32_t openDevice(const llmc_option *options, uint64_t count, llmc_device **result,
                   llmc_device_info *info, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkOpen(options, count, result, info));
    // Settings that belong to another driver are a mistake of the caller, never ignored.
    if (count != 0)
      return invalid("the null driver has no setting '{}'", options->key ? options->key : "(null)");
    info->flags = 0;
    info->workers = 1;
    std::strncpy(info->description, "null device: executes nothing", sizeof(info->description) - 1);
    *result = reinterpret_cast<llmc_device *>(new Device());
    return Status::ok();
  });
}

void closeDevice(llmc_device *handle) { delete reinterpret_cast<Device *>(handle); }

int32_t alloc(llmc_device *handle, uint64_t size, uint32_t kind, llmc_memory *memory,
              llmc_driver_error *error) {
  return driverEntry(error, [&] {
    if (!handle || !memory)
      return missingArgument("an argument of alloc");
    if (size == 0)
      return invalid("alloc of 0 bytes");
    if (kind != LLMC_MEMORY_DEVICE && kind != LLMC_MEMORY_HOST)
      return invalid("{} is no kind of memory", kind);
    constexpr uint64_t kAlign = LLMC_MEMORY_ALIGN;
    constexpr uint64_t kMost = uint64_t{1} << 40; // more is surely a mistake
    void *data = nullptr;
    uint64_t bytes = size <= kMost ? (size + kAlign - 1) / kAlign * kAlign : 0;
    if (bytes != 0)
      data = std::aligned_alloc(kAlign, bytes);
    if (!data)
      return Status::error(Code::Unavailable, "cannot get {} bytes of memory", size);
    std::memset(data, 0, bytes);
    memory->handle = device(handle).handles.add(std::make_shared<Memory>(data));
    // The address could be any number that no other memory covers; the executor only adds to it.
    memory->address = reinterpret_cast<uintptr_t>(data);
    return Status::ok();
  });
}

int32_t freeHandle(llmc_device *handle, llmc_handle object, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    if (!handle)
      return missingArgument("the device");
    if (object != 0 && !device(handle).handles.remove(object))
      return invalid("free of the unknown handle {}", object);
    return Status::ok();
  });
}

int32_t map(llmc_device *handle, llmc_handle memory, void **view, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    if (!handle || !view)
      return missingArgument("an argument of map");
    std::shared_ptr<Memory> object = device(handle).handles.find<Memory>(memory);
    if (!object)
      return invalid("handle {} is no memory of this device", memory);
    *view = object->data;
    return Status::ok();
  });
}

int32_t loadCode(llmc_device *handle, const llmc_image *images, uint64_t count, llmc_handle *code,
                 uint64_t *chosen, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkLoadCode(handle, images, count, code, chosen));
    // A real driver looks for names of its own kind and checks that the device can run them.
    if (count == 0)
      return Status::error(Code::Unavailable, "the bundle has no code");
    *code = device(handle).handles.add(std::make_shared<LoadedCode>());
    *chosen = 0;
    return Status::ok();
  });
}

int32_t createProgram(llmc_device *handle, llmc_handle code, const llmc_step *steps, uint64_t count,
                      llmc_handle *program, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkCreateProgram(handle, steps, count, program));
    bool hasCode = device(handle).handles.find<LoadedCode>(code) != nullptr;
    if (!hasCode && code != 0)
      return invalid("handle {} is no code of this device", code);
    auto object = std::make_shared<Program>();
    object->steps = count;
    for (const llmc_step &step : std::span(steps, count)) {
      if (step.kind == LLMC_STEP_DISPATCH) {
        // A real driver resolves the kernel here; NOT_FOUND when the image lacks it.
        if (!hasCode || !step.kernel)
          return invalid("a dispatch without {}", step.kernel ? "code" : "a kernel");
      } else if (step.kind != LLMC_STEP_COPY) {
        return invalid("a step is of the unknown kind {}", step.kind);
      } else if (step.operand_count != 2 || step.scalar_count != 1) {
        return invalid("a copy has {} operands and {} scalars, not 2 and 1", step.operand_count,
                       step.scalar_count);
      }
      object->operands += step.operand_count;
      object->scalars += step.scalar_count;
    }
    *program = device(handle).handles.add(std::move(object));
    return Status::ok();
  });
}

int32_t submit(llmc_device *handle, llmc_handle program, const llmc_submit_info *info,
               uint64_t *ticket, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    LLMC_TRY(checkSubmit(handle, info, ticket));
    std::shared_ptr<Program> object = device(handle).handles.find<Program>(program);
    if (!object)
      return invalid("handle {} is no program of this device", program);
    if (info->operand_count != object->operands || info->scalar_count != object->scalars)
      return invalid("submit gives {} operands and {} scalars, but the program takes {} and {}",
                     info->operand_count, info->scalar_count, object->operands, object->scalars);
    if (info->step_ns)
      std::fill_n(info->step_ns, object->steps, 0);
    // A real driver enqueues the program here and may return before it has run.
    std::lock_guard guard(device(handle).lock);
    *ticket = ++device(handle).lastTicket;
    return Status::ok();
  });
}

int32_t wait(llmc_device *handle, uint64_t ticket, llmc_driver_error *error) {
  return driverEntry(error, [&] {
    if (!handle)
      return missingArgument("the device");
    std::lock_guard guard(device(handle).lock);
    if (ticket == 0 || ticket > device(handle).lastTicket)
      return invalid("ticket {} was never given out", ticket);
    return Status::ok();
  });
}

} // namespace

const llmc_driver_v1 *nullDriver() {
  static constexpr llmc_driver_v1 kDriver = {
      .struct_size = sizeof(llmc_driver_v1),
      .abi_version = LLMC_DRIVER_ABI_VERSION,
      .reserved = 0,
      .name = "null",
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
