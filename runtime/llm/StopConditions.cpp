// SPDX-License-Identifier: Apache-2.0
//
// Plain comparison at each position: stop strings are few and short.
#include "runtime/llm/StopConditions.h"

#include <algorithm>

namespace llmc {

StopTokens::StopTokens(std::vector<uint32_t> ids) : sorted(std::move(ids)) {
  std::sort(sorted.begin(), sorted.end());
}

bool StopTokens::contains(uint32_t id) const {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

Result<StopStrings> StopStrings::create(std::vector<std::string> strings) {
  StopStrings stops;
  for (const std::string &string : strings) {
    if (string.empty())
      return Status::error(Code::InvalidArgument, "a stop string is empty");
    stops.longest = std::max(stops.longest, string.size());
  }
  stops.strings = std::move(strings);
  return stops;
}

StopStrings::Part StopStrings::push(std::string_view text) {
  if (isStopped)
    return {"", true};
  size_t checked = held.size();
  held += text;
  for (size_t end = checked + 1; end <= held.size(); ++end) {
    std::string_view head = std::string_view(held).substr(0, end);
    size_t stopSize = 0;
    for (const std::string &string : strings)
      if (string.size() > stopSize && head.ends_with(string))
        stopSize = string.size();
    if (stopSize == 0)
      continue;
    isStopped = true;
    held.resize(end - stopSize);
    return {std::move(held), true};
  }
  size_t keep = sizeToHold();
  Part part{held.substr(0, held.size() - keep), false};
  held.erase(0, held.size() - keep);
  return part;
}

/// The size of the longest end of `held` with which a stop string begins.
size_t StopStrings::sizeToHold() const {
  for (size_t size = std::min(held.size(), longest); size > 0; --size) {
    std::string_view tail = std::string_view(held).substr(held.size() - size);
    for (const std::string &string : strings)
      if (string.starts_with(tail))
        return size;
  }
  return 0;
}

std::string StopStrings::finish() {
  std::string rest = isStopped ? "" : std::move(held);
  held.clear();
  return rest;
}

} // namespace llmc
