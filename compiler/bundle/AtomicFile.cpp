// SPDX-License-Identifier: Apache-2.0
//
// Uses O_TMPFILE where the filesystem has it. A name that is still free is then
// taken by a single link(); an existing file is replaced by rename(), for which
// the new one needs a temporary name for a moment. Temporary names are safe to
// clean up because their writer holds a lock on the file from before the name
// exists (or, on other filesystems, checks after locking that it still exists).
#include "compiler/bundle/AtomicFile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

namespace llmc {
namespace {

constexpr size_t kRandomDigits = 16;
/// Leaves room in a file name (255 bytes) for the dot, the mark and the digits.
constexpr size_t kMaxStem = 200;

std::string systemError(const std::string &path, int code) {
  return "cannot write '" + path + "': " + std::generic_category().message(code);
}

std::string procPath(int file) { return "/proc/self/fd/" + std::to_string(file); }

} // namespace

std::unique_ptr<AtomicFile> AtomicFile::create(const std::string &path, std::string &error,
                                               Kind kind) {
  std::unique_ptr<AtomicFile> result(new AtomicFile);
  if (!result->resolve(path, error))
    return nullptr;
  result->removeAbandoned();
  if (kind == Kind::AnonymousIfPossible) {
    if (!result->createAnonymous(error))
      return nullptr;
    if (result->file >= 0)
      return result;
  }
  if (!result->createNamed(error))
    return nullptr;
  return result;
}

AtomicFile::~AtomicFile() {
  if (!temporaryName.empty())
    unlinkat(folder, temporaryName.c_str(), 0);
  if (file >= 0)
    close(file);
  if (folder >= 0)
    close(folder);
}

/// Follows a symbolic link at `path`, so that the file it names is replaced and not the link.
bool AtomicFile::resolve(const std::string &path, std::string &error) {
  target = path;
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    if (char *real = realpath(path.c_str(), nullptr)) {
      target = real;
      free(real);
    }
  }
  if (stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    error = "cannot write '" + path + "': it exists and is " +
            (S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    return false;
  }
  size_t slash = target.rfind('/');
  std::string folderPath = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  name = slash == std::string::npos ? target : target.substr(slash + 1);
  if (name.empty()) {
    error = "cannot write '" + path + "': it names no file";
    return false;
  }
  temporaryPrefix = "." + name.substr(0, kMaxStem) + ".llmc-tmp-";
  folder = open(folderPath.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    int code = errno;
    error = systemError(path, code);
    if (code == ENOENT || code == ENOTDIR)
      error = "cannot write '" + path + "': there is no folder '" + folderPath + "'";
    return false;
  }
  return true;
}

void AtomicFile::removeAbandoned() const {
  int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0)
    return;
  DIR *listing = fdopendir(copy);
  if (!listing) {
    close(copy);
    return;
  }
  std::vector<std::string> names;
  while (const dirent *item = readdir(listing)) {
    std::string_view found = item->d_name;
    if (found.size() == temporaryPrefix.size() + kRandomDigits &&
        found.substr(0, temporaryPrefix.size()) == temporaryPrefix &&
        found.find_first_not_of("0123456789abcdef", temporaryPrefix.size()) == found.npos)
      names.emplace_back(found);
  }
  closedir(listing);
  for (const std::string &found : names) {
    int old = openat(folder, found.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (old < 0)
      continue;
    struct stat info;
    if (fstat(old, &info) == 0 && S_ISREG(info.st_mode) && flock(old, LOCK_EX | LOCK_NB) == 0)
      unlinkat(folder, found.c_str(), 0);
    close(old);
  }
}

/// True without a file where the filesystem has no such files.
bool AtomicFile::createAnonymous(std::string &error) {
  file = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (file < 0) {
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)
      return true;
    error = systemError(target, errno);
    return false;
  }
  flock(file, LOCK_EX | LOCK_NB);
  // Giving it a name later goes through /proc, which a bare chroot may lack.
  if (access(procPath(file).c_str(), F_OK) != 0) {
    close(file);
    file = -1;
  }
  return true;
}

bool AtomicFile::createNamed(std::string &error) {
  // A cleaner may take a file between its creation and its lock: then there is another try.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string candidate = newTemporaryName();
    file = openat(folder, candidate.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) {
      if (errno == EEXIST)
        continue;
      error = systemError(target, errno);
      return false;
    }
    bool taken = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat info;
    if (!taken && fstat(file, &info) == 0 && info.st_nlink > 0) {
      temporaryName = candidate;
      return true;
    }
    close(file);
    file = -1;
  }
  error = "cannot write '" + target + "': no temporary file could be made beside it";
  return false;
}

std::string AtomicFile::newTemporaryName() const {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<uint64_t>(getpid()) << 32 ^ reinterpret_cast<uintptr_t>(this);
  char digits[kRandomDigits + 1];
  snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return temporaryPrefix + digits;
}

bool AtomicFile::linkUnder(const std::string &newName) const {
  return linkat(AT_FDCWD, procPath(file).c_str(), folder, newName.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

bool AtomicFile::commit(std::string &error) {
  if (fsync(file) != 0) {
    error = systemError(target, errno);
    return false;
  }
  if (temporaryName.empty()) {
    if (linkUnder(name)) {
      fsync(folder);
      return true;
    }
    std::string candidate = newTemporaryName();
    if (errno != EEXIST || !linkUnder(candidate)) {
      error = systemError(target, errno);
      return false;
    }
    temporaryName = candidate;
  }
  if (renameat(folder, temporaryName.c_str(), folder, name.c_str()) != 0) {
    error = systemError(target, errno);
    return false;
  }
  temporaryName.clear();
  // The name's own durability: failure here doesn't undo a file that is complete and visible.
  fsync(folder);
  return true;
}

} // namespace llmc
