// SPDX-License-Identifier: Apache-2.0
//
// Makes an entry's inputs for a step of one sequence from what their roles say:
// token ids, positions, masks. Inputs of the cache are left to the decoder.
#ifndef LLMC_RUNTIME_LLM_SEQUENCE_INPUTS_H
#define LLMC_RUNTIME_LLM_SEQUENCE_INPUTS_H

#include "runtime/bundle/Program.h"
#include "runtime/core/Tensor.h"
#include "runtime/llm/HostBuffer.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace llmc {

class SequenceInputs {
public:
  /// InvalidArgument when an input can't be made from tokens alone; names all such inputs.
  /// `program` must outlive the result.
  static Result<SequenceInputs> create(const Program &program, size_t entry);

  /// Inputs for tokens[past, end), where tokens[0, past) are in the cache. Those of role PAST are
  /// given the shape of a cache of `past` tokens and no data. Valid until the next call.
  Result<std::vector<ConstTensor>> make(std::span<const int32_t> tokens, size_t past);

  /// Tokens that a step has to have, where the model fixes it; else 0.
  size_t fixedStep() const { return fixedSequence; }

private:
  SequenceInputs(const Program &program, const llmc_entry_record &entry)
      : program(&program), entry(&entry) {}
  Status check();
  std::optional<int64_t> constantDim(const llmc_io_record &io, size_t axis) const;
  Result<Shape> shapeOf(const llmc_io_record &io, int64_t past, int64_t sequence) const;
  Result<int64_t> cacheDim(const llmc_io_record &io, size_t axis) const;

  const Program *program;
  const llmc_entry_record *entry;
  int64_t batchSymbol = -1;
  size_t fixedSequence = 0;
  std::vector<HostBuffer> buffers; // one per input
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_SEQUENCE_INPUTS_H
