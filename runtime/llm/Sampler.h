// SPDX-License-Identifier: Apache-2.0
//
// Chooses the next token from logits. The same seed and the same logits give
// the same tokens on every machine: all arithmetic is IEEE f64 in a fixed
// order, without library functions whose last bit differs between systems.
#ifndef LLMC_RUNTIME_LLM_SAMPLER_H
#define LLMC_RUNTIME_LLM_SAMPLER_H

#include "runtime/core/Status.h"
#include "runtime/llm/RandomSource.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace llmc {

/// Applied in this order, which is Hugging Face transformers'.
struct SamplingOptions {
  /// Logits of tokens already in the text are divided by this where positive and multiplied where
  /// negative. > 0; 1 is off. Applies to greedy choice too.
  float repetitionPenalty = 1;
  /// Choose the greatest logit; what follows is ignored. The lowest index wins a tie.
  bool isGreedy = true;
  /// Divides the logits. >= 0; 0 means greedy.
  float temperature = 1;
  /// Keep the k greatest logits and those equal to the k-th. 0 is off.
  uint32_t topK = 0;
  /// Keep the most probable tokens whose probabilities first reach this, at least one; of equal
  /// logits the lower indices. In [0, 1]; 1 is off.
  float topP = 1;
  /// Keep tokens at least this many times as probable as the best. In [0, 1]; 0 is off.
  float minP = 0;
  uint64_t seed = 0;

  /// InvalidArgument, naming the option, if one is out of its range.
  Status check() const;
};

class Sampler {
public:
  static Result<Sampler> create(const SamplingOptions &options, size_t vocabularySize);

  /// Tokens that are in the text: those of the prompt. Sampled ones are counted by sample().
  void observe(std::span<const uint32_t> ids);

  /// A NaN among the logits, or all of them -inf, is an InvalidArgument. Allocates nothing after
  /// the first call. Draws one random number unless greedy.
  Result<uint32_t> sample(std::span<const float> logits);

private:
  struct Candidate {
    uint32_t key; // orders as the logit does
    uint32_t id;
    double weight; // probability relative to the best token's
  };

  Sampler(const SamplingOptions &options, size_t vocabularySize);
  std::span<const float> penalize(std::span<const float> logits);
  void collectCandidates(std::span<const float> logits, float greatest);
  void keepTopP();
  void keepMinP();
  uint32_t draw();

  SamplingOptions options;
  RandomSource random;
  std::vector<bool> isSeen;      // by id
  std::vector<uint32_t> seenIds; // each once
  std::vector<float> penalized;
  std::vector<Candidate> candidates; // by id, ascending
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_SAMPLER_H
