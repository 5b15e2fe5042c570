// SPDX-License-Identifier: Apache-2.0
//
// A step is one run of the entry; the executor extends the cache on success.
#include "runtime/llm/BlockDecoder.h"

namespace llmc {

Result<std::unique_ptr<Decoder>> BlockDecoder::create(const std::shared_ptr<Executor> &executor,
                                                      size_t entry, std::shared_ptr<KvPool> pool,
                                                      int64_t capacity) {
  const Program &program = executor->program();
  LLMC_TRY_ASSIGN(LogitsReader reader, LogitsReader::create(program, program.entries()[entry]));
  LLMC_TRY_ASSIGN(SequenceInputs inputs, SequenceInputs::create(program, entry));
  std::unique_ptr<BlockDecoder> decoder(
      new BlockDecoder(executor, entry, std::move(inputs), std::move(reader)));
  LLMC_TRY_ASSIGN(decoder->kv, KvState::create(std::move(pool), capacity));
  return std::unique_ptr<Decoder>(std::move(decoder));
}

Decoder::Step BlockDecoder::step() const {
  if (inputs.fixedStep() != 0)
    return {inputs.fixedStep(), true};
  return {kStepTokens, false};
}

Status BlockDecoder::advance(std::span<const int32_t> tokens, const CallOptions &options) {
  CallOptions call = options;
  call.kv = kv.get();
  call.sequence = static_cast<int64_t>(tokens.size() - length());
  LLMC_TRY_ASSIGN(std::vector<ConstTensor> given, inputs.make(tokens, length()));
  return runEntry(given, call);
}

} // namespace llmc
