// SPDX-License-Identifier: Apache-2.0
//
// A whole file mapped for reading. Pages are loaded when touched and the kernel
// may drop them again, so a mapped file costs no anonymous memory. The file
// must not be shortened while it is mapped.
#ifndef LLMC_COMPILER_IR_MAPPEDFILE_H
#define LLMC_COMPILER_IR_MAPPEDFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace llmc {

class MappedFile {
public:
  /// Fails for anything that is not a regular file; never blocks on a pipe.
  static llvm::Expected<std::shared_ptr<const MappedFile>> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  llvm::ArrayRef<char> bytes() const { return {data, size}; }
  const std::string &path() const { return name; }

private:
  MappedFile(std::string path, const char *data, size_t size)
      : name(std::move(path)), data(data), size(size) {}

  std::string name;
  const char *data; // null when size is 0
  size_t size;
};

} // namespace llmc

#endif // LLMC_COMPILER_IR_MAPPEDFILE_H
