// SPDX-License-Identifier: Apache-2.0
//
// There is no state but the tokens, which the caller keeps.
#include "runtime/llm/RecomputeDecoder.h"

#include <limits>

namespace llmc {

Result<std::unique_ptr<Decoder>> RecomputeDecoder::create(const std::shared_ptr<Executor> &executor,
                                                          size_t entry) {
  const Program &program = executor->program();
  LLMC_TRY_ASSIGN(LogitsReader reader, LogitsReader::create(program, program.entries()[entry]));
  LLMC_TRY_ASSIGN(SequenceInputs inputs, SequenceInputs::create(program, entry));
  if (inputs.fixedStep() != 0)
    return Status::error(Code::InvalidArgument,
                         "can't generate: the model takes exactly {} tokens and has no cache; "
                         "export it with a dynamic sequence length",
                         inputs.fixedStep());
  std::unique_ptr<RecomputeDecoder> decoder(
      new RecomputeDecoder(executor, entry, std::move(inputs), std::move(reader)));
  return std::unique_ptr<Decoder>(std::move(decoder));
}

Decoder::Step RecomputeDecoder::step() const { return {std::numeric_limits<size_t>::max(), false}; }

Status RecomputeDecoder::truncate(size_t length) {
  taken = length;
  return Status::ok();
}

Status RecomputeDecoder::advance(std::span<const int32_t> tokens, const CallOptions &options) {
  LLMC_TRY_ASSIGN(std::vector<ConstTensor> given, inputs.make(tokens, 0));
  LLMC_TRY(runEntry(given, options));
  taken = tokens.size();
  return Status::ok();
}

} // namespace llmc
