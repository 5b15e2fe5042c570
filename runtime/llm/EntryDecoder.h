// SPDX-License-Identifier: Apache-2.0
//
// What the three ways of decoding share: an entry of a program, its inputs for
// a step, its outputs, and the logits among them.
#ifndef LLMC_RUNTIME_LLM_ENTRY_DECODER_H
#define LLMC_RUNTIME_LLM_ENTRY_DECODER_H

#include "runtime/llm/Decoder.h"
#include "runtime/llm/LogitsReader.h"
#include "runtime/llm/SequenceInputs.h"
#include "runtime/llm/StepOutputs.h"

namespace llmc {

class EntryDecoder : public Decoder {
public:
  std::span<const float> logits() const override { return logitsReader.values(); }
  ExecContext &context() override { return *execContext; }

protected:
  EntryDecoder(const std::shared_ptr<Executor> &executor, size_t entry, SequenceInputs inputs,
               LogitsReader reader);

  /// Runs the entry with outputs of this object's, and reads the logits.
  Status runEntry(std::span<const ConstTensor> given, const CallOptions &options);

  const Program &program; // of the context's executor
  size_t entry;
  SequenceInputs inputs;
  LogitsReader logitsReader;
  StepOutputs outputs;
  std::unique_ptr<ExecContext> execContext;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_ENTRY_DECODER_H
