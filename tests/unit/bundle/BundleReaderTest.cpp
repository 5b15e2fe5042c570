// SPDX-License-Identifier: Apache-2.0
//
// Whole bundles: what opens, and each way in which one can be wrong.
#include "runtime/bundle/BundleReader.h"
#include "runtime/abi/BundleFormat.h"
#include "runtime/bundle/ProgramPrinter.h"
#include "tests/unit/bundle/Oracle.h"
#include "tests/unit/bundle/TestBundle.h"
#include "tests/unit/bundle/TestProgram.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

namespace llmc {
namespace {

using test::AlignedCopy;
using test::makeTestBundle;
using test::readFile;
using test::TemporaryFolder;
using test::TestBundle;
using test::writeFile;
using Opened = Result<std::shared_ptr<const BundleReader>>;

std::string writeBundle(const TestBundle &bundle = makeTestBundle()) {
  TemporaryFolder folder;
  EXPECT_EQ(bundle.write(folder.path("b")), "");
  return readFile(folder.path("b"));
}

Opened openBytes(const std::string &bytes) {
  AlignedCopy copy(bytes);
  return BundleReader::fromMemory(copy.span, copy.memory);
}

/// Expects an error of that code, whose text has `part` in it.
void expectError(const Opened &opened, Code code, const std::string &part) {
  ASSERT_FALSE(opened.isOk()) << "expected: " << part;
  EXPECT_EQ(opened.status().code(), code) << opened.status().message();
  EXPECT_NE(opened.status().message().find(part), std::string::npos)
      << opened.status().message() << "\nexpected: " << part;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

/// A bundle whose manifest says something else.
Opened openWithManifest(const std::string &from, const std::string &to) {
  TestBundle bundle = makeTestBundle();
  bundle.changeManifest = [&](const std::string &manifest) { return replaced(manifest, from, to); };
  return openBytes(writeBundle(bundle));
}

TEST(BundleReader, OpensFromAPath) {
  TemporaryFolder folder;
  std::string path = folder.path("model.llmc");
  ASSERT_EQ(makeTestBundle().write(path), "");
  auto opened = BundleReader::open(path);
  ASSERT_TRUE(opened.isOk()) << opened.status().message();
  const BundleReader &bundle = **opened;
  EXPECT_EQ(bundle.path(), path);
  EXPECT_EQ(bundle.weights().size(), test::kTestWeightsSize);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bundle.weights().data()) % LLMC_ALIGN_WEIGHTS, 0u);
  EXPECT_EQ(bundle.program().entries().size(), 2u);
  ASSERT_EQ(bundle.manifest().targets.size(), 2u);
  EXPECT_EQ(bundle.manifest().targets[1].level, "avx512");
  std::span<const std::byte> code = bundle.code(bundle.manifest().targets[1]);
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(code.data()), code.size()),
            "code of the other");
  EXPECT_EQ(bundle.manifest().generator, "test");
  EXPECT_EQ(bundle.manifest().model.at("name"), "tiny");
  EXPECT_EQ(bundle.manifest().model.at("max_context"), "8");
  EXPECT_EQ(bundle.manifest().inputs.at("model.onnx"), std::string(64, 'a'));
  EXPECT_EQ(bundle.manifestText().front(), '{');
  EXPECT_NE(bundle.find(LLMC_ENTRY_TOKENIZER), nullptr);
  EXPECT_EQ(bundle.find("nothing"), nullptr);
  EXPECT_TRUE(bundle.verify().isOk());
}

