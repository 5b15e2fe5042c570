// SPDX-License-Identifier: Apache-2.0
//
// Reads the directory of a bundle's archive: a store-only ZIP64 file as
// compiler/bundle/ArchiveWriter.h writes it. Once parse() succeeds, entries
// have unique valid names, lie inside the file and don't overlap.
#ifndef LLMC_RUNTIME_BUNDLE_ARCHIVE_H
#define LLMC_RUNTIME_BUNDLE_ARCHIVE_H

#include "runtime/core/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace llmc {

/// The standard ZIP checksum (reflected polynomial 0xEDB88320).
uint32_t crc32(std::span<const std::byte> bytes);

class Archive {
public:
  struct Entry {
    std::string_view name; ///< in the archive's memory
    uint64_t offset;       ///< of the data in the file
    uint32_t crc;          ///< as the directory says; not checked by parse()
    std::span<const std::byte> bytes;
  };

  Archive() = default;
  /// `file` must outlive the Archive; it is read without alignment.
  static Result<Archive> parse(std::span<const std::byte> file);

  /// In the order of the directory.
  std::span<const Entry> entries() const { return list; }
  /// Null when there is none of that name.
  const Entry *find(std::string_view name) const;

private:
  std::vector<Entry> list;
};

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_ARCHIVE_H
