// SPDX-License-Identifier: Apache-2.0
//
// ZIP structures, as PKWARE's APPNOTE numbers them. Sizes and offsets come from
// the central directory and are checked against the file before use.
#include "tools/cli/NpzFile.h"

#include "tools/cli/NpyFile.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace llmc::cli {

namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kZip64End = 0x06064b50;
constexpr uint32_t kZip64Locator = 0x07064b50;
constexpr uint64_t kEndSize = 22;
constexpr uint64_t kLocalHeaderSize = 30;
constexpr uint64_t kCentralHeaderSize = 46;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kZip64Extra = 1;
/// Deflate never packs better than this, so a larger claim is a lie.
constexpr uint64_t kBestRatio = 1032;

uint64_t little(const std::byte *at, unsigned size) {
  uint64_t value = 0;
  std::memcpy(&value, at, size);
  return value;
}

template <typename T> void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

uint32_t crcOf(uint32_t crc, const void *data, size_t size) {
  if (size == 0) // whose data may be null, which zlib takes for "start anew"
    return crc;
  return uint32_t(crc32_z(crc, static_cast<const Bytef *>(data), size));
}

Status cutOff(const char *where) {
  return Status::error(Code::Corrupt, "the .npz archive is cut off or damaged: {}", where);
}

} // namespace

Result<NpzReader> NpzReader::open(Bytes bytes) {
  NpzReader reader(std::move(bytes));
  LLMC_TRY(reader.readDirectory());
  return reader;
}

Status NpzReader::readDirectory() {
  const uint64_t fileSize = bytes.size();
  const std::byte *base = bytes.data();
  if (fileSize < kEndSize)
    return cutOff("it has no end record");
  // The end record may be followed by a comment of up to 65,535 bytes.
  uint64_t lowest = fileSize - std::min<uint64_t>(fileSize, kEndSize + 65535);
  uint64_t end = fileSize - kEndSize;
  while (little(base + end, 4) != kEnd) {
    if (end == lowest)
      return cutOff("it has no end record");
    --end;
  }
  uint64_t count = little(base + end + 10, 2);
  uint64_t size = little(base + end + 12, 4);
  uint64_t offset = little(base + end + 16, 4);
  if (count == 0xFFFF || size == 0xFFFFFFFF || offset == 0xFFFFFFFF) {
    if (end < 20 || little(base + end - 20, 4) != kZip64Locator)
      return cutOff("its ZIP64 locator is missing");
    uint64_t at = little(base + end - 12, 8);
    if (fileSize < 56 || at > fileSize - 56 || little(base + at, 4) != kZip64End)
      return cutOff("its ZIP64 end record is missing");
    count = little(base + at + 32, 8);
    size = little(base + at + 40, 8);
    offset = little(base + at + 48, 8);
  }
  if (offset > fileSize || size > fileSize - offset || count > size / kCentralHeaderSize)
    return cutOff("its directory lies outside of the file");

  std::span<const std::byte> rest(base + offset, size);
  for (uint64_t i = 0; i < count; ++i) {
    if (rest.size() < kCentralHeaderSize || little(rest.data(), 4) != kCentralHeader)
      return cutOff("a directory entry is missing");
    uint64_t nameSize = little(rest.data() + 28, 2);
    uint64_t extraSize = little(rest.data() + 30, 2);
    uint64_t total = kCentralHeaderSize + nameSize + extraSize + little(rest.data() + 32, 2);
    if (total > rest.size())
      return cutOff("a directory entry is missing");
    Member member;
    member.method = little(rest.data() + 10, 2);
    member.crc = little(rest.data() + 16, 4);
    member.packedSize = little(rest.data() + 20, 4);
    member.size = little(rest.data() + 24, 4);
    member.headerOffset = little(rest.data() + 42, 4);
    std::string name(reinterpret_cast<const char *>(rest.data()) + kCentralHeaderSize, nameSize);
    // The ZIP64 field holds, in this order, those of the three values that are all ones above.
    auto extra = rest.subspan(kCentralHeaderSize + nameSize, extraSize);
    while (extra.size() >= 4) {
      uint64_t id = little(extra.data(), 2);
      uint64_t fieldSize = little(extra.data() + 2, 2);
      if (fieldSize > extra.size() - 4)
        break;
      auto field = extra.subspan(4, fieldSize);
      for (uint64_t *value : {&member.size, &member.packedSize, &member.headerOffset}) {
        if (id == kZip64Extra && *value == 0xFFFFFFFF && field.size() >= 8) {
          *value = little(field.data(), 8);
          field = field.subspan(8);
        }
      }
      extra = extra.subspan(4 + fieldSize);
    }
    bool encrypted = little(rest.data() + 8, 2) & 1;
    if (encrypted)
      return Status::error(Code::InvalidArgument, "the .npz archive is encrypted");
    if (name.ends_with(".npy"))
      members[name.substr(0, name.size() - 4)] = member; // the last of a name counts, as in NumPy
    rest = rest.subspan(total);
  }
  return Status::ok();
}

