// SPDX-License-Identifier: Apache-2.0
//
// Local headers carry final sizes and checksums (no data descriptors), so they
// are written when their entry ends; room for them, with a ZIP64 field in case
// the entry grows past 4 GiB, is kept when it begins. What remains of the room
// is an alignment field (0xD935, as APK tools write it). A field holds less
// than 64 KiB: larger distances are zero bytes before the local header.
#include "compiler/bundle/ArchiveWriter.h"

#include "compiler/bundle/AtomicFile.h"
#include "compiler/bundle/Crc32.h"
#include "runtime/abi/EntryName.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <unordered_set>
#include <vector>

namespace llmc {
namespace {

constexpr uint64_t kLocalHeaderSize = 30;
constexpr uint64_t kZip64LocalField = 4 + 16;
constexpr uint64_t kMinAlignmentField = 4 + 2;
constexpr uint64_t kMinExtra = kZip64LocalField + kMinAlignmentField;
constexpr uint64_t kMaxExtra = 0xFFFF;
constexpr uint32_t kZip64Mark = 0xFFFFFFFFu;
constexpr uint16_t kDosDate = 1 << 5 | 1; // 1980-01-01, the first day there is; time 0
constexpr size_t kBufferSize = 1 << 20;
/// Writing to the disk starts after so many bytes rather than all at the end, in commit().
constexpr uint64_t kWritebackStep = 64 << 20;

/// Little-endian bytes of a header.
struct Bytes {
  std::string data;
  void add(uint64_t value, int size) {
    for (int i = 0; i < size; ++i)
      data.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  }
  void add16(uint64_t value) { add(value, 2); }
  void add32(uint64_t value) { add(value, 4); }
  void add64(uint64_t value) { add(value, 8); }
};

bool isLarge(uint64_t value) { return value >= kZip64Mark; }
uint64_t capped(uint64_t value) { return isLarge(value) ? kZip64Mark : value; }

struct Header {
  std::string name;
  uint64_t offset = 0; ///< of the local header
  uint64_t size = 0;
  uint32_t crc = 0;

  uint16_t versionNeeded() const { return isLarge(size) || isLarge(offset) ? 45 : 10; }
};

/// Version needed to checksum and sizes: the part that local and central headers share.
void addSharedFields(Bytes &out, const Header &header) {
  out.add16(header.versionNeeded());
  out.add16(0); // flags
  out.add16(0); // method: stored
  out.add16(0); // time
  out.add16(kDosDate);
  out.add32(header.crc);
  out.add32(capped(header.size));
  out.add32(capped(header.size));
  out.add16(header.name.size());
}

Bytes localHeader(const Header &header, uint64_t alignment, uint64_t extraSize) {
  Bytes out;
  out.add32(0x04034B50);
  addSharedFields(out, header);
  out.add16(extraSize);
  out.data += header.name;
  if (isLarge(header.size)) {
    out.add16(0x0001);
    out.add16(16);
    out.add64(header.size);
    out.add64(header.size);
    extraSize -= kZip64LocalField;
  }
  out.add16(0xD935);
  out.add16(extraSize - 4);
  out.add16(alignment > 0x8000 ? 0 : alignment); // the field's own limit; 0 = not said
  out.data.append(extraSize - kMinAlignmentField, '\0');
  return out;
}

void addCentralHeader(Bytes &out, const Header &header) {
  Bytes extra;
  if (isLarge(header.size)) {
    extra.add64(header.size);
    extra.add64(header.size);
  }
  if (isLarge(header.offset))
    extra.add64(header.offset);
  out.add32(0x02014B50);
  out.add16(45); // made by: version 4.5, host 0, whose attributes are 0
  addSharedFields(out, header);
  out.add16(extra.data.empty() ? 0 : 4 + extra.data.size());
  out.add16(0); // comment
  out.add16(0); // disk
  out.add16(0); // internal attributes
  out.add32(0); // external attributes
  out.add32(capped(header.offset));
  out.data += header.name;
  if (!extra.data.empty()) {
    out.add16(0x0001);
    out.add16(extra.data.size());
    out.data += extra.data;
  }
}

void addDirectoryEnd(Bytes &out, uint64_t count, uint64_t offset, uint64_t size) {
  if (isLarge(offset) || isLarge(size)) {
    uint64_t record = offset + size;
    out.add32(0x06064B50);
    out.add64(44); // bytes of this record that follow
    out.add16(45);
    out.add16(45);
    out.add32(0);
    out.add32(0);
    out.add64(count);
    out.add64(count);
    out.add64(size);
    out.add64(offset);
    out.add32(0x07064B50); // its locator
    out.add32(0);
    out.add64(record);
    out.add32(1);
  }
  out.add32(0x06054B50);
  out.add16(0);
  out.add16(0);
  out.add16(count);
  out.add16(count);
  out.add32(capped(size));
  out.add32(capped(offset));
  out.add16(0); // comment
}

} // namespace

struct ArchiveWriter::State {
  std::string path;
  std::string error;
  std::unique_ptr<AtomicFile> file; ///< null once it is complete
  std::vector<Header> entries;
  std::unordered_set<std::string> names;
  uint64_t end = 0; ///< of what was appended so far, buffered bytes included
  std::string buffer;
  uint64_t writebackBegin = 0;

