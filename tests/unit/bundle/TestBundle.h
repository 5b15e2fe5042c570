// SPDX-License-Identifier: Apache-2.0
//
// Bundles around the test program, whole or wrong in one place, and a folder to
// put them into.
#ifndef LLMC_TESTS_UNIT_BUNDLE_TESTBUNDLE_H
#define LLMC_TESTS_UNIT_BUNDLE_TESTBUNDLE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace llmc::test {

/// Removed with all it holds when it goes out of scope.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path(const std::string &name) const { return folder + "/" + name; }
  /// Names in it, sorted, hidden ones too.
  std::vector<std::string> list() const;

private:
  std::string folder;
};

struct TestBundle {
  struct Entry {
    std::string name;
    std::string bytes;
    uint64_t alignment;
  };
  std::vector<Entry> entries; ///< all but the manifest
  /// Makes the manifest's text from the one that describes the entries truly.
  std::function<std::string(const std::string &)> changeManifest;

  Entry *find(const std::string &name);
  /// The error's text; empty when it was written.
  std::string write(const std::string &path) const;
};

/// Program, code for two levels, tokenizer and weights. A small one has a program without weights
/// and no code, so that it is a few kilobytes.
TestBundle makeTestBundle(bool small = false);

std::string readFile(const std::string &path);
void writeFile(const std::string &path, const std::string &bytes);

/// A copy of `bytes` at an address that is a multiple of 64.
struct AlignedCopy {
  explicit AlignedCopy(const std::string &bytes);
  std::span<std::byte> span;
  std::shared_ptr<void> memory;
};

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_BUNDLE_TESTBUNDLE_H