std::vector<std::string> NpzReader::names() const {
  std::vector<std::string> result;
  for (const auto &[name, member] : members)
    result.push_back(name);
  return result;
}

Result<Bytes> NpzReader::unpack(const Member &member) const {
  const std::byte *base = bytes.data();
  uint64_t fileSize = bytes.size();
  if (fileSize < kLocalHeaderSize || member.headerOffset > fileSize - kLocalHeaderSize ||
      little(base + member.headerOffset, 4) != kLocalHeader)
    return cutOff("an entry lies outside of the file");
  uint64_t begin = member.headerOffset + kLocalHeaderSize +
                   little(base + member.headerOffset + 26, 2) +
                   little(base + member.headerOffset + 28, 2);
  if (begin > fileSize || member.packedSize > fileSize - begin)
    return cutOff("an entry reaches beyond the end of the file");
  const std::byte *packed = base + begin;
  Bytes data;
  if (member.method == kStored) {
    if (member.size != member.packedSize)
      return cutOff("a stored entry has two sizes");
    data.assign(packed, packed + member.size);
  } else if (member.method == kDeflated) {
    if (member.size / kBestRatio > member.packedSize)
      return cutOff("an entry claims more bytes than it can hold");
    data.resize(member.size);
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
      return Status::error(Code::Unavailable, "zlib can't be started: out of memory");
    // zlib counts in 32 bits, so long entries go through in pieces.
    constexpr uint64_t kPiece = uint64_t(1) << 30;
    uint64_t in = 0, out = 0;
    int state = Z_OK;
    while (state == Z_OK) {
      stream.next_in = const_cast<Bytef *>(reinterpret_cast<const Bytef *>(packed + in));
      stream.avail_in = uInt(std::min(kPiece, member.packedSize - in));
      // Past the end goes a byte of scrap room, so that an entry that is too long shows.
      Bytef scrap;
      bool full = out == member.size;
      stream.next_out = full ? &scrap : reinterpret_cast<Bytef *>(data.data() + out);
      stream.avail_out = full ? 1 : uInt(std::min(kPiece, member.size - out));
      uint64_t inBefore = stream.avail_in, outBefore = stream.avail_out;
      state = inflate(&stream, Z_NO_FLUSH);
      in += inBefore - stream.avail_in;
      out += outBefore - stream.avail_out;
      if (out > member.size)
        break;
    }
    inflateEnd(&stream);
    if (state != Z_STREAM_END || out != member.size)
      return cutOff("an entry can't be unpacked");
  } else {
    return Status::error(Code::InvalidArgument,
                         "the .npz archive uses compression method {}; only stored and deflated "
                         "entries are supported",
                         member.method);
  }
  if (crcOf(0, data.data(), data.size()) != member.crc)
    return cutOff("an entry's checksum is wrong");
  return data;
}

Result<OwnedTensor> NpzReader::read(const std::string &name) const {
  auto found = members.find(name);
  if (found == members.end())
    return Status::error(Code::NotFound, "the .npz archive holds no array '{}'", name);
  auto data = unpack(found->second);
  if (!data.isOk())
    return data.status().inContext(fmt::format("array '{}'", name));
  auto tensor = parseNpy(*data);
  if (!tensor.isOk())
    return tensor.status().inContext(fmt::format("array '{}'", name));
  tensor->name = name;
  return tensor;
}

Result<NpzWriter> NpzWriter::create(const std::string &path) {
  NpzWriter writer;
  writer.path = path;
  writer.temporaryPath = fmt::format("{}.tmp{}", path, getpid());
  writer.file.reset(std::fopen(writer.temporaryPath.c_str(), "wbx"));
  if (!writer.file)
    return Status::error(Code::Unavailable, "can't write '{}': {}", writer.temporaryPath,
                         std::strerror(errno));
  return writer;
}

NpzWriter::~NpzWriter() {
  if (file)
    std::remove(temporaryPath.c_str());
}

Status NpzWriter::write(const void *data, size_t size) {
  if (size > 0 && std::fwrite(data, 1, size, file.get()) != size)
    return Status::error(Code::Unavailable, "can't write '{}': {}", path, std::strerror(errno));
  position += size;
  return Status::ok();
}

