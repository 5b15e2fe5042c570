// SPDX-License-Identifier: Apache-2.0
//
// How a model takes in tokens of one sequence and gives the logits that follow.
// There are three ways, by what the program offers:
// - blocks: a SESSION entry, whose cache lies in KV blocks;
// - cache: a RUN entry that takes the cache as inputs and gives it as outputs;
// - recompute: a RUN entry without a cache, run on the whole sequence each time.
#ifndef LLMC_RUNTIME_LLM_DECODER_H
#define LLMC_RUNTIME_LLM_DECODER_H

#include "runtime/bundle/Program.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/KvState.h"

#include <memory>
#include <span>

namespace llmc {

/// The usual step of a long prompt: enough for matrix kernels to reuse each weight, few enough that
/// the activations of a step stay small beside the model.
inline constexpr size_t kStepTokens = 512;

class Decoder {
public:
  /// The best way that `executor`'s program offers. `pool` may be null where there is no SESSION
  /// entry. InvalidArgument, saying why, when the program can't decode.
  static Result<std::unique_ptr<Decoder>> create(const std::shared_ptr<Executor> &executor,
                                                 std::shared_ptr<KvPool> pool, int64_t capacity);
  /// The part of create() that looks at the program: can it decode at all?
  static Status check(const Program &program);

  virtual ~Decoder() = default;

  /// Takes in tokens[length(), end): at least one. After a failure the state is as before.
  virtual Status advance(std::span<const int32_t> tokens, const CallOptions &options) = 0;
  /// Forgets tokens from `length` on, or more where the model's state can't be cut there: see
  /// length() afterwards.
  virtual Status truncate(size_t length) = 0;

  /// Tokens taken in.
  virtual size_t length() const = 0;
  /// How many tokens advance() should be given at most; where `isExact`, no fewer either.
  struct Step {
    size_t tokens;
    bool isExact;
  };
  virtual Step step() const = 0;
  /// After the last token: (vocabulary), valid until the next advance().
  virtual std::span<const float> logits() const = 0;
  /// For its profile.
  virtual ExecContext &context() = 0;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_DECODER_H
