// SPDX-License-Identifier: Apache-2.0
//
// Choice among images, the structural check, and dlopen through a memory file.
// The file stays open while the library is loaded: the loader knows libraries
// by path, and /proc/self/fd/N must not come to name another image meanwhile.
#include "runtime/drivers/cpu/CpuImage.h"

#include "runtime/drivers/cpu/CpuFeatures.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/ranges.h>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace llmc {

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_NONE;
#endif

std::string systemError() { return std::strerror(errno); }

/// The record at `offset`, when it lies within `bytes`.
template <typename T> std::optional<T> readAt(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool inFile(std::span<const std::byte> bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

/// A freestanding image asks for no other library and has nothing to run when it is loaded.
Status checkDynamic(std::span<const std::byte> bytes, const Elf64_Phdr &segment) {
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry = *readAt<Elf64_Dyn>(bytes, segment.p_offset + at);
    switch (entry.d_tag) {
    case DT_NULL:
      return Status::ok();
    case DT_NEEDED:
      return Status::error(Code::Corrupt, "it needs another library, but images are freestanding");
    case DT_INIT:
    case DT_FINI:
    case DT_INIT_ARRAY:
    case DT_FINI_ARRAY:
    case DT_PREINIT_ARRAY:
      return Status::error(Code::Corrupt, "it has constructors or destructors");
    default:
      break;
    }
  }
  return Status::error(Code::Corrupt, "its dynamic section has no end");
}

Status checkElf(std::span<const std::byte> bytes) {
  std::optional<Elf64_Ehdr> header = readAt<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return Status::error(Code::Corrupt, "it is not an ELF file");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_type != ET_DYN)
    return Status::error(Code::Corrupt, "it is not a 64-bit little-endian shared object");
  if (header->e_machine != kMachine)
    return Status::error(Code::Corrupt, "it is for ELF machine {}, but this is {}",
                         header->e_machine, kMachine);
  if (header->e_phentsize != sizeof(Elf64_Phdr) ||
      !inFile(bytes, header->e_phoff, uint64_t{header->e_phnum} * sizeof(Elf64_Phdr)))
    return Status::error(Code::Corrupt, "its program headers lie outside the file");
  bool dynamic = false;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    Elf64_Phdr segment = *readAt<Elf64_Phdr>(bytes, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC)
      continue;
    if (!inFile(bytes, segment.p_offset, segment.p_filesz) || segment.p_filesz > segment.p_memsz)
      return Status::error(Code::Corrupt, "segment {} lies outside the file", i);
    if (segment.p_type != PT_DYNAMIC)
      continue;
    dynamic = true;
    LLMC_TRY(checkDynamic(bytes, segment));
  }
  if (!dynamic)
    return Status::error(Code::Corrupt, "it has no dynamic section");
  return Status::ok();
}

Status writeAll(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return Status::error(Code::Unavailable, "cannot write it to a memory file: {}",
                           systemError());
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Status::ok();
}

/// "x86_64-avx2.so" -> {"x86_64", "avx2"}; empty level when it is no CPU image.
struct ImageName {
  std::string_view arch;
  std::string_view level;
};
ImageName splitImageName(std::string_view name) {
  size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || !name.ends_with(".so"))
    return {};
  return {name.substr(0, dash), name.substr(dash + 1, name.size() - dash - 1 - 3)};
}

} // namespace

Result<size_t> chooseCpuImage(std::span<const llmc_image> images, std::string_view levelLimit) {
  std::optional<size_t> best;
  int bestRank = -1;
  std::vector<std::string> refusals;
  for (size_t i = 0; i < images.size(); ++i) {
    ImageName name = splitImageName(images[i].name);
    if (name.level.empty())
      continue; // for a device of another kind
    std::optional<int> rank = isaLevelRank(name.level);
    if (name.arch != hostArch()) {
      refusals.push_back(fmt::format("{}-{} is for another architecture than {}", name.arch,
                                     name.level, hostArch()));
    } else if (!rank) {
      refusals.push_back(
          fmt::format("{}-{} is a level that this runtime doesn't know", name.arch, name.level));
    } else if (std::string missing = missingFeatures(name.level); !missing.empty()) {
      refusals.push_back(
          fmt::format("{}-{} needs {}, which this CPU lacks", name.arch, name.level, missing));
    } else if (!levelLimit.empty() && *rank > *isaLevelRank(levelLimit)) {
      refusals.push_back(fmt::format("{}-{} is above the level {} that was asked for", name.arch,
                                     name.level, levelLimit));
    } else if (*rank > bestRank) {
      best = i;
      bestRank = *rank;
    }
  }
  if (best)
    return *best;
  if (refusals.empty())
    return Status::error(Code::Unavailable, "the bundle has no code for a CPU");
  return Status::error(Code::Unavailable, "the bundle has no code that this CPU can run: {}",
                       fmt::join(refusals, "; "));
}

Result<std::shared_ptr<CpuImage>> CpuImage::load(std::string name,
                                                 std::span<const std::byte> bytes) {
  std::shared_ptr<CpuImage> image(new CpuImage(std::move(name)));
  std::string context = fmt::format("image '{}'", image->name);
  if (Status status = checkElf(bytes); !status.isOk())
    return status.inContext(context);

  image->file = memfd_create("llmc-code", MFD_CLOEXEC);
  if (image->file < 0)
    return Status::error(Code::Unavailable, "{}: cannot make a memory file: {}", context,
                         systemError());
  if (Status status = writeAll(image->file, bytes); !status.isOk())
    return status.inContext(context);
  std::string path = fmt::format("/proc/self/fd/{}", image->file);
  image->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!image->library) {
    const char *reason = dlerror();
    return Status::error(Code::Corrupt, "{}: {}", context, reason ? reason : "cannot be loaded");
  }

  const auto *version =
      static_cast<const uint32_t *>(dlsym(image->library, LLMC_KERNEL_ABI_SYMBOL));
  if (!version)
    return Status::error(Code::Corrupt, "{}: it doesn't export {}", context,
                         LLMC_KERNEL_ABI_SYMBOL);
  if (*version != LLMC_KERNEL_ABI_VERSION)
    return Status::error(Code::Incompatible,
                         "{}: its kernels are of ABI version {}, this runtime's is {}", context,
                         *version, LLMC_KERNEL_ABI_VERSION);
  return image;
}

CpuImage::~CpuImage() {
  if (library)
    dlclose(library);
  if (file >= 0)
    close(file);
}

Result<llmc_kernel_fn> CpuImage::kernel(const char *symbol) const {
  void *address = dlsym(library, symbol);
  if (!address)
    return Status::error(Code::NotFound, "image '{}' has no kernel '{}'", name, symbol);
  return reinterpret_cast<llmc_kernel_fn>(address);
}

} // namespace llmc
