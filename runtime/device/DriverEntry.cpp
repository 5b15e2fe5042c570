// SPDX-License-Identifier: Apache-2.0
//
// The one place where a Status becomes a driver's error struct.
#include "runtime/device/DriverEntry.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace llmc {

int32_t reportDriverError(llmc_driver_error *error, const Status &status, DriverStep step) {
  auto code = static_cast<int32_t>(status.code());
  if (status.isOk() || !error || error->struct_size < sizeof(llmc_driver_error))
    return code;
  error->step = step.step;
  error->kernel_code = step.kernelCode;
  const std::string &text = status.message();
  size_t size = std::min<size_t>(text.size(), LLMC_DRIVER_MESSAGE_BYTES - 1);
  // Cut before a UTF-8 sequence, not inside it.
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
    --size;
  std::memcpy(error->message, text.data(), size);
  error->message[size] = '\0';
  return code;
}

Status missingArgument(const char *what) {
  return Status::error(Code::InvalidArgument, "{} is null", what);
}

Status checkOpen(const llmc_option *options, uint64_t count, llmc_device **result,
                 const llmc_device_info *info) {
  if (!result || !info || info->struct_size < sizeof(llmc_device_info) || (!options && count))
    return missingArgument("an argument of open");
  return Status::ok();
}

Status checkLoadCode(const llmc_device *device, const llmc_image *images, uint64_t count,
                     const llmc_handle *code, const uint64_t *chosen) {
  if (!device || !code || !chosen || (!images && count))
    return missingArgument("an argument of load_code");
  for (const llmc_image &image : std::span(images, count))
    if (!image.name || !image.bytes)
      return missingArgument("an image");
  return Status::ok();
}

Status checkCreateProgram(const llmc_device *device, const llmc_step *steps, uint64_t count,
                          const llmc_handle *program) {
  if (!device || !program || (!steps && count))
    return missingArgument("an argument of create_program");
  return Status::ok();
}

Status checkSubmit(const llmc_device *device, const llmc_submit_info *info,
                   const uint64_t *ticket) {
  if (!device || !info || !ticket || info->struct_size < sizeof(llmc_submit_info) ||
      (!info->operands && info->operand_count) || (!info->scalars && info->scalar_count))
    return missingArgument("an argument of submit");
  return Status::ok();
}

} // namespace llmc
