// SPDX-License-Identifier: Apache-2.0
//
// One sequence of tokens in a model: append tokens, look at the logits that
// follow, go back. Used by one thread at a time, but cancel() by any.
#ifndef LLMC_RUNTIME_LLM_SESSION_H
#define LLMC_RUNTIME_LLM_SESSION_H

#include "runtime/llm/Decoder.h"

#include <memory>
#include <span>
#include <vector>

namespace llmc {

class Session {
public:
  /// A sequence of up to `capacity` >= 1 tokens. `pool` may be null where the program has no
  /// SESSION entry. InvalidArgument, saying why, when the model can't generate.
  static Result<std::unique_ptr<Session>> create(const std::shared_ptr<Executor> &executor,
                                                 std::shared_ptr<KvPool> pool, uint64_t capacity);

  /// Appends `ids` (at least one) and computes the logits after the last. After a failure the
  /// sequence is as before. ResourceExhausted past the capacity, before anything is computed.
  Status append(std::span<const int32_t> ids);
  /// After the last token: (vocabulary), valid until the next call; empty when nothing was appended
  /// since the start or the last rewind.
  std::span<const float> logits() const;
  /// Forgets all but the first `length` tokens.
  Status rewind(uint64_t length);

  uint64_t capacity() const { return maxTokens; }
  std::span<const int32_t> tokens() const { return history; }

  /// Makes the running append(), or else the next one, end with Cancelled.
  void cancel() { cancelFlag.set(); }
  /// Takes a request to stop that no append() has seen yet.
  bool takeCancel();

  /// Counts time per instruction from now on.
  void profile(bool on) { profiling = on; }
  ExecContext &context() { return decoder->context(); }

private:
  Session(std::unique_ptr<Decoder> decoder, uint64_t capacity)
      : decoder(std::move(decoder)), maxTokens(capacity) {}
  Status computeTail();

  std::unique_ptr<Decoder> decoder;
  uint64_t maxTokens;
  std::vector<int32_t> history;
  bool hasLogits = false;
  bool profiling = false;
  CancelFlag cancelFlag;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_SESSION_H
