// SPDX-License-Identifier: Apache-2.0
//
// Accepts what ArchiveWriter writes and nothing wider: no comments, no second
// directory to be found by searching, and local headers that say the same as
// the directory. So every tool that opens a bundle sees the same entries.
#include "runtime/bundle/Archive.h"

#include "runtime/abi/EntryName.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>

namespace llmc {
namespace {

constexpr uint64_t kEndSize = 22, kZip64EndSize = 56, kZip64LocatorSize = 20;
constexpr uint64_t kCentralSize = 46, kLocalSize = 30;
constexpr uint32_t kZip64Mark = 0xFFFFFFFFu;
constexpr uint16_t kZip64Field = 0x0001;
/// Version needed to name length: the same 24 bytes in both kinds of header.
constexpr uint64_t kSharedSize = 24, kSharedInCentral = 6, kSharedInLocal = 4;

template <typename... Args> Status corrupt(fmt::format_string<Args...> text, Args &&...args) {
  return Status::error(Code::Corrupt, text, std::forward<Args>(args)...);
}

/// Little-endian fields at offsets that the caller has checked.
class Fields {
public:
  Fields(std::span<const std::byte> bytes, uint64_t offset) : at(bytes.data() + offset) {}
  uint16_t u16(uint64_t offset) const { return static_cast<uint16_t>(read(offset, 2)); }
  uint32_t u32(uint64_t offset) const { return static_cast<uint32_t>(read(offset, 4)); }
  uint64_t u64(uint64_t offset) const { return read(offset, 8); }
  const std::byte *bytes(uint64_t offset) const { return at + offset; }

private:
  uint64_t read(uint64_t offset, int size) const {
    uint64_t value = 0;
    for (int i = size; i-- > 0;)
      value = value << 8 | std::to_integer<uint64_t>(at[offset + i]);
    return value;
  }
  const std::byte *at;
};

struct Directory {
  uint64_t offset;
  uint64_t size;
  uint64_t count;
};

Result<Directory> findDirectory(std::span<const std::byte> file) {
  if (file.size() < kEndSize)
    return corrupt("the file has {} bytes, too few for a bundle", file.size());
  uint64_t end = file.size() - kEndSize;
  Fields fields(file, end);
  if (fields.u32(0) != 0x06054B50 || fields.u16(20) != 0)
    return corrupt("no archive directory at the end of the file: it is truncated, has something "
                   "appended, or is not a bundle");
  if (fields.u32(4) != 0 || fields.u16(8) != fields.u16(10))
    return corrupt("the archive spans several disks");
  Directory directory{fields.u32(16), fields.u32(12), fields.u16(10)};
  if (directory.offset == kZip64Mark || directory.size == kZip64Mark) {
    if (end < kZip64LocatorSize + kZip64EndSize)
      return corrupt("the archive's ZIP64 record lies before the file's start");
    uint64_t locatorAt = end - kZip64LocatorSize;
    uint64_t recordAt = locatorAt - kZip64EndSize;
    Fields locator(file, locatorAt), record(file, recordAt);
    if (locator.u32(0) != 0x07064B50 || locator.u32(4) != 0 || locator.u64(8) != recordAt ||
        locator.u32(16) != 1 || record.u32(0) != 0x06064B50 || record.u64(4) != 44 ||
        record.u64(16) != 0 || record.u64(24) != directory.count ||
        record.u64(32) != directory.count)
      return corrupt("the archive's ZIP64 record is damaged");
    directory.size = record.u64(40);
    directory.offset = record.u64(48);
    end = recordAt;
  }
  if (directory.offset > end || directory.size != end - directory.offset)
    return corrupt("the archive's directory (offset {}, {} bytes) does not end at {}, where its "
                   "end record begins",
                   directory.offset, directory.size, end);
  if (directory.count > LLMC_MAX_ARCHIVE_ENTRIES)
    return corrupt("the archive has {} entries; at most {} are allowed", directory.count,
                   LLMC_MAX_ARCHIVE_ENTRIES);
  return directory;
}

/// The content of an entry's ZIP64 field; nothing when there is none or the fields are malformed.
std::optional<std::span<const std::byte>> findZip64Field(std::span<const std::byte> extra) {
  while (extra.size() >= 4) {
    Fields field(extra, 0);
    uint64_t size = field.u16(2);
    if (size > extra.size() - 4)
      return std::nullopt;
    if (field.u16(0) == kZip64Field)
      return extra.subspan(4, size);
    extra = extra.subspan(4 + size);
  }
  return std::nullopt;
}

/// What the directory says of one entry.
struct Central {
  std::string_view name;
  uint64_t size;
  uint64_t header; ///< offset of the local header
  uint32_t crc;
};

/// Reads the directory's record at `at` and moves `at` past it.
Result<Central> readCentral(std::span<const std::byte> file, uint64_t end, uint64_t &at) {
  if (end - at < kCentralSize)
    return corrupt("the archive's directory ends within a record");
  Fields fields(file, at);
  if (fields.u32(0) != 0x02014B50)
    return corrupt("the archive's directory has no record at {}", at);
  uint64_t nameSize = fields.u16(28), extraSize = fields.u16(30);
  if (nameSize + extraSize > end - at - kCentralSize)
    return corrupt("the archive's directory ends within a record");
  std::string_view name(reinterpret_cast<const char *>(fields.bytes(kCentralSize)), nameSize);
  if (!llmc_is_entry_name(name.data(), name.size()))
    return corrupt("the archive's entry at {} has a name that is not a plain relative path", at);
  if (fields.u16(8) != 0 || fields.u16(10) != 0)
    return corrupt("entry '{}' is compressed or encrypted; bundles store entries as they are",
                   name);
  if (fields.u16(32) != 0 || fields.u16(34) != 0)
    return corrupt("entry '{}' has a comment or lies on another disk", name);
  if (fields.u32(20) != fields.u32(24))
    return corrupt("entry '{}' has two different sizes: {} and {}", name, fields.u32(20),
                   fields.u32(24));
  Central central{name, fields.u32(20), fields.u32(42), fields.u32(16)};
  uint64_t wanted = (central.size == kZip64Mark ? 16 : 0) + (central.header == kZip64Mark ? 8 : 0);
  if (wanted > 0) {
    auto field = findZip64Field(file.subspan(at + kCentralSize + nameSize, extraSize));
    if (!field || field->size() != wanted)
      return corrupt("entry '{}' lacks its 64-bit sizes", name);
    Fields wide(*field, 0);
    if (central.header == kZip64Mark)
      central.header = wide.u64(wanted - 8);
    if (central.size == kZip64Mark) {
      central.size = wide.u64(0);
      if (wide.u64(8) != central.size)
        return corrupt("entry '{}' has two different sizes: {} and {}", name, central.size,
                       wide.u64(8));
    }
  }
  at += kCentralSize + nameSize + extraSize;
  return central;
}

/// Where the data begins, after a check that the local header agrees with the directory's `record`.
Result<uint64_t> findData(std::span<const std::byte> file, uint64_t directory,
                          const Central &central, Fields record) {
  std::string_view name = central.name;
  if (central.header > directory || directory - central.header < kLocalSize + name.size())
    return corrupt("entry '{}' begins at {}, outside of the file's data", name, central.header);
  Fields local(file, central.header);
  if (local.u32(0) != 0x04034B50 ||
      memcmp(local.bytes(kSharedInLocal), record.bytes(kSharedInCentral), kSharedSize) != 0 ||
      memcmp(local.bytes(kLocalSize), name.data(), name.size()) != 0)
    return corrupt("entry '{}': its header at {} contradicts the archive's directory", name,
                   central.header);
  uint64_t extraSize = local.u16(28);
  uint64_t data = central.header + kLocalSize + name.size() + extraSize;
  if (data > directory || central.size > directory - data)
    return corrupt("entry '{}' ({} bytes at {}) runs past the file's data, which ends at {}", name,
                   central.size, data, directory);
  if (record.u32(20) == kZip64Mark) {
    auto field = findZip64Field(file.subspan(data - extraSize, extraSize));
    if (!field || field->size() != 16 || Fields(*field, 0).u64(0) != central.size ||
        Fields(*field, 0).u64(8) != central.size)
      return corrupt("entry '{}': its header at {} contradicts the archive's directory", name,
                     central.header);
  }
  return data;
}

} // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0);
      table[i] = value;
    }
    return table;
  }();
  uint32_t state = 0xFFFFFFFFu;
  for (std::byte byte : bytes)
    state = (state >> 8) ^ kTable[(state ^ std::to_integer<uint32_t>(byte)) & 0xFF];
  return ~state;
}

