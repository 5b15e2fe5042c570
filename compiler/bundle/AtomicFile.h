// SPDX-License-Identifier: Apache-2.0
//
// A file that appears under its name only when it is complete. Until commit()
// the old file, if any, stays untouched, whatever happens to the process.
#ifndef LLMC_COMPILER_BUNDLE_ATOMICFILE_H
#define LLMC_COMPILER_BUNDLE_ATOMICFILE_H

#include <memory>
#include <string>

namespace llmc {

class AtomicFile {
public:
  /// How the unfinished file exists. Anonymous files vanish with their process; named ones are
  /// locked by it, and the next create() of the same path removes those without a lock.
  enum class Kind { AnonymousIfPossible, Named };

  /// On failure: null, and in `error` a sentence with the path and the system's reason.
  static std::unique_ptr<AtomicFile> create(const std::string &path, std::string &error,
                                            Kind kind = Kind::AnonymousIfPossible);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  /// Open for reading and writing.
  int descriptor() const { return file; }
  /// Waits until the disk has the content, then gives it the name.
  [[nodiscard]] bool commit(std::string &error);

private:
  AtomicFile() = default;
  bool resolve(const std::string &path, std::string &error);
  void removeAbandoned() const;
  bool createAnonymous(std::string &error);
  bool createNamed(std::string &error);
  bool linkUnder(const std::string &name) const;
  std::string newTemporaryName() const;

  std::string target;          ///< full path, for messages
  std::string name;            ///< within the folder
  std::string temporaryPrefix; ///< of the names of unfinished files
  std::string temporaryName;   ///< while the unfinished file has a name
  int folder = -1;
  int file = -1;
};

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_ATOMICFILE_H
