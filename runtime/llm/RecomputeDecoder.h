// SPDX-License-Identifier: Apache-2.0
//
// Decodes through a RUN entry without a cache: every step runs the model on the
// whole sequence. Its cost grows with the square of the length.
#ifndef LLMC_RUNTIME_LLM_RECOMPUTE_DECODER_H
#define LLMC_RUNTIME_LLM_RECOMPUTE_DECODER_H

#include "runtime/llm/Decoder.h"
#include "runtime/llm/LogitsReader.h"
#include "runtime/llm/SequenceInputs.h"
#include "runtime/llm/StepOutputs.h"

namespace llmc {

class RecomputeDecoder : public Decoder {
public:
  static Result<std::unique_ptr<Decoder>> create(const std::shared_ptr<Executor> &executor,
                                                 size_t entry);

  Status advance(std::span<const int32_t> tokens, const CallOptions &options) override;
  Status truncate(size_t length) override;
  size_t length() const override { return taken; }
  Step step() const override;
  std::span<const float> logits() const override { return logitsReader.values(); }
  ExecContext &context() override { return *execContext; }

private:
  RecomputeDecoder(const Program &program, size_t entry, SequenceInputs inputs, LogitsReader reader)
      : program(program), entry(entry), inputs(std::move(inputs)), logitsReader(std::move(reader)),
        outputs(program.entries()[entry].outputs.count) {}

  const Program &program; // of the context's executor
  size_t entry;
  SequenceInputs inputs;
  LogitsReader logitsReader;
  StepOutputs outputs;
  std::unique_ptr<ExecContext> execContext;
  size_t taken = 0;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_RECOMPUTE_DECODER_H
