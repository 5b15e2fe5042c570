// SPDX-License-Identifier: Apache-2.0
//
// What every function of the C API does at its edge: turn a Status or an
// exception into a C status with an error object, and read and write structs
// of callers that may be older or newer than this library.
#ifndef LLMC_RUNTIME_CAPI_C_BOUNDARY_H
#define LLMC_RUNTIME_CAPI_C_BOUNDARY_H

#include "llmc/llmc.h"
#include "runtime/core/Status.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

struct llmc_error {
  llmc::Status status;
};

namespace llmc::capi {

/// Puts `status` into `*error` (which may be absent) and gives its code.
llmc_status report(const Status &status, llmc_error **error) noexcept;
/// The same when there is no memory, for the error object either.
llmc_status reportNoMemory(llmc_error **error) noexcept;

/// Runs `body`, which returns a Status. Nothing that it throws passes.
template <typename Body> llmc_status guarded(llmc_error **error, Body &&body) noexcept {
  try {
    return report(body(), error);
  } catch (const std::bad_alloc &) {
    return reportNoMemory(error);
  } catch (const std::exception &failure) {
    try {
      return report(Status::error(Code::Internal, "internal error: {}", failure.what()), error);
    } catch (...) {
      return reportNoMemory(error);
    }
  } catch (...) {
    return reportNoMemory(error);
  }
}

/// InvalidArgument when a pointer that has to be given is null.
Status checkGiven(const void *pointer, const char *name);

/// The caller's options over `defaults`: fields that the caller's version of the struct doesn't
/// have keep their defaults. Incompatible when it sets fields that this library doesn't know.
template <typename T> Result<T> readOptions(const T *given, const T &defaults, const char *name) {
  T options = defaults;
  if (!given)
    return options;
  size_t size = given->struct_size;
  if (size < sizeof(size_t))
    return Status::error(Code::InvalidArgument, "{}.struct_size is {}, too small for its own field",
                         name, size);
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; }))
    return Status::error(Code::Incompatible, "{} sets a field that this library does not know",
                         name);
  std::memcpy(&options, given, std::min(size, sizeof(T)));
  options.struct_size = sizeof(T);
  return options;
}

/// Writes those fields of `value` to `*out` that the caller's version of the struct has.
template <typename T> Status writeStruct(const T &value, T *out, const char *name) {
  LLMC_TRY(checkGiven(out, name));
  size_t size = out->struct_size;
  if (size < sizeof(size_t))
    return Status::error(Code::InvalidArgument, "{}->struct_size is {}: set it to sizeof *{}", name,
                         size, name);
  std::memcpy(reinterpret_cast<char *>(out) + sizeof(size_t),
              reinterpret_cast<const char *>(&value) + sizeof(size_t),
              std::min(size, sizeof(T)) - sizeof(size_t));
  return Status::ok();
}

} // namespace llmc::capi

#endif // LLMC_RUNTIME_CAPI_C_BOUNDARY_H
