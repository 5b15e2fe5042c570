// SPDX-License-Identifier: Apache-2.0
//
// A loaded CPU image: a freestanding ELF shared object, mapped from bytes by
// the system's dynamic loader. Its structure is checked first, so that damaged
// bytes are an error and not a crash, and nothing of it runs while it loads.
#ifndef LLMC_RUNTIME_DRIVERS_CPU_CPU_IMAGE_H
#define LLMC_RUNTIME_DRIVERS_CPU_CPU_IMAGE_H

#include "runtime/abi/DriverAbi.h"
#include "runtime/abi/KernelAbi.h"
#include "runtime/core/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmc {

/// Which of `images` to load: the one of the highest level that this CPU can run and that isn't
/// above `levelLimit` (empty: no limit). Unavailable, saying what is lacking, when there is none.
Result<size_t> chooseCpuImage(std::span<const llmc_image> images, std::string_view levelLimit);

class CpuImage {
public:
  /// `name` is for errors.
  static Result<std::shared_ptr<CpuImage>> load(std::string name, std::span<const std::byte> bytes);
  ~CpuImage();
  CpuImage(const CpuImage &) = delete;
  CpuImage &operator=(const CpuImage &) = delete;

  Result<llmc_kernel_fn> kernel(const char *symbol) const;

private:
  explicit CpuImage(std::string name) : name(std::move(name)) {}

  std::string name;
  int file = -1;
  void *library = nullptr;
};

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_CPU_CPU_IMAGE_H
