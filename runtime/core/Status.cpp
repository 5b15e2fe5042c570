// SPDX-License-Identifier: Apache-2.0
//
// Status text handling; the type itself is in the header.
#include "runtime/core/Status.h"

namespace llmc {

const std::string &Status::message() const {
  static const std::string kEmpty;
  return detail ? detail->message : kEmpty;
}

Status Status::inContext(const std::string &context) const {
  if (isOk())
    return *this;
  return Status(code(), context + ": " + message());
}

} // namespace llmc