Result<Archive> Archive::parse(std::span<const std::byte> file) {
  LLMC_TRY_ASSIGN(Directory directory, findDirectory(file));
  struct Extent {
    uint64_t begin, end;
    std::string_view name;
  };
  Archive archive;
  std::vector<Extent> extents;
  std::unordered_set<std::string_view> names;
  uint64_t end = directory.offset + directory.size;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    Fields record(file, at);
    LLMC_TRY_ASSIGN(Central central, readCentral(file, end, at));
    LLMC_TRY_ASSIGN(uint64_t data, findData(file, directory.offset, central, record));
    if (!names.insert(central.name).second)
      return corrupt("the archive has two entries named '{}'", central.name);
    extents.push_back({central.header, data + central.size, central.name});
    archive.list.push_back({central.name, data, central.crc, file.subspan(data, central.size)});
  }
  if (at != end)
    return corrupt("the archive's directory has {} bytes after its last record", end - at);

  std::sort(extents.begin(), extents.end(),
            [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      return corrupt("entries '{}' and '{}' overlap", extents[i - 1].name, extents[i].name);
  return archive;
}

const Archive::Entry *Archive::find(std::string_view name) const {
  auto found = std::find_if(list.begin(), list.end(),
                            [&](const Entry &entry) { return entry.name == name; });
  return found == list.end() ? nullptr : &*found;
}

} // namespace llmc
