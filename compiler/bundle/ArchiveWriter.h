// SPDX-License-Identifier: Apache-2.0
//
// Writes the archive of a bundle: a store-only ZIP64 file whose entries start
// at the alignment they ask for. The same calls give the same bytes on any
// host. Entries are streamed, so memory doesn't depend on their size, and the
// file appears under its name only when it is complete: a process that is
// killed leaves what was there before.
#ifndef LLMC_COMPILER_BUNDLE_ARCHIVEWRITER_H
#define LLMC_COMPILER_BUNDLE_ARCHIVEWRITER_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace llmc {

/// A finished entry, as a manifest describes it.
struct ArchiveEntry {
  std::string name;
  uint64_t offset; ///< of its first data byte in the file
  uint64_t size;
  std::string sha256; ///< 64 lower-case hex digits
};

/// The first failure makes every later call fail; error() keeps its text, which names the path
/// and the system's reason (full disk, missing folder, no permission).
class ArchiveWriter {
public:
  /// Prepares to write `path`; an existing file stays as it is until commit(). Also removes
  /// temporary files of `path` whose writers were killed. On failure: null, and why in `error`.
  static std::unique_ptr<ArchiveWriter> open(const std::string &path, std::string &error);

  /// Without a commit() nothing of the new file remains.
  ~ArchiveWriter();
  ArchiveWriter(const ArchiveWriter &) = delete;
  ArchiveWriter &operator=(const ArchiveWriter &) = delete;

  /// Starts an entry whose data begins at a multiple of `alignment` (a power of two). Names are
  /// relative paths of letters, digits and `._+-`, as LLMC_ENTRY_* are.
  [[nodiscard]] bool beginEntry(std::string_view name, uint64_t alignment);
  [[nodiscard]] bool append(const void *bytes, size_t size);
  [[nodiscard]] bool append(std::string_view bytes) { return append(bytes.data(), bytes.size()); }
  [[nodiscard]] bool appendZeros(uint64_t count);
  /// Bytes appended to the open entry so far.
  uint64_t entrySize() const;
  [[nodiscard]] std::optional<ArchiveEntry> endEntry();

  /// Writes the directory, waits until the disk has everything, and gives the file its name.
  [[nodiscard]] bool commit();

  const std::string &error() const;

private:
  struct State;
  explicit ArchiveWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_ARCHIVEWRITER_H
