// SPDX-License-Identifier: Apache-2.0
//
// The generation loop: prompt in, then one sampled token after the other, with
// its text as it becomes certain, until something says stop.
#ifndef LLMC_RUNTIME_LLM_GENERATOR_H
#define LLMC_RUNTIME_LLM_GENERATOR_H

#include "runtime/llm/GenerationConfig.h"
#include "runtime/llm/Session.h"
#include "runtime/llm/Tokenizer.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// What a user says about sampling; the rest is the model's own.
struct SamplingWishes {
  bool greedy = false;
  std::optional<float> temperature, topP, minP, repetitionPenalty;
  std::optional<uint32_t> topK;
  std::optional<uint64_t> seed; ///< absent: another one each time
};

/// `defaults` with what the user wishes. Wishing for a temperature, top-k, top-p or min-p turns
/// sampling on where the model's own choice is greedy.
SamplingOptions resolveSampling(SamplingOptions defaults, const SamplingWishes &wishes);

struct GenerateOptions {
  uint64_t maxTokens = 0; ///< 0 = until the context is full
  SamplingOptions sampling;
  std::vector<uint32_t> stopTokens;
  std::vector<std::string> stop; ///< texts; neither they nor what follows is reported
};

struct TokenEvent {
  int32_t id;            ///< -1 in a last event that only brings held-back text
  std::string_view text; ///< whole characters; valid during the call
};

/// Numbers as `llmc_finish` in llmc/llmc.h.
enum class FinishReason {
  Length = 0,
  StopToken = 1,
  StopString = 2,
  ContextFull = 3,
  Cancelled = 4
};

struct GenerateResult {
  FinishReason finish = FinishReason::Length;
  uint64_t promptTokens = 0;
  uint64_t generatedTokens = 0;
  double prefillSeconds = 0;
  double decodeSeconds = 0;
};

/// Appends `prompt` to `session` (which may be empty only if the session has logits) and then
/// tokens until one of the limits is met. `tokenizer` may be null: events then have no text, and
/// stop texts are an error. `onToken` returns false to stop, which ends with Cancelled. `result` is
/// filled whenever the status is ok or Cancelled.
Status generate(Session &session, const Tokenizer *tokenizer, std::span<const int32_t> prompt,
                const GenerateOptions &options,
                const std::function<bool(const TokenEvent &)> &onToken, GenerateResult &result);

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_GENERATOR_H
