// SPDX-License-Identifier: Apache-2.0
//
// The logits of a step's last token as floats, wherever they lie in an output
// and whatever type they have. f32 logits are not copied.
#ifndef LLMC_RUNTIME_LLM_LOGITS_READER_H
#define LLMC_RUNTIME_LLM_LOGITS_READER_H

#include "runtime/bundle/Program.h"
#include "runtime/core/Tensor.h"

#include <span>
#include <vector>

namespace llmc {

class LogitsReader {
public:
  /// Finds the output; InvalidArgument when `entry` has none or its type has no logits.
  static Result<LogitsReader> create(const Program &program, const llmc_entry_record &entry);

  /// Index among the entry's outputs.
  size_t output() const { return index; }
  /// The last row of `logits`; memory stays the caller's.
  Status read(const Tensor &logits);
  std::span<const float> values() const { return view; }

private:
  size_t index = 0;
  std::vector<float> converted;
  std::span<const float> view;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_LOGITS_READER_H
