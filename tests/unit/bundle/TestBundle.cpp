// SPDX-License-Identifier: Apache-2.0
//
// Uses the compiler's ArchiveWriter, so that reader and writer meet in tests.
#include "tests/unit/bundle/TestBundle.h"

#include "compiler/bundle/ArchiveWriter.h"
#include "runtime/abi/BundleFormat.h"
#include "tests/unit/bundle/TestProgram.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace llmc::test {

TemporaryFolder::TemporaryFolder() {
  folder = (std::filesystem::temp_directory_path() / "llmc-test-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    abort();
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

std::vector<std::string> TemporaryFolder::list() const {
  std::vector<std::string> names;
  for (const auto &item : std::filesystem::directory_iterator(folder))
    names.push_back(item.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TestBundle::Entry *TestBundle::find(const std::string &name) {
  auto found = std::find_if(entries.begin(), entries.end(),
                            [&](const Entry &entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

std::string TestBundle::write(const std::string &path) const {
  std::string error;
  std::unique_ptr<ArchiveWriter> writer = ArchiveWriter::open(path, error);
  if (!writer)
    return error;
  std::string described, targets;
  for (const Entry &entry : entries) {
    std::optional<ArchiveEntry> done;
    if (writer->beginEntry(entry.name, entry.alignment) && writer->append(entry.bytes))
      done = writer->endEntry();
    if (!done)
      return writer->error();
    described += (described.empty() ? "" : ", ") + ("\"" + entry.name) + "\": {\"sha256\": \"" +
                 done->sha256 + "\", \"size\": " + std::to_string(done->size) + "}";
    if (entry.name.starts_with("code/"))
      targets += (targets.empty() ? "" : ", ") +
                 ("{\"driver\": \"cpu\", \"arch\": \"x86_64\", \"level\": \"" +
                  std::string(entry.name.find("512") == std::string::npos ? "avx2" : "avx512") +
                  "\", \"code\": \"" + entry.name + "\"}");
  }
  std::string manifest = "{\"format\": \"0.1\", \"generator\": \"test\", \"entries\": {" +
                         described + "}, \"targets\": [" + targets +
                         "], \"inputs\": {\"model.onnx\": \"" + std::string(64, 'a') +
                         "\"}, \"model\": {\"name\": \"tiny\", \"max_context\": 8}}";
  if (changeManifest)
    manifest = changeManifest(manifest);
  if (!writer->beginEntry(LLMC_ENTRY_MANIFEST, LLMC_ALIGN_DEFAULT) || !writer->append(manifest) ||
      !writer->endEntry() || !writer->commit())
    return writer->error();
  return "";
}

TestBundle makeTestBundle(bool small) {
  TestProgram program = makeTestProgram();
  if (small)
    program.buffers[4].offset = program.buffers[4].size = 0;
  TestBundle bundle;
  bundle.entries.push_back({LLMC_ENTRY_PROGRAM, program.encode(), LLMC_ALIGN_DEFAULT});
  bundle.entries.push_back({LLMC_ENTRY_TOKENIZER, "a tokenizer", LLMC_ALIGN_DEFAULT});
  if (small)
    return bundle;
  bundle.entries.push_back({"code/x86_64-avx2.so", "code of one level", LLMC_ALIGN_CODE});
  bundle.entries.push_back({"code/x86_64-avx512.so", "code of the other", LLMC_ALIGN_CODE});
  bundle.entries.push_back(
      {LLMC_ENTRY_WEIGHTS, std::string(kTestWeightsSize, 'w'), LLMC_ALIGN_WEIGHTS});
  return bundle;
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

AlignedCopy::AlignedCopy(const std::string &bytes) {
  size_t size = (bytes.size() + 64) / 64 * 64;
  memory.reset(std::aligned_alloc(64, size), free);
  memcpy(memory.get(), bytes.data(), bytes.size());
  span = {static_cast<std::byte *>(memory.get()), bytes.size()};
}

} // namespace llmc::test
