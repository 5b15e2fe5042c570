// SPDX-License-Identifier: Apache-2.0
//
// The check works on real paths, after the file system has resolved links, and
// the real path is what gets opened.
#include "compiler/onnx/ExternalFiles.h"

#include "llvm/ADT/SmallVector.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>

using namespace llvm;

namespace llmc {
namespace {

std::string parentOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Empty when the path doesn't exist; errno says why.
std::string realPath(const std::string &path) {
  char *resolved = ::realpath(path.c_str(), nullptr);
  if (!resolved)
    return {};
  std::string result = resolved;
  ::free(resolved);
  return result;
}

bool isInside(StringRef path, StringRef folder) {
  if (folder == "/")
    return true;
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

} // namespace

ExternalFiles::ExternalFiles(const std::string &modelPath, bool hasFolder) : hasFolder(hasFolder) {
  if (!hasFolder)
    return;
  folder = parentOf(modelPath);
  std::string realFolder = realPath(folder), realModel = realPath(modelPath);
  if (!realFolder.empty())
    allowed.push_back(realFolder);
  if (!realModel.empty() && parentOf(realModel) != realFolder)
    allowed.push_back(parentOf(realModel));
}

Expected<std::string> ExternalFiles::resolve(StringRef location) const {
  auto refuse = [&](const char *why) {
    return createStringError("[LLMC1060] external data location '" + location.str() +
                             "' is refused: " + why);
  };
  if (!hasFolder)
    return refuse("the model was not read from a file");
  if (location.empty())
    return refuse("it is empty");
  if (location.contains('\0'))
    return refuse("it contains a zero byte");
  if (location.starts_with("/"))
    return refuse("it is absolute; data must lie in the model's folder");
  SmallVector<StringRef> parts;
  location.split(parts, '/');
  for (StringRef part : parts)
    if (part == "..")
      return refuse("it contains '..'; data must lie in the model's folder");

  // A link to a model elsewhere: its data lies beside the real file.
  SmallVector<std::string, 2> bases = {folder};
  if (allowed.size() == 2)
    bases.push_back(allowed[1]);
  int error = ENOENT;
  for (const std::string &base : bases) {
    std::string real = realPath(base + "/" + location.str());
    if (real.empty()) {
      error = errno;
      continue;
    }
    for (const std::string &root : allowed)
      if (isInside(real, root))
        return real;
    return refuse("it is a link that leaves the model's folder");
  }
  return createStringError("[LLMC1061] external data file '" + folder + "/" + location.str() +
                           "' cannot be read: " + std::generic_category().message(error));
}

Expected<std::shared_ptr<const MappedFile>> ExternalFiles::open(StringRef location) {
  if (auto known = byLocation.find(location); known != byLocation.end())
    return known->second;
  if (auto failed = failures.find(location); failed != failures.end())
    return createStringError(failed->second);
  Expected<std::string> real = resolve(location);
  if (!real) {
    std::string text = toString(real.takeError());
    failures[location] = text;
    return createStringError(text);
  }
  std::shared_ptr<const MappedFile> &file = byRealPath[*real];
  if (!file) {
    Expected<std::shared_ptr<const MappedFile>> opened = MappedFile::open(*real);
    if (!opened) {
      std::string text = "[LLMC1061] " + toString(opened.takeError());
      failures[location] = text;
      return createStringError(text);
    }
    file = *opened;
  }
  byLocation[location] = file;
  return file;
}

} // namespace llmc
