// SPDX-License-Identifier: Apache-2.0
//
// When a generated text ends: at a stop token, or where one of some strings
// appears, which may happen across tokens.
#ifndef LLMC_RUNTIME_LLM_STOP_CONDITIONS_H
#define LLMC_RUNTIME_LLM_STOP_CONDITIONS_H

#include "runtime/core/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

class StopTokens {
public:
  explicit StopTokens(std::vector<uint32_t> ids);
  bool contains(uint32_t id) const;

private:
  std::vector<uint32_t> sorted;
};

/// Watches streamed text. Text that could be the beginning of a stop string is held back until it
/// is clear that it is not. The result does not depend on how the text is cut into parts: the stop
/// string that is complete first ends the text, and of those the one that began first.
class StopStrings {
public:
  /// An empty stop string is an InvalidArgument.
  static Result<StopStrings> create(std::vector<std::string> strings);

  struct Part {
    std::string text; // to be given out; the stop string is never part of it
    bool isStopped = false;
  };
  /// Nothing more comes after a part that is stopped.
  Part push(std::string_view text);
  /// What is held back when the text ends for another reason.
  std::string finish();

private:
  size_t sizeToHold() const;

  std::vector<std::string> strings;
  size_t longest = 0;
  std::string held;
  bool isStopped = false;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_STOP_CONDITIONS_H
