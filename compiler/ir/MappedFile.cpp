// SPDX-License-Identifier: Apache-2.0
//
// Opens and maps one file with POSIX calls; LLVM's MemoryBuffer would copy
// small files and want a terminator behind the bytes.
#include "compiler/ir/MappedFile.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace llmc {

llvm::Expected<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string &path) {
  auto failed = [&](int error) {
    return llvm::createStringError(std::error_code(error, std::generic_category()),
                                   "cannot read '" + path +
                                       "': " + std::generic_category().message(error));
  };
  // O_NONBLOCK: opening a pipe for reading would wait for a writer.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return failed(errno);
  struct stat info;
  if (::fstat(fd, &info) != 0) {
    int error = errno;
    ::close(fd);
    return failed(error);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return llvm::createStringError(std::make_error_code(std::errc::invalid_argument),
                                   "cannot read '" + path + "': it is " +
                                       (S_ISDIR(info.st_mode) ? "a folder" : "not a regular file"));
  }
  auto size = static_cast<size_t>(info.st_size);
  void *data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      int error = errno;
      ::close(fd);
      return failed(error);
    }
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const char *>(data), size));
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<char *>(data), size);
}

} // namespace llmc
