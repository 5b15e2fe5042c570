// SPDX-License-Identifier: Apache-2.0
//
// Decodes through a RUN entry without a cache: every step runs the model on the
// whole sequence. Its cost grows with the square of the length.
#ifndef LLMC_RUNTIME_LLM_RECOMPUTE_DECODER_H
#define LLMC_RUNTIME_LLM_RECOMPUTE_DECODER_H

#include "runtime/llm/EntryDecoder.h"

namespace llmc {

class RecomputeDecoder : public EntryDecoder {
public:
  static Result<std::unique_ptr<Decoder>> create(const std::shared_ptr<Executor> &executor,
                                                 size_t entry);

  Status advance(std::span<const int32_t> tokens, const CallOptions &options) override;
  Status truncate(size_t length) override;
  size_t length() const override { return taken; }
  Step step() const override;

private:
  using EntryDecoder::EntryDecoder;

  size_t taken = 0;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_RECOMPUTE_DECODER_H