Status NpzWriter::add(const OwnedTensor &tensor) {
  std::string npy = npyHeader(tensor);
  Entry entry;
  entry.name = tensor.name + ".npy";
  if (entry.name.size() > 0xFFFF)
    return Status::error(Code::InvalidArgument, "an output's name of {} bytes is too long for .npz",
                         tensor.name.size());
  entry.crc = crcOf(crcOf(0, npy.data(), npy.size()), tensor.data.data(), tensor.data.size());
  entry.size = npy.size() + tensor.data.size();
  entry.offset = position;

  std::string head;
  put<uint32_t>(head, kLocalHeader);
  put<uint16_t>(head, 45);     // needs ZIP64
  put<uint16_t>(head, 0x0800); // names are UTF-8
  put<uint16_t>(head, kStored);
  put<uint16_t>(head, 0);      // 00:00:00
  put<uint16_t>(head, 0x0021); // 1980-01-01: the same tensors give the same bytes
  put<uint32_t>(head, entry.crc);
  put<uint32_t>(head, 0xFFFFFFFF);
  put<uint32_t>(head, 0xFFFFFFFF);
  put<uint16_t>(head, uint16_t(entry.name.size()));
  put<uint16_t>(head, 20);
  head += entry.name;
  put<uint16_t>(head, kZip64Extra);
  put<uint16_t>(head, 16);
  put<uint64_t>(head, entry.size);
  put<uint64_t>(head, entry.size);
  LLMC_TRY(write(head.data(), head.size()));
  LLMC_TRY(write(npy.data(), npy.size()));
  LLMC_TRY(write(tensor.data.data(), tensor.data.size()));
  entries.push_back(std::move(entry));
  return Status::ok();
}

Status NpzWriter::finish() {
  std::string tail;
  for (const Entry &entry : entries) {
    put<uint32_t>(tail, kCentralHeader);
    put<uint16_t>(tail, 45);
    put<uint16_t>(tail, 45);
    put<uint16_t>(tail, 0x0800);
    put<uint16_t>(tail, kStored);
    put<uint16_t>(tail, 0);
    put<uint16_t>(tail, 0x0021);
    put<uint32_t>(tail, entry.crc);
    put<uint32_t>(tail, 0xFFFFFFFF);
    put<uint32_t>(tail, 0xFFFFFFFF);
    put<uint16_t>(tail, uint16_t(entry.name.size()));
    put<uint16_t>(tail, 28);
    put<uint16_t>(tail, 0); // comment
    put<uint16_t>(tail, 0); // disk
    put<uint16_t>(tail, 0);
    put<uint32_t>(tail, 0);
    put<uint32_t>(tail, 0xFFFFFFFF);
    tail += entry.name;
    put<uint16_t>(tail, kZip64Extra);
    put<uint16_t>(tail, 24);
    put<uint64_t>(tail, entry.size);
    put<uint64_t>(tail, entry.size);
    put<uint64_t>(tail, entry.offset);
  }
  uint64_t directorySize = tail.size();
  uint64_t zip64End = position + directorySize;
  put<uint32_t>(tail, kZip64End);
  put<uint64_t>(tail, 44);
  put<uint16_t>(tail, 45);
  put<uint16_t>(tail, 45);
  put<uint32_t>(tail, 0);
  put<uint32_t>(tail, 0);
  put<uint64_t>(tail, entries.size());
  put<uint64_t>(tail, entries.size());
  put<uint64_t>(tail, directorySize);
  put<uint64_t>(tail, position);
  put<uint32_t>(tail, kZip64Locator);
  put<uint32_t>(tail, 0);
  put<uint64_t>(tail, zip64End);
  put<uint32_t>(tail, 1);
  put<uint32_t>(tail, kEnd);
  put<uint32_t>(tail, 0);
  put<uint16_t>(tail, 0xFFFF);
  put<uint16_t>(tail, 0xFFFF);
  put<uint32_t>(tail, 0xFFFFFFFF);
  put<uint32_t>(tail, 0xFFFFFFFF);
  put<uint16_t>(tail, 0);
  LLMC_TRY(write(tail.data(), tail.size()));
  bool closed = std::fclose(file.release()) == 0;
  if (!closed || std::rename(temporaryPath.c_str(), path.c_str()) != 0) {
    Status failed =
        Status::error(Code::Unavailable, "can't write '{}': {}", path, std::strerror(errno));
    std::remove(temporaryPath.c_str());
    return failed;
  }
  return Status::ok();
}

} // namespace llmc::cli
