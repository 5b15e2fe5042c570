// SPDX-License-Identifier: Apache-2.0
//
// A PCRE2 pattern with limits. A pattern is compiled once and shared by threads;
// a search that exceeds the match limit fails with ResourceExhausted instead of
// taking unbounded time.
#ifndef LLMC_RUNTIME_LLM_REGEX_H
#define LLMC_RUNTIME_LLM_REGEX_H

#include "runtime/core/Status.h"

#include <memory>
#include <string_view>
#include <vector>

namespace llmc {

/// Bytes [begin, end) of the searched text.
struct MatchRange {
  size_t begin;
  size_t end;
};

class Regex {
public:
  static Result<Regex> compile(std::string_view pattern);

  /// All matches from left to right in `text` (UTF-8), not overlapping, written to `matches`. An
  /// empty match directly behind another match does not count.
  Status findAll(std::string_view text, std::vector<MatchRange> &matches) const;

private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_REGEX_H