  // The open entry.
  bool inEntry = false;
  Header header;
  uint64_t alignment = 0;
  uint64_t extraSize = 0;
  uint64_t dataOffset = 0;
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash{EVP_MD_CTX_new(), EVP_MD_CTX_free};

  bool fail(const std::string &message) {
    if (error.empty())
      error = message;
    return false;
  }
  bool failSystem(int code) {
    return fail("cannot write '" + path + "': " + std::generic_category().message(code));
  }
  bool writeAt(const char *bytes, size_t size, uint64_t offset);
  bool flush();
  bool put(const char *bytes, size_t size);
  bool digest(const void *bytes, size_t size);
};

bool ArchiveWriter::State::writeAt(const char *bytes, size_t size, uint64_t offset) {
  while (size > 0) {
    ssize_t done = pwrite(file->descriptor(), bytes, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return failSystem(done < 0 ? errno : ENOSPC);
    bytes += done;
    size -= static_cast<size_t>(done);
    offset += static_cast<uint64_t>(done);
  }
  return true;
}

bool ArchiveWriter::State::flush() {
  if (!writeAt(buffer.data(), buffer.size(), end - buffer.size()))
    return false;
  buffer.clear();
  if (end - writebackBegin >= kWritebackStep) {
    // Only advice: a filesystem without it loses nothing but time.
    (void)sync_file_range(file->descriptor(), static_cast<off_t>(writebackBegin),
                          static_cast<off_t>(end - writebackBegin), SYNC_FILE_RANGE_WRITE);
    writebackBegin = end;
  }
  return true;
}

bool ArchiveWriter::State::put(const char *bytes, size_t size) {
  if (buffer.size() + size > kBufferSize && !flush())
    return false;
  if (size < kBufferSize) {
    buffer.append(bytes, size);
    end += size;
    return true;
  }
  if (!writeAt(bytes, size, end))
    return false;
  end += size;
  return flush();
}

bool ArchiveWriter::State::digest(const void *bytes, size_t size) {
  header.crc = extendCrc32(header.crc, bytes, size);
  header.size += size;
  return EVP_DigestUpdate(hash.get(), bytes, size) == 1 || fail("libcrypto cannot hash");
}

ArchiveWriter::ArchiveWriter(std::unique_ptr<State> state) : state(std::move(state)) {}
ArchiveWriter::~ArchiveWriter() = default;

const std::string &ArchiveWriter::error() const { return state->error; }
uint64_t ArchiveWriter::entrySize() const { return state->inEntry ? state->header.size : 0; }

std::unique_ptr<ArchiveWriter> ArchiveWriter::open(const std::string &path, std::string &error) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->file = AtomicFile::create(path, error);
  if (!state->file)
    return nullptr;
  if (!state->hash) {
    error = "libcrypto has no memory";
    return nullptr;
  }
  state->buffer.reserve(kBufferSize);
  return std::unique_ptr<ArchiveWriter>(new ArchiveWriter(std::move(state)));
}

bool ArchiveWriter::beginEntry(std::string_view name, uint64_t alignment) {
  State &s = *state;
  if (!s.error.empty())
    return false;
  std::string quoted = "archive entry '" + std::string(name) + "'";
  if (!s.file)
    return s.fail(quoted + " begins after the archive was closed");
  if (s.inEntry)
    return s.fail(quoted + " begins before '" + s.header.name + "' ended");
  if (!llmc_is_entry_name(name.data(), name.size()))
    return s.fail(quoted + " has a name that is not a plain relative path");
  if (!s.names.emplace(name).second)
    return s.fail(quoted + " exists already");
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > uint64_t(1) << 40)
    return s.fail(quoted + " asks for an alignment that is no power of two");
  if (s.entries.size() >= LLMC_MAX_ARCHIVE_ENTRIES)
    return s.fail(quoted + " is one more than the archive may have (" +
                  std::to_string(LLMC_MAX_ARCHIVE_ENTRIES) + ")");
  if (!s.flush())
    return false;
  s.inEntry = true;
  s.header = Header{std::string(name), s.end, 0, 0};
  s.alignment = alignment;
  uint64_t earliest = s.end + kLocalHeaderSize + name.size();
  s.dataOffset = (earliest + kMinExtra + alignment - 1) & ~(alignment - 1);
  s.extraSize = s.dataOffset - earliest;
  if (s.extraSize > kMaxExtra) {
    s.header.offset += s.extraSize - kMinExtra;
    s.extraSize = kMinExtra;
  }
  s.end = s.dataOffset;
  if (EVP_DigestInit_ex(s.hash.get(), EVP_sha256(), nullptr) != 1)
    return s.fail("libcrypto has no SHA-256");
  return true;
}

