// SPDX-License-Identifier: Apache-2.0
//
// Error objects. Codes of the runtime and of the C API are the same numbers,
// which is checked here.
#include "runtime/capi/CBoundary.h"

namespace llmc::capi {

static_assert(int(Code::Ok) == LLMC_OK);
static_assert(int(Code::InvalidArgument) == LLMC_INVALID_ARGUMENT);
static_assert(int(Code::Corrupt) == LLMC_CORRUPT);
static_assert(int(Code::Incompatible) == LLMC_INCOMPATIBLE);
static_assert(int(Code::NotFound) == LLMC_NOT_FOUND);
static_assert(int(Code::Unavailable) == LLMC_UNAVAILABLE);
static_assert(int(Code::ResourceExhausted) == LLMC_RESOURCE_EXHAUSTED);
static_assert(int(Code::Cancelled) == LLMC_CANCELLED);
static_assert(int(Code::Internal) == LLMC_INTERNAL);

llmc_status report(const Status &status, llmc_error **error) noexcept {
  if (error)
    *error = nullptr;
  if (status.isOk())
    return LLMC_OK;
  if (error) {
    *error = new (std::nothrow) llmc_error{status};
    if (!*error)
      return reportNoMemory(error);
  }
  return static_cast<llmc_status>(status.code());
}

llmc_status reportNoMemory(llmc_error **error) noexcept {
  if (error) // llmc_error_message and the others know that a lack of memory has no object
    *error = nullptr;
  return LLMC_UNAVAILABLE;
}

Status checkGiven(const void *pointer, const char *name) {
  if (pointer)
    return Status::ok();
  return Status::error(Code::InvalidArgument, "'{}' is NULL", name);
}

} // namespace llmc::capi

using namespace llmc;

llmc_status llmc_error_status(const llmc_error *error) {
  return error ? static_cast<llmc_status>(error->status.code()) : LLMC_OK;
}

const char *llmc_error_message(const llmc_error *error) {
  return error ? error->status.message().c_str() : "out of memory";
}

void llmc_error_free(llmc_error *error) { delete error; }
