// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npz archives: ZIP files (ZIP64 too) of .npy arrays, stored or
// deflated. Arrays are unpacked one by one when asked for, so that others in
// the file neither cost memory nor have to be readable.
#ifndef LLMC_TOOLS_CLI_NPZ_FILE_H
#define LLMC_TOOLS_CLI_NPZ_FILE_H

#include "tools/cli/OwnedTensor.h"

#include <cstdio>
#include <map>
#include <memory>

namespace llmc::cli {

class NpzReader {
public:
  /// Reads the directory of the archive in `bytes`, which the reader keeps.
  static Result<NpzReader> open(Bytes bytes);

  /// Names of all arrays, without ".npy".
  std::vector<std::string> names() const;
  bool has(const std::string &name) const { return members.contains(name); }
  /// NotFound when there is no such array; the tensor's name is `name`.
  Result<OwnedTensor> read(const std::string &name) const;

private:
  struct Member {
    uint64_t method = 0;
    uint64_t crc = 0;
    uint64_t packedSize = 0;
    uint64_t size = 0;
    uint64_t headerOffset = 0;
  };
  explicit NpzReader(Bytes bytes) : bytes(std::move(bytes)) {}
  Status readDirectory();
  Result<Bytes> unpack(const Member &member) const;

  Bytes bytes;
  std::map<std::string, Member> members;
};

/// Writes arrays one after the other, uncompressed. The file appears under its name when `finish`
/// succeeds; until then, and after a failure, an older file of that name stays as it was.
class NpzWriter {
public:
  static Result<NpzWriter> create(const std::string &path);
  Status add(const OwnedTensor &tensor);
  Status finish();

  NpzWriter(NpzWriter &&) = default;
  NpzWriter &operator=(NpzWriter &&) = delete;
  ~NpzWriter();

private:
  struct Entry {
    std::string name;
    uint32_t crc;
    uint64_t size;
    uint64_t offset;
  };
  struct CloseFile {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  NpzWriter() = default;
  Status write(const void *data, size_t size);

  std::string path;
  std::string temporaryPath;
  std::unique_ptr<std::FILE, CloseFile> file;
  uint64_t position = 0;
  std::vector<Entry> entries;
};

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_NPZ_FILE_H
