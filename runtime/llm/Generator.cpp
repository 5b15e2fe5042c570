// SPDX-License-Identifier: Apache-2.0
//
// A token is sampled, reported and only then appended, so the last one reported
// is not in the sequence yet when the loop ends.
#include "runtime/llm/Generator.h"

#include "runtime/llm/StopConditions.h"

#include <chrono>
#include <random>

namespace llmc {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Token text, cut at stop texts. Without a tokenizer there is no text at all.
class TextOutput {
public:
  TextOutput(const Tokenizer *tokenizer, StopStrings stops) : stops(std::move(stops)) {
    if (tokenizer)
      streamer.emplace(*tokenizer, /*skipSpecialTokens=*/true);
  }
  Result<StopStrings::Part> push(uint32_t id) {
    if (!streamer)
      return StopStrings::Part();
    LLMC_TRY_ASSIGN(std::string text, streamer->push(id));
    return stops.push(text);
  }
  /// What was held back when the text ended otherwise than at a stop text.
  Result<StopStrings::Part> finish() {
    if (!streamer)
      return StopStrings::Part();
    LLMC_TRY_ASSIGN(std::string text, streamer->finish());
    StopStrings::Part part = stops.push(text);
    if (!part.isStopped)
      part.text += stops.finish();
    return part;
  }

private:
  std::optional<TextStreamer> streamer;
  StopStrings stops;
};

uint64_t freshSeed() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

std::vector<uint32_t> toIds(std::span<const int32_t> tokens) {
  return std::vector<uint32_t>(tokens.begin(), tokens.end());
}

} // namespace

SamplingOptions resolveSampling(SamplingOptions defaults, const SamplingWishes &wishes) {
  SamplingOptions options = defaults;
  options.temperature = wishes.temperature.value_or(options.temperature);
  options.topK = wishes.topK.value_or(options.topK);
  options.topP = wishes.topP.value_or(options.topP);
  options.minP = wishes.minP.value_or(options.minP);
  options.repetitionPenalty = wishes.repetitionPenalty.value_or(options.repetitionPenalty);
  if (wishes.temperature || wishes.topK || wishes.topP || wishes.minP)
    options.isGreedy = false;
  if (wishes.greedy)
    options.isGreedy = true;
  options.seed = wishes.seed ? *wishes.seed : options.isGreedy ? 0 : freshSeed();
  return options;
}

Status generate(Session &session, const Tokenizer *tokenizer, std::span<const int32_t> prompt,
                const GenerateOptions &options,
                const std::function<bool(const TokenEvent &)> &onToken, GenerateResult &result) {
  result = {};
  if (!options.stop.empty() && !tokenizer)
    return Status::error(Code::InvalidArgument,
                         "stop texts need a tokenizer, which the bundle does not have");
  if (prompt.empty() && session.logits().empty())
    return Status::error(Code::InvalidArgument, "the prompt has no tokens");
  LLMC_TRY(options.sampling.check());
  LLMC_TRY_ASSIGN(StopStrings stops, StopStrings::create(options.stop));
  result.promptTokens = prompt.size();
  Clock::time_point start = Clock::now();
  if (!prompt.empty()) {
    Status status = session.append(prompt);
    if (status.code() == Code::Cancelled)
      result.finish = FinishReason::Cancelled;
    LLMC_TRY(status);
  }
  result.prefillSeconds = secondsSince(start);

  LLMC_TRY_ASSIGN(Sampler sampler, Sampler::create(options.sampling, session.logits().size()));
  sampler.observe(toIds(session.tokens()));
  StopTokens stopTokens(options.stopTokens);
  TextOutput output(tokenizer, std::move(stops));
  start = Clock::now();
  while (true) {
    LLMC_TRY_ASSIGN(uint32_t id, sampler.sample(session.logits()));
    if (stopTokens.contains(id)) {
      result.finish = FinishReason::StopToken;
      break;
    }
    LLMC_TRY_ASSIGN(StopStrings::Part part, output.push(id));
    ++result.generatedTokens;
    auto token = static_cast<int32_t>(id);
    bool goOn = onToken({token, part.text});
    if (part.isStopped) {
      result.finish = FinishReason::StopString;
      break;
    }
    if (!goOn) {
      result.finish = FinishReason::Cancelled;
      break;
    }
    if (options.maxTokens != 0 && result.generatedTokens == options.maxTokens) {
      result.finish = FinishReason::Length;
      break;
    }
    if (session.tokens().size() == session.capacity()) {
      result.finish = FinishReason::ContextFull;
      break;
    }
    Status status = session.append(std::span(&token, 1));
    if (status.code() == Code::Cancelled) {
      result.finish = FinishReason::Cancelled;
      break;
    }
    LLMC_TRY(status);
  }
  result.decodeSeconds = secondsSince(start);
  if (result.finish != FinishReason::StopString) {
    LLMC_TRY_ASSIGN(StopStrings::Part rest, output.finish());
    if (!rest.text.empty())
      onToken({-1, rest.text});
    if (rest.isStopped && result.finish != FinishReason::Cancelled)
      result.finish = FinishReason::StopString;
  }
  if (result.finish == FinishReason::Cancelled)
    return Status::error(Code::Cancelled, "generation was stopped after {} tokens",
                         result.generatedTokens);
  return Status::ok();
}

} // namespace llmc
