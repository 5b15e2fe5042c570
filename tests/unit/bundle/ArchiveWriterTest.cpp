// SPDX-License-Identifier: Apache-2.0
//
// What the writer writes, judged by Python's zipfile and hashlib, by unzip, and
// by the runtime's own reader.
#include "compiler/bundle/ArchiveWriter.h"
#include "compiler/bundle/Crc32.h"
#include "runtime/abi/BundleFormat.h"
#include "runtime/bundle/Archive.h"
#include "runtime/bundle/Sha256.h"
#include "tests/unit/bundle/Oracle.h"
#include "tests/unit/bundle/TestBundle.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <random>

namespace llmc {
namespace {

using test::readFile;
using test::runPython;
using test::TemporaryFolder;

std::string randomBytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char &byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

std::span<const std::byte> asBytes(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32, EqualsZlibAtEverySizeAndAddress) {
  std::string bytes = randomBytes(5000, 1);
  const auto *data = reinterpret_cast<const unsigned char *>(bytes.data());
  for (size_t size = 0; size < 700; ++size)
    for (size_t start : {0, 1, 7, 16}) {
      uint32_t initial = static_cast<uint32_t>(size * 2654435761u);
      ASSERT_EQ(extendCrc32(initial, data + start, size),
                ::crc32(initial, data + start, static_cast<uInt>(size)))
          << size << " at " << start;
    }
  EXPECT_EQ(extendCrc32(0, data, 5000), ::crc32(0, data, 5000));
  EXPECT_EQ(llmc::crc32(asBytes(bytes)), ::crc32(0, data, 5000));
  EXPECT_EQ(extendCrc32(extendCrc32(0, data, 1234), data + 1234, 5000 - 1234),
            ::crc32(0, data, 5000));
}

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(toHex(*sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(toHex(*sha256(asBytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(toHex(*sha256(asBytes(std::string(1000000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::string hex = toHex(*sha256(asBytes("abc")));
  EXPECT_EQ(toHex(*parseSha256(hex)), hex);
  EXPECT_FALSE(parseSha256(hex + "0"));
  EXPECT_FALSE(parseSha256(std::string(64, 'g')));
  EXPECT_FALSE(parseSha256(std::string(64, 'A')));
}

struct Wanted {
  std::string name;
  std::string bytes;
  uint64_t alignment;
};

std::vector<Wanted> mixedEntries() {
  std::vector<Wanted> entries;
  for (size_t size : {0, 1, 63, 64, 65, 5000, 1 << 20, 3000001})
    for (uint64_t alignment : {1, 64, 65536, 2097152})
      entries.push_back({"folder/size" + std::to_string(size) + "-" + std::to_string(alignment),
                         randomBytes(size, static_cast<unsigned>(size)), alignment});
  return entries;
}

/// Appends in pieces of `piece` bytes; empty, or the error.
std::string write(const std::string &path, const std::vector<Wanted> &entries, size_t piece,
                  std::vector<ArchiveEntry> *described = nullptr) {
  std::string error;
  auto writer = ArchiveWriter::open(path, error);
  if (!writer)
    return error;
  for (const Wanted &entry : entries) {
    if (!writer->beginEntry(entry.name, entry.alignment))
      return writer->error();
    for (size_t at = 0; at < entry.bytes.size(); at += piece)
      if (!writer->append(entry.bytes.data() + at, std::min(piece, entry.bytes.size() - at)))
        return writer->error();
    EXPECT_EQ(writer->entrySize(), entry.bytes.size());
    auto done = writer->endEntry();
    if (!done)
      return writer->error();
    if (described)
      described->push_back(*done);
  }
  return writer->commit() ? "" : writer->error();
}

TEST(ArchiveWriter, WritesWhatTheReaderReads) {
  TemporaryFolder folder;
  std::vector<Wanted> wanted = mixedEntries();
  std::vector<ArchiveEntry> described;
  ASSERT_EQ(write(folder.path("a.zip"), wanted, 1 << 16, &described), "");
  std::string file = readFile(folder.path("a.zip"));
  auto archive = Archive::parse(asBytes(file));
  ASSERT_TRUE(archive.isOk()) << archive.status().message();
  ASSERT_EQ(archive->entries().size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Archive::Entry &entry = archive->entries()[i];
    EXPECT_EQ(entry.name, wanted[i].name);
    EXPECT_EQ(entry.offset % wanted[i].alignment, 0u);
    EXPECT_EQ(entry.offset, described[i].offset);
    EXPECT_EQ(described[i].size, wanted[i].bytes.size());
    EXPECT_TRUE(std::ranges::equal(entry.bytes, asBytes(wanted[i].bytes)));
    EXPECT_EQ(entry.crc, llmc::crc32(entry.bytes));
    EXPECT_EQ(described[i].sha256, toHex(*sha256(asBytes(wanted[i].bytes))));
  }
}

TEST(ArchiveWriter, PythonReadsIt) {
  if (!test::hasCommand("python3"))
    GTEST_SKIP() << "python3 is not installed";
  TemporaryFolder folder;
  std::vector<ArchiveEntry> described;
  ASSERT_EQ(write(folder.path("a.zip"), mixedEntries(), 777, &described), "");
  auto result = runPython("import sys, zipfile, hashlib\n"
                          "z = zipfile.ZipFile(sys.argv[1])\n"
                          "assert z.testzip() is None\n"
                          "for i in z.infolist():\n"
                          "  assert i.compress_type == 0 and i.date_time == (1980,1,1,0,0,0), i\n"
                          "  print(i.filename, i.file_size, "
                          "hashlib.sha256(z.read(i)).hexdigest())\n",
                          folder.path("a.zip"));
  std::string expected;
  for (const ArchiveEntry &entry : described)
    expected += entry.name + " " + std::to_string(entry.size) + " " + entry.sha256 + "\n";
  EXPECT_EQ(result.output, expected);
  EXPECT_EQ(result.status, 0);
}

TEST(ArchiveWriter, UnzipTestsItWithoutWarnings) {
  if (!test::hasCommand("unzip"))
    GTEST_SKIP() << "unzip is not installed";
  TemporaryFolder folder;
  ASSERT_EQ(write(folder.path("a.zip"), mixedEntries(), 1 << 20), "");
  auto result = test::runCommand("unzip -t " + folder.path("a.zip"));
  EXPECT_EQ(result.status, 0) << result.output; // 1 would be a warning
  EXPECT_NE(result.output.find("No errors detected"), std::string::npos) << result.output;
}

TEST(ArchiveWriter, BytesDependOnTheCallsAlone) {
  TemporaryFolder first, second;
  ASSERT_EQ(write(first.path("a.zip"), mixedEntries(), 1 << 20), "");
  ASSERT_EQ(write(second.path("other.name"), mixedEntries(), 1000), "");
  EXPECT_TRUE(readFile(first.path("a.zip")) == readFile(second.path("other.name")));
}

TEST(ArchiveWriter, AlignsWhateverTheNamesLength) {
  TemporaryFolder folder;
  std::vector<Wanted> wanted;
  for (size_t length = 1; length <= LLMC_MAX_ENTRY_NAME; ++length)
    wanted.push_back({std::string(length, 'n'), "x", length % 2 ? 64u : 65536u});
  ASSERT_EQ(write(folder.path("a.zip"), wanted, 1), "");
  std::string file = readFile(folder.path("a.zip"));
  auto archive = Archive::parse(asBytes(file));
  ASSERT_TRUE(archive.isOk()) << archive.status().message();
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(archive->entries()[i].offset % wanted[i].alignment, 0u);
}

TEST(ArchiveWriter, WritesZip64WhenSizesNeedIt) {
  TemporaryFolder folder;
  std::string path = folder.path("big.zip"), error;
  auto writer = ArchiveWriter::open(path, error);
  ASSERT_TRUE(writer) << error;
  constexpr uint64_t kSize = 5ull << 30;
  ASSERT_TRUE(writer->beginEntry("small", 64) && writer->append("first") && writer->endEntry());
  ASSERT_TRUE(writer->beginEntry("weights.bin", LLMC_ALIGN_WEIGHTS));
  ASSERT_TRUE(writer->append("begin") && writer->appendZeros(kSize - 8) && writer->append("end"));
  auto big = writer->endEntry();
  ASSERT_TRUE(big);
  ASSERT_EQ(big->size, kSize);
  ASSERT_TRUE(writer->beginEntry("manifest.json", 64) && writer->append("{}") &&
              writer->endEntry() && writer->commit())
      << writer->error();

  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  size_t fileSize = static_cast<size_t>(lseek(file, 0, SEEK_END));
  void *memory = mmap(nullptr, fileSize, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  ASSERT_NE(memory, MAP_FAILED);
  auto archive = Archive::parse({static_cast<const std::byte *>(memory), fileSize});
  ASSERT_TRUE(archive.isOk()) << archive.status().message();
  EXPECT_EQ(archive->find("weights.bin")->bytes.size(), kSize);
  EXPECT_EQ(archive->find("weights.bin")->bytes[kSize - 1], std::byte('d'));
  EXPECT_EQ(archive->find("manifest.json")->bytes.size(), 2u);
  munmap(memory, fileSize);

  if (!test::hasCommand("python3"))
    GTEST_SKIP() << "python3 is not installed";
  auto result = runPython("import sys, zipfile, os\n"
                          "z = zipfile.ZipFile(sys.argv[1])\n"
                          "print([(i.filename, i.file_size) for i in z.infolist()])\n"
                          "print(z.read(\"small\"), z.read(\"manifest.json\"))\n"
                          "f = z.open(\"weights.bin\"); print(f.read(6))\n"
                          "print(os.stat(sys.argv[1]).st_blocks * 512 < 1 << 30)\n",
                          path);
  EXPECT_EQ(result.output, "[('small', 5), ('weights.bin', 5368709120), ('manifest.json', 2)]\n"
                           "b'first' b'{}'\nb'begin\\x00'\nTrue\n");
}

TEST(ArchiveWriter, RefusesWrongUse) {
  TemporaryFolder folder;
  auto check = [&](const char *message, const std::function<bool(ArchiveWriter &)> &use) {
    std::string error;
    auto writer = ArchiveWriter::open(folder.path("a.zip"), error);
    ASSERT_TRUE(writer) << error;
    EXPECT_FALSE(use(*writer)) << message;
    EXPECT_NE(writer->error().find(message), std::string::npos) << writer->error();
    EXPECT_FALSE(writer->commit()) << "a failed writer must not put its file in place";
  };
  for (const char *name : {"", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a b", "a\\b", "é"})
    check("plain relative path", [&](ArchiveWriter &w) { return w.beginEntry(name, 64); });
  check("plain relative path",
        [&](ArchiveWriter &w) { return w.beginEntry(std::string(256, 'a'), 64); });
  for (uint64_t alignment : {uint64_t(0), uint64_t(3), uint64_t(96), ~uint64_t(0)})
    check("no power of two", [&](ArchiveWriter &w) { return w.beginEntry("a", alignment); });
  check("begins before 'a' ended",
        [](ArchiveWriter &w) { return w.beginEntry("a", 64) && w.beginEntry("b", 64); });
  check("exists already", [](ArchiveWriter &w) {
    return w.beginEntry("a", 64) && w.endEntry() && w.beginEntry("a", 64);
  });
  check("outside of an archive entry", [](ArchiveWriter &w) { return w.append("x"); });
  check("outside of an archive entry", [](ArchiveWriter &w) { return w.appendZeros(1); });
  check("had not begun", [](ArchiveWriter &w) { return w.endEntry().has_value(); });
  check("before 'a' ended", [](ArchiveWriter &w) { return w.beginEntry("a", 64) && w.commit(); });
  check("one more than", [](ArchiveWriter &w) {
    for (unsigned i = 0; i < LLMC_MAX_ARCHIVE_ENTRIES; ++i)
      if (!w.beginEntry("e" + std::to_string(i), 1) || !w.endEntry())
        return false;
    return w.beginEntry("last", 1);
  });
  EXPECT_TRUE(folder.list().empty());
}

TEST(ArchiveWriter, EndsWithCommit) {
  TemporaryFolder folder;
  std::string error;
  auto writer = ArchiveWriter::open(folder.path("a.zip"), error);
  ASSERT_TRUE(writer && writer->commit());
  EXPECT_FALSE(writer->beginEntry("a", 64));
  EXPECT_FALSE(writer->commit());
  std::string file = readFile(folder.path("a.zip"));
  auto archive = Archive::parse(asBytes(file));
  ASSERT_TRUE(archive.isOk());
  EXPECT_TRUE(archive->entries().empty());
}

} // namespace
} // namespace llmc
