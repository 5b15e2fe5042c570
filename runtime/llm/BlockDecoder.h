// SPDX-License-Identifier: Apache-2.0
//
// Decodes through a SESSION entry: the cache lies in KV blocks that the kernels
// extend in place.
#ifndef LLMC_RUNTIME_LLM_BLOCK_DECODER_H
#define LLMC_RUNTIME_LLM_BLOCK_DECODER_H

#include "runtime/llm/EntryDecoder.h"

namespace llmc {

class BlockDecoder : public EntryDecoder {
public:
  static Result<std::unique_ptr<Decoder>> create(const std::shared_ptr<Executor> &executor,
                                                 size_t entry, std::shared_ptr<KvPool> pool,
                                                 int64_t capacity);

  Status advance(std::span<const int32_t> tokens, const CallOptions &options) override;
  Status truncate(size_t length) override { return kv->truncate(static_cast<int64_t>(length)); }
  size_t length() const override { return static_cast<size_t>(kv->length()); }
  Step step() const override;

private:
  using EntryDecoder::EntryDecoder;

  std::unique_ptr<KvState> kv;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_BLOCK_DECODER_H
