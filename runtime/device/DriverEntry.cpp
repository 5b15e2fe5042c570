// SPDX-License-Identifier: Apache-2.0
//
// The one place where a Status becomes a driver's error struct.
#include "runtime/device/DriverEntry.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

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

} // namespace llmc
