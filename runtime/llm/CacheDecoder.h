// SPDX-License-Identifier: Apache-2.0
//
// Decodes through a RUN entry that takes its cache as inputs (role PAST) and
// gives it, longer, as outputs (role PRESENT). Each pair has two buffers that
// change places at every step; they grow by many tokens at a time.
#ifndef LLMC_RUNTIME_LLM_CACHE_DECODER_H
#define LLMC_RUNTIME_LLM_CACHE_DECODER_H

#include "runtime/llm/EntryDecoder.h"

namespace llmc {

class CacheDecoder : public EntryDecoder {
public:
  /// A cache tensor's input, output and growing dimension (LLMC_NONE: a state of fixed size).
  struct Pair {
    size_t input;
    size_t output;
    uint32_t axis;
    Dtype dtype;
  };
  /// InvalidArgument when an input of role PAST isn't continued by an output of the same type.
  static Result<std::vector<Pair>> pairTensors(const Program &program,
                                               const llmc_entry_record &entry);
  static Result<std::unique_ptr<Decoder>> create(const std::shared_ptr<Executor> &executor,
                                                 size_t entry, int64_t capacity);

  Status advance(std::span<const int32_t> tokens, const CallOptions &options) override;
  Status truncate(size_t length) override;
  size_t length() const override { return taken; }
  Step step() const override;

private:
  struct Cache {
    Pair pair;
    HostBuffer current; // what the next step takes
    HostBuffer next;    // what it writes
    Shape shape;        // of `current`
  };
  using EntryDecoder::EntryDecoder;

  std::string nameOf(const Cache &cache) const;
  Status bindPast(Cache &cache, ConstTensor &past);
  Result<Tensor> preparePresent(Cache &cache, const Shape &past, const Shape &shape, size_t total);

  std::vector<Cache> caches;
  size_t taken = 0;
  size_t capacity = 0;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_CACHE_DECODER_H