TEST(BundleReader, KeepsItsMemory) {
  std::weak_ptr<void> watch;
  std::shared_ptr<const BundleReader> bundle;
  {
    AlignedCopy copy(writeBundle());
    watch = copy.memory;
    auto opened = BundleReader::fromMemory(copy.span, copy.memory);
    ASSERT_TRUE(opened.isOk()) << opened.status().message();
    bundle = *opened;
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_TRUE(bundle->verify().isOk());
  bundle.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(BundleReader, OpensWithoutCodeAndWeights) {
  auto opened = openBytes(writeBundle(makeTestBundle(/*small=*/true)));
  ASSERT_TRUE(opened.isOk()) << opened.status().message();
  EXPECT_TRUE((*opened)->weights().empty());
  EXPECT_TRUE((*opened)->verify().isOk());
}

TEST(BundleReader, NamesWhatIsNotABundle) {
  TemporaryFolder folder;
  expectError(BundleReader::open(folder.path("none")), Code::NotFound,
              "none': cannot open it: No such file");
  expectError(BundleReader::open(folder.path("")), Code::InvalidArgument, "it is a folder");
  expectError(BundleReader::open("/dev/null"), Code::InvalidArgument, "no regular file");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expectError(BundleReader::open(folder.path("pipe")), Code::InvalidArgument, "no regular file");
  writeFile(folder.path("empty"), "");
  expectError(BundleReader::open(folder.path("empty")), Code::Corrupt, "empty");
  writeFile(folder.path("text"), std::string(10000, 'x'));
  expectError(BundleReader::open(folder.path("text")), Code::Corrupt, "is not a bundle");
  expectError(openBytes(""), Code::Corrupt, "0 bytes, too few");
  AlignedCopy copy(writeBundle());
  expectError(BundleReader::fromMemory(copy.span.subspan(1), copy.memory), Code::InvalidArgument,
              "multiple of 64");
}

TEST(BundleReader, RefusesOtherVersions) {
  expectError(openWithManifest("\"0.1\"", "\"0.2\""), Code::Incompatible,
              "the bundle has format 0.2, but this runtime reads format 0.1");
  TestBundle bundle = makeTestBundle();
  bundle.find(LLMC_ENTRY_PROGRAM)->bytes[12] = 9;
  expectError(openBytes(writeBundle(bundle)), Code::Incompatible, "the program has format 0.9");
}

TEST(BundleReader, ComparesArchiveAndManifest) {
  TestBundle bundle = makeTestBundle();
  bundle.entries.erase(bundle.entries.begin()); // the program
  expectError(openBytes(writeBundle(bundle)), Code::Corrupt, "no program/main.bin");

  expectError(openWithManifest("\"tokenizer/tokenizer.bin\"", "\"other\""), Code::Corrupt,
              "the manifest lists 'other', which is not in the archive");
  bundle = makeTestBundle();
  bundle.changeManifest = [](const std::string &manifest) {
    size_t begin = manifest.find("\"tokenizer"), end = manifest.find("\"code");
    return manifest.substr(0, begin) + manifest.substr(end);
  };
  expectError(openBytes(writeBundle(bundle)), Code::Corrupt,
              "entry 'tokenizer/tokenizer.bin' that the manifest does not list");
  expectError(openWithManifest("\"size\": 192", "\"size\": 193"), Code::Corrupt,
              "'weights.bin' has 192 bytes, but 193");
  expectError(openWithManifest("\"level\": \"avx2\", \"code\": \"code/x86_64-avx2.so\"",
                               "\"level\": \"avx2\", \"code\": \"code/gone\""),
              Code::Corrupt, "target 0 names the code 'code/gone'");
}

TEST(BundleReader, RefusesWrongAlignment) {
  for (const char *name : {"program/main.bin", "code/x86_64-avx2.so", "weights.bin"}) {
    TestBundle bundle = makeTestBundle();
    bundle.find(name)->alignment = 1;
    std::string bytes = writeBundle(bundle);
    auto archive = Archive::parse(std::as_bytes(std::span(bytes.data(), bytes.size())));
    ASSERT_TRUE(archive.isOk());
    ASSERT_NE(archive->find(name)->offset % 64, 0u);
    expectError(openBytes(bytes), Code::Corrupt, "was the bundle repacked?");
  }
}

TEST(BundleReader, FindsDamagedEntries) {
  std::string bytes = writeBundle();
  auto archive = Archive::parse(std::as_bytes(std::span(bytes.data(), bytes.size())));
  ASSERT_TRUE(archive.isOk());
  for (const Archive::Entry &entry : archive->entries()) {
    std::string damaged = bytes;
    damaged[entry.offset] ^= 1;
    std::string name(entry.name);
    auto opened = openBytes(damaged);
    if (name != "weights.bin") {
      expectError(opened, Code::Corrupt, name);
      continue;
    }
    ASSERT_TRUE(opened.isOk()) << "weights are not read when a bundle is opened";
    Status status = (*opened)->verify();
    ASSERT_FALSE(status.isOk());
    EXPECT_EQ(status.code(), Code::Corrupt);
    EXPECT_NE(status.message().find("'weights.bin' is damaged"), std::string::npos);
  }
}

TEST(BundleReader, RefusesArchivesOfOtherTools) {
  if (!test::hasCommand("python3"))
    GTEST_SKIP() << "python3 is not installed";
  TemporaryFolder folder;
  ASSERT_EQ(makeTestBundle().write(folder.path("b")), "");
  auto repack = [&](const char *how) {
    auto result = test::runPython(
        "import sys, zipfile\n"
        "a = zipfile.ZipFile(sys.argv[1]); b = zipfile.ZipFile(sys.argv[2], \"w\", " +
            std::string(how) + ")\n[b.writestr(n, a.read(n)) for n in a.namelist()]; b.close()\n",
        folder.path("b") + " " + folder.path("c"));
    EXPECT_EQ(result.status, 0) << result.output;
    return BundleReader::open(folder.path("c"));
  };
  expectError(repack("zipfile.ZIP_STORED"), Code::Corrupt, "was the bundle repacked?");
  expectError(repack("zipfile.ZIP_DEFLATED"), Code::Corrupt, "is compressed");
}

/// All that a reader of the bundle can see but its weights.
std::string contents(const BundleReader &bundle) {
  std::string text(bundle.manifestText());
  text += printProgram(bundle.program()) + printSymbols(bundle.program()) +
          printKernels(bundle.program());
  for (const Archive::Entry &entry : bundle.entries()) {
    text += entry.name;
    if (entry.name != "weights.bin")
      text.append(reinterpret_cast<const char *>(entry.bytes.data()), entry.bytes.size());
  }
  return text;
}

TEST(BundleReader, AnyFlippedByteIsFoundOrHarmless) {
  std::string bytes = writeBundle();
  std::string original = contents(**openBytes(bytes));
  AlignedCopy copy(bytes);
  std::vector<uint32_t> nonZeros = {0}; // before each byte
  for (char byte : bytes)
    nonZeros.push_back(nonZeros.back() + (byte != 0));
  size_t tried = 0, found = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    // Of the long paddings before code and weights the ends suffice.
    size_t begin = at > 300 ? at - 300 : 0, end = std::min(at + 300, bytes.size());
    if (nonZeros[begin] == nonZeros[end])
      continue;
    for (int mask : {0x01, 0x40, 0xFF}) {
      copy.span[at] ^= std::byte(mask);
      auto opened = BundleReader::fromMemory(copy.span, copy.memory);
      copy.span[at] ^= std::byte(mask);
      ++tried;
      if (opened.isOk())
        EXPECT_EQ(contents(**opened), original) << "byte " << at << " ^ " << mask;
      else
        ++found;
    }
  }
  EXPECT_GT(tried, 10000u);
  EXPECT_GT(found, tried / 2);
}

TEST(BundleReader, TruncationAtAnyLengthIsFound) {
  std::string bytes = writeBundle(makeTestBundle(/*small=*/true));
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(openBytes(bytes.substr(0, size)).isOk()) << size;
  expectError(openBytes(bytes + "x"), Code::Corrupt, "something appended");
  std::string large = writeBundle();
  for (size_t size = 0; size < large.size(); size += 1 + size / 5)
    ASSERT_FALSE(openBytes(large.substr(0, size)).isOk()) << size;
}

/// Offsets of the parts of an archive without ZIP64 records.
struct Parts {
  explicit Parts(const std::string &bytes) : end(bytes.size() - 22) {
    memcpy(&directory, bytes.data() + end + 16, 4);
    uint16_t nameSize, extraSize;
    memcpy(&nameSize, bytes.data() + directory + 28, 2);
    memcpy(&extraSize, bytes.data() + directory + 30, 2);
    second = directory + 46 + nameSize + extraSize;
  }
  size_t end;             ///< the end record
  uint32_t directory = 0; ///< the first record of the directory
  size_t second;          ///< its second record
};

TEST(Archive, RefusesContradictions) {
  const std::string bytes = writeBundle(makeTestBundle(/*small=*/true));
  const Parts parts(bytes);
  struct Change {
    const char *message;
    size_t at;
    std::string bytes;
  };
  const std::string ones(4, '\xff');
  const int extraSize = static_cast<unsigned char>(bytes[28]); // of the first local header
  auto u32 = [](uint32_t value) { return std::string(reinterpret_cast<char *>(&value), 4); };
  auto u16 = [](uint16_t value) { return std::string(reinterpret_cast<char *>(&value), 2); };
  for (const Change &change : std::vector<Change>{
           {"not a bundle", parts.end, u32(0)},
           {"not a bundle", parts.end + 20, u16(1)},
           {"several disks", parts.end + 4, u16(1)},
           {"several disks", parts.end + 8, u16(1)},
           {"does not end at", parts.end + 12, u32(7)},
           {"does not end at", parts.end + 16, u32(0)},
           {"does not end at", parts.end + 16, u32(0xFFFFFFFE)},
           {"ZIP64", parts.end + 16, ones},
           {"after its last record", parts.end + 8, u16(2) + u16(2)},
           {"ends within a record", parts.end + 8, u16(4) + u16(4)},
           {"has 65535 entries", parts.end + 8, ones},
           {"no record at", parts.directory, u32(0)},
           {"compressed or encrypted", parts.directory + 8, u16(1)},
           {"compressed or encrypted", parts.directory + 10, u16(8)},
           {"two different sizes", parts.directory + 20, u32(1)},
           {"contradicts", parts.directory + 20, u32(1) + u32(1)},
           {"contradicts", parts.directory + 16, u32(1)},
           {"lacks its 64-bit sizes", parts.directory + 20, ones + ones},
           {"lacks its 64-bit sizes", parts.directory + 42, ones},
           {"ends within a record", parts.directory + 28, u16(0xFFFF)},
           {"comment or lies", parts.directory + 32, u16(1)},
           {"comment or lies", parts.directory + 34, u16(1)},
           {"outside of the file", parts.directory + 42, u32(0xFFFFFFFE)},
           {"outside of the file", parts.directory + 42, u32(parts.directory - 10)},
           {"contradicts", parts.directory + 42, u32(1)},
           {"contradicts", parts.second + 42, u32(0)},
           {"plain relative path", parts.directory + 46, "/"},
           {"plain relative path", parts.directory + 46, "../"},
           {"plain relative path", parts.directory + 46, std::string("\0", 1)},
           {"contradicts", parts.directory + 46, "x"},
           {"contradicts", 0, u32(0)},
           {"runs past the file", 28, u16(0xFFFF)},
           // The first entry's data would begin later and so run into the second entry.
           {"overlap", 28, u16(static_cast<uint16_t>(extraSize + 100))},
       }) {
    std::string changed = bytes;
    changed.replace(change.at, change.bytes.size(), change.bytes);
    ASSERT_EQ(changed.size(), bytes.size());
    expectError(openBytes(changed), Code::Corrupt, change.message);
  }
}

TEST(Archive, RefusesTwoEntriesOfOneName) {
  TestBundle bundle = makeTestBundle(/*small=*/true);
  bundle.entries.push_back({"tokenizer/tokenizer.bi2", "x", 64});
  std::string bytes = writeBundle(bundle);
  for (size_t at; (at = bytes.find("tokenizer.bi2")) != bytes.npos;)
    bytes[at + 12] = 'n';
  expectError(openBytes(bytes), Code::Corrupt, "two entries named 'tokenizer/tokenizer.bin'");
}

Status parseManifest(const std::string &text) { return Manifest::parse(text).status(); }

TEST(Manifest, SaysWhatIsWrong) {
  const std::string valid = "{\"format\": \"0.1\", \"generator\": \"g\", \"targets\": []}";
  EXPECT_TRUE(parseManifest(valid).isOk());
  std::string deep = replaced(valid, "[]", "[" + std::string(40, '[') + std::string(40, ']') + "]");
  std::string veryDeep = std::string(1 << 21, '[');
  struct Case {
    std::string message, text;
  };
  for (const Case &wrong : std::vector<Case>{
           {"malformed at byte 1", ""},
           {"malformed at byte 5", "{\"a\""},
           {"malformed", valid + "x"},
           {"malformed", "{\"\xff\": 1}"},
           {"is not an object", "[]"},
           {"no string 'format'", "{}"},
           {"no string 'format'", "{\"format\": 1}"},
           {"no string 'generator'", "{\"format\": \"0.1\"}"},
           {"no array 'targets'", replaced(valid, "[]", "{}")},
           {"target 0: has no string 'driver'", replaced(valid, "[]", "[{}]")},
           {"target 0: has no string 'driver'", replaced(valid, "[]", "[1]")},
           {"'entries' is not an object", replaced(valid, "{", "{\"entries\": [],")},
           {"entry 'a' is not an object", replaced(valid, "{", "{\"entries\": {\"a\": 1},")},
           {"entry 'a': has no string 'sha256'",
            replaced(valid, "{", "{\"entries\": {\"a\": {}},")},
           {"not 64 lower-case",
            replaced(valid, "{", "{\"entries\": {\"a\": {\"sha256\": \"\"}},")},
           {"unsigned number 'size'",
            replaced(valid, "{",
                     "{\"entries\": {\"a\": {\"size\": -1, \"sha256\": \"" + std::string(64, '0') +
                         "\"}},")},
           {"input 'a' has no SHA-256", replaced(valid, "{", "{\"inputs\": {\"a\": \"1\"},")},
           {"'model' is not an object", replaced(valid, "{", "{\"model\": 1,")},
           {"key 'format' twice", replaced(valid, "{", "{\"format\": \"0.1\",")},
           {"deeper than 32", deep},
           {"deeper than 32", veryDeep},
           {"at most 4194304", std::string((4 << 20) + 1, ' ')},
       }) {
    Status status = parseManifest(wrong.text);
    ASSERT_FALSE(status.isOk()) << wrong.message;
    EXPECT_EQ(status.code(), Code::Corrupt);
    EXPECT_NE(status.message().find(wrong.message), std::string::npos)
        << status.message() << "\nexpected: " << wrong.message;
  }
}

/// The first block of that language in docs/bundle-format.md.
std::string exampleOf(const std::string &language) {
  std::string text = readFile(LLMC_SOURCE_DIR "/docs/bundle-format.md"), fence = "```";
  size_t begin = text.find(fence + language + "\n");
  EXPECT_NE(begin, text.npos);
  begin = text.find('\n', begin) + 1;
  return text.substr(begin, text.find(fence, begin) - begin);
}

TEST(BundleFormatDocs, ExamplesAreTrue) {
  EXPECT_TRUE(parseManifest(exampleOf("json")).isOk());

  if (!test::hasCommand("python3"))
    GTEST_SKIP() << "python3 is not installed";
  TemporaryFolder folder;
  ASSERT_EQ(makeTestBundle().write(folder.path("model.llmc")), "");
  writeFile(folder.path("check.py"), exampleOf("python"));
  auto check = [&] { return test::runCommand("cd " + folder.path("") + " && python3 check.py"); };
  EXPECT_EQ(check().status, 0) << check().output;
  TestBundle wrong = makeTestBundle();
  wrong.changeManifest = [](const std::string &text) {
    return replaced(text, "\"sha256\": \"", "\"sha256\": \"0");
  };
  ASSERT_EQ(wrong.write(folder.path("model.llmc")), "");
  EXPECT_NE(check().status, 0);
}

} // namespace
} // namespace llmc
