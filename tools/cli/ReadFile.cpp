// SPDX-License-Identifier: Apache-2.0
//
// Reads to the end rather than to the size the system names, so that pipes
// work too.
#include "tools/cli/ReadFile.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sys/stat.h>

namespace llmc::cli {

Result<Bytes> readFile(const std::string &path) {
  struct CloseFile {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file)
    return Status::error(errno == ENOENT ? Code::NotFound : Code::Unavailable,
                         "can't read '{}': {}", path, std::strerror(errno));
  struct stat info = {};
  bool sized = fstat(fileno(file.get()), &info) == 0 && S_ISREG(info.st_mode);
  Bytes bytes(sized ? size_t(info.st_size) + 1 : 65536);
  size_t filled = 0;
  while (true) {
    size_t got = std::fread(bytes.data() + filled, 1, bytes.size() - filled, file.get());
    filled += got;
    if (std::ferror(file.get()))
      return Status::error(Code::Unavailable, "can't read '{}': {}", path, std::strerror(errno));
    if (got == 0)
      break;
    if (filled == bytes.size())
      bytes.resize(bytes.size() * 2);
  }
  bytes.resize(filled);
  return bytes;
}

} // namespace llmc::cli
