// SPDX-License-Identifier: Apache-2.0
//
// Shape text and checked sizes.
#include "runtime/core/Tensor.h"

#include <fmt/ranges.h>

namespace llmc {

std::string shapeText(std::span<const int64_t> shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

Result<uint64_t> tensorBytes(Dtype dtype, std::span<const int64_t> shape) {
  auto bytes = static_cast<int64_t>(dtypeSize(dtype));
  if (bytes == 0)
    return Status::error(Code::InvalidArgument, "element type {} is unknown",
                         static_cast<uint32_t>(dtype));
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return Status::error(Code::InvalidArgument, "shape {} has a negative dimension",
                           shapeText(shape));
    if (dim == 0)
      empty = true;
    else if (__builtin_mul_overflow(bytes, dim, &bytes))
      return Status::error(Code::InvalidArgument, "shape {} of {} does not fit in 63 bits of bytes",
                           shapeText(shape), dtypeName(dtype));
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

} // namespace llmc
