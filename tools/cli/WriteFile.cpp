// SPDX-License-Identifier: Apache-2.0
//
// What cannot be renamed over, such as /dev/stdout, is written in place.
#include "tools/cli/WriteFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace llmc::cli {

Status writeFile(const std::string &path, std::string_view head, std::span<const std::byte> body) {
  std::error_code ignored;
  bool replaceable =
      !std::filesystem::exists(path, ignored) || std::filesystem::is_regular_file(path, ignored);
  std::string beside = replaceable ? path + ".part" : path;
  auto failed = [&](int reason) {
    if (replaceable)
      std::remove(beside.c_str());
    return Status::error(Code::Unavailable, "can't write '{}': {}", path, std::strerror(reason));
  };
  std::FILE *file = std::fopen(beside.c_str(), "wb");
  if (!file)
    return failed(errno);
  bool written = std::fwrite(head.data(), 1, head.size(), file) == head.size() &&
                 std::fwrite(body.data(), 1, body.size(), file) == body.size();
  int reason = errno;
  if (std::fclose(file) != 0) {
    reason = written ? errno : reason;
    written = false;
  }
  if (!written)
    return failed(reason);
  if (replaceable && std::rename(beside.c_str(), path.c_str()) != 0)
    return failed(errno);
  return Status::ok();
}

} // namespace llmc::cli