bool ArchiveWriter::append(const void *bytes, size_t size) {
  State &s = *state;
  if (!s.error.empty())
    return false;
  if (!s.inEntry)
    return s.fail("data was appended outside of an archive entry");
  if (size == 0)
    return true;
  return s.digest(bytes, size) && s.put(static_cast<const char *>(bytes), size);
}

/// Unwritten parts of a new file read as zeros, and cost no disk where files may have holes.
bool ArchiveWriter::appendZeros(uint64_t count) {
  static constexpr char kZeros[1 << 16] = {};
  State &s = *state;
  if (!s.error.empty())
    return false;
  if (!s.inEntry)
    return s.fail("data was appended outside of an archive entry");
  if (count < kBufferSize) {
    for (; count > 0; count -= std::min<uint64_t>(count, sizeof kZeros))
      if (!append(kZeros, std::min<uint64_t>(count, sizeof kZeros)))
        return false;
    return true;
  }
  if (!s.flush())
    return false;
  s.end += count;
  for (; count > 0; count -= std::min<uint64_t>(count, sizeof kZeros))
    if (!s.digest(kZeros, std::min<uint64_t>(count, sizeof kZeros)))
      return false;
  return true;
}

std::optional<ArchiveEntry> ArchiveWriter::endEntry() {
  State &s = *state;
  if (!s.error.empty())
    return std::nullopt;
  if (!s.inEntry) {
    s.fail("an archive entry ended that had not begun");
    return std::nullopt;
  }
  unsigned char digest[32];
  if (EVP_DigestFinal_ex(s.hash.get(), digest, nullptr) != 1) {
    s.fail("libcrypto cannot hash");
    return std::nullopt;
  }
  Bytes local = localHeader(s.header, s.alignment, s.extraSize);
  if (!s.flush() || !s.writeAt(local.data.data(), local.data.size(), s.header.offset))
    return std::nullopt;
  s.inEntry = false;
  s.entries.push_back(s.header);

  ArchiveEntry result{s.header.name, s.dataOffset, s.header.size, {}};
  for (unsigned char byte : digest) {
    result.sha256.push_back("0123456789abcdef"[byte >> 4]);
    result.sha256.push_back("0123456789abcdef"[byte & 15]);
  }
  return result;
}

bool ArchiveWriter::commit() {
  State &s = *state;
  if (!s.error.empty())
    return false;
  if (!s.file)
    return s.fail("the archive was closed twice");
  if (s.inEntry)
    return s.fail("the archive was closed before '" + s.header.name + "' ended");
  uint64_t offset = s.end;
  Bytes directory;
  for (const Header &entry : s.entries)
    addCentralHeader(directory, entry);
  addDirectoryEnd(directory, s.entries.size(), offset, directory.data.size());
  std::string error;
  if (!s.put(directory.data.data(), directory.data.size()) || !s.flush())
    return false;
  if (!s.file->commit(error))
    return s.fail(error);
  s.file.reset();
  return true;
}

} // namespace llmc
