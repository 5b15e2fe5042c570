// SPDX-License-Identifier: Apache-2.0
//
// The order of the checks gives the clearest error: archive, manifest and its
// version, entries against the manifest, hashes, and the program last.
#include "runtime/bundle/BundleReader.h"

#include "runtime/abi/BundleFormat.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace llmc {
namespace {

template <typename... Args> Status corrupt(fmt::format_string<Args...> text, Args &&...args) {
  return Status::error(Code::Corrupt, text, std::forward<Args>(args)...);
}

Status systemError(int code, const char *doing) {
  return Status::error(code == ENOENT || code == ENOTDIR ? Code::NotFound : Code::Unavailable,
                       "cannot {} it: {}", doing, std::generic_category().message(code));
}

/// Maps the whole file. The kernel places mappings at multiples of a small page, so there is a
/// larger reservation first, within which a multiple of the weights' alignment lies.
Result<std::shared_ptr<const void>> mapFile(int file, size_t size) {
  constexpr size_t kAlign = LLMC_ALIGN_WEIGHTS;
  size_t slack = size >= kAlign ? kAlign : 0;
  if (size > SIZE_MAX - slack)
    return systemError(EFBIG, "map");
  void *reserved =
      mmap(nullptr, size + slack, slack ? PROT_NONE : PROT_READ,
           MAP_PRIVATE | (slack ? MAP_ANONYMOUS | MAP_NORESERVE : 0), slack ? -1 : file, 0);
  if (reserved == MAP_FAILED)
    return systemError(errno, "map");
  std::shared_ptr<const void> mapping(reserved, [length = size + slack](const void *address) {
    munmap(const_cast<void *>(address), length);
  });
  if (!slack)
    return mapping;
  auto begin = reinterpret_cast<uintptr_t>(reserved);
  void *aligned = reinterpret_cast<void *>((begin + kAlign - 1) & ~(kAlign - 1));
  if (mmap(aligned, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
    return systemError(errno, "map");
  return std::shared_ptr<const void>(mapping, aligned);
}

uint64_t requiredAlignment(std::string_view name) {
  if (name == LLMC_ENTRY_WEIGHTS)
    return LLMC_ALIGN_WEIGHTS;
  return name.starts_with("code/") ? LLMC_ALIGN_CODE : LLMC_ALIGN_DEFAULT;
}

} // namespace

Result<std::shared_ptr<const BundleReader>> BundleReader::open(const std::string &path) {
  std::string context = "'" + path + "'";
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return systemError(errno, "open").inContext(context);
  struct FileCloser {
    int file;
    ~FileCloser() { close(file); }
  } closer{file};

  struct stat info;
  if (fstat(file, &info) != 0)
    return systemError(errno, "read").inContext(context);
  if (!S_ISREG(info.st_mode))
    return Status::error(Code::InvalidArgument, "{}: it is {}, not a bundle", context,
                         S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
  if (info.st_size == 0)
    return corrupt("{}: the file is empty", context);
  auto size = static_cast<size_t>(info.st_size);
  Result<std::shared_ptr<const void>> mapping = mapFile(file, size);
  if (!mapping.isOk())
    return mapping.status().inContext(context);

  std::shared_ptr<BundleReader> reader(new BundleReader);
  reader->filePath = path;
  reader->owner = *mapping;
  reader->file = {static_cast<const std::byte *>(mapping->get()), size};
  if (Status status = reader->load(); !status.isOk())
    return status.inContext(context);
  return std::shared_ptr<const BundleReader>(std::move(reader));
}

Result<std::shared_ptr<const BundleReader>>
BundleReader::fromMemory(std::span<const std::byte> file, std::shared_ptr<const void> owner) {
  if (reinterpret_cast<uintptr_t>(file.data()) % LLMC_ALIGN_DEFAULT != 0)
    return Status::error(Code::InvalidArgument,
                         "the bundle's memory does not start at a multiple of {} bytes",
                         LLMC_ALIGN_DEFAULT);
  std::shared_ptr<BundleReader> reader(new BundleReader);
  reader->owner = std::move(owner);
  reader->file = file;
  LLMC_TRY(reader->load());
  return std::shared_ptr<const BundleReader>(std::move(reader));
}

Status BundleReader::load() {
  LLMC_TRY_ASSIGN(archive, Archive::parse(file));

  const Archive::Entry *manifest = archive.find(LLMC_ENTRY_MANIFEST);
  if (!manifest)
    return corrupt("the archive has no {}: it is not a bundle", LLMC_ENTRY_MANIFEST);
  if (manifest->bytes.size() > LLMC_MAX_MANIFEST_BYTES)
    return corrupt("{} has {} bytes; at most {} are allowed", LLMC_ENTRY_MANIFEST,
                   manifest->bytes.size(), LLMC_MAX_MANIFEST_BYTES);
  if (crc32(manifest->bytes) != manifest->crc)
    return corrupt("{} is damaged: its checksum is wrong", LLMC_ENTRY_MANIFEST);
  text.assign(reinterpret_cast<const char *>(manifest->bytes.data()), manifest->bytes.size());
  LLMC_TRY_ASSIGN(parsedManifest, Manifest::parse(text));

  for (const auto &[name, description] : parsedManifest.entries)
    if (!archive.find(name) || name == LLMC_ENTRY_MANIFEST)
      return corrupt("the manifest lists '{}', which is not {}", name,
                     name == LLMC_ENTRY_MANIFEST ? "for it to list" : "in the archive");
  for (const Archive::Entry &entry : archive.entries())
    if (entry.name != LLMC_ENTRY_MANIFEST)
      LLMC_TRY(checkEntry(entry, /*hash=*/entry.name != LLMC_ENTRY_WEIGHTS));

  if (const Archive::Entry *weights = archive.find(LLMC_ENTRY_WEIGHTS))
    weightBytes = weights->bytes;
  const Archive::Entry *program = archive.find(LLMC_ENTRY_PROGRAM);
  if (!program)
    return corrupt("the archive has no {}", LLMC_ENTRY_PROGRAM);
  LLMC_TRY_ASSIGN(checkedProgram, Program::load(program->bytes, weightBytes.size()));
  return Status::ok();
}

Status BundleReader::checkEntry(const Archive::Entry &entry, bool hash) const {
  auto described = parsedManifest.entries.find(entry.name);
  if (described == parsedManifest.entries.end())
    return corrupt("the archive has an entry '{}' that the manifest does not list", entry.name);
  if (entry.bytes.size() != described->second.size)
    return corrupt("entry '{}' has {} bytes, but {} according to the manifest", entry.name,
                   entry.bytes.size(), described->second.size);
  if (entry.offset % requiredAlignment(entry.name) != 0)
    return corrupt("entry '{}' starts at {}, not at a multiple of {}: was the bundle repacked?",
                   entry.name, entry.offset, requiredAlignment(entry.name));
  if (!hash)
    return Status::ok();
  std::optional<Sha256Digest> digest = sha256(entry.bytes);
  if (!digest)
    return Status::error(Code::Unavailable, "libcrypto cannot compute SHA-256");
  if (*digest != described->second.sha256)
    return corrupt("entry '{}' is damaged: its SHA-256 is {}, but {} according to the manifest",
                   entry.name, toHex(*digest), toHex(described->second.sha256));
  return Status::ok();
}

Status BundleReader::verify() const {
  if (const Archive::Entry *weights = archive.find(LLMC_ENTRY_WEIGHTS))
    if (Status status = checkEntry(*weights, /*hash=*/true); !status.isOk())
      return filePath.empty() ? status : status.inContext("'" + filePath + "'");
  return Status::ok();
}

} // namespace llmc
