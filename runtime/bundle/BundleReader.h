// SPDX-License-Identifier: Apache-2.0
//
// An opened bundle. open() checks everything but the weights' bytes: archive,
// manifest, the hashes of all other entries, and the program. A bundle is
// immutable and may be used by many threads; whoever holds the shared_ptr keeps
// its memory mapped. A file that another process truncates while it is mapped
// raises SIGBUS on access: replace bundles by renaming, as llmc compile does.
#ifndef LLMC_RUNTIME_BUNDLE_BUNDLEREADER_H
#define LLMC_RUNTIME_BUNDLE_BUNDLEREADER_H

#include "runtime/bundle/Archive.h"
#include "runtime/bundle/Manifest.h"
#include "runtime/bundle/Program.h"
#include "runtime/core/Status.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmc {

class BundleReader {
public:
  /// Maps the file read-only. A mapping of 2 MiB or more starts at a multiple of 2 MiB, so that
  /// the weights are as aligned in memory as they are in the file.
  static Result<std::shared_ptr<const BundleReader>> open(const std::string &path);
  /// The bundle is read in place: `file` starts at a multiple of 64, and `owner` (may be null)
  /// keeps it alive and unchanged.
  static Result<std::shared_ptr<const BundleReader>> fromMemory(std::span<const std::byte> file,
                                                                std::shared_ptr<const void> owner);

  /// Hashes the weights too.
  Status verify() const;

  const Manifest &manifest() const { return parsedManifest; }
  std::string_view manifestText() const { return text; }
  const Program &program() const { return *checkedProgram; }
  /// Empty when the bundle has none.
  std::span<const std::byte> weights() const { return weightBytes; }

  /// Null when there is no such entry.
  const Archive::Entry *find(std::string_view name) const { return archive.find(name); }
  std::span<const Archive::Entry> entries() const { return archive.entries(); }
  /// The image of one of manifest().targets.
  std::span<const std::byte> code(const Manifest::Target &target) const {
    return archive.find(target.code)->bytes;
  }

  /// Where it was opened; empty when from memory.
  const std::string &path() const { return filePath; }

private:
  BundleReader() = default;
  Status load();
  Status checkEntry(const Archive::Entry &entry, bool hash) const;

  std::string filePath;
  std::shared_ptr<const void> owner;
  std::span<const std::byte> file;
  Archive archive;
  std::string text; ///< the manifest's bytes
  Manifest parsedManifest;
  std::shared_ptr<const Program> checkedProgram;
  std::span<const std::byte> weightBytes;
};

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_BUNDLEREADER_H
