// SPDX-License-Identifier: Apache-2.0
//
// llmc.h: sessions and generation.
#include "runtime/capi/BundleHandle.h"
#include "runtime/capi/CBoundary.h"
#include "runtime/llm/Generator.h"

using namespace llmc;
using namespace llmc::capi;

struct llmc_session {
  llmc_bundle *bundle; // a reference
  std::unique_ptr<Session> session;

  ~llmc_session() {
    session.reset();
    llmc_bundle_release(bundle);
  }
};

static_assert(int(FinishReason::Length) == LLMC_FINISH_LENGTH);
static_assert(int(FinishReason::StopToken) == LLMC_FINISH_STOP_TOKEN);
static_assert(int(FinishReason::StopString) == LLMC_FINISH_STOP_STRING);
static_assert(int(FinishReason::ContextFull) == LLMC_FINISH_CONTEXT_FULL);
static_assert(int(FinishReason::Cancelled) == LLMC_FINISH_CANCELLED);

namespace {

Result<GenerateOptions> toOptions(const llmc_generate_options &given, const Model &model) {
  GenerateOptions options;
  options.maxTokens = given.max_tokens;
  if (given.ignore_stop_tokens == 0)
    options.stopTokens = model.generationConfig().endTokens;
  SamplingWishes wishes;
  wishes.greedy = given.greedy != 0;
  auto wish = [](float value, std::optional<float> &out) {
    if (!(value < 0)) // a NaN is passed on, to be refused
      out = value;
  };
  wish(given.temperature, wishes.temperature);
  wish(given.top_p, wishes.topP);
  wish(given.min_p, wishes.minP);
  wish(given.repetition_penalty, wishes.repetitionPenalty);
  if (given.top_k >= 0)
    wishes.topK = static_cast<uint32_t>(given.top_k);
  if (given.has_seed != 0)
    wishes.seed = given.seed;
  options.sampling = resolveSampling(model.generationConfig().sampling, wishes);
  if (given.stop_count > 0)
    LLMC_TRY(checkGiven(given.stop, "options.stop"));
  for (size_t i = 0; i < given.stop_count; ++i) {
    LLMC_TRY(checkGiven(given.stop[i], "options.stop[i]"));
    options.stop.emplace_back(given.stop[i]);
  }
  return options;
}

} // namespace

llmc_status llmc_session_create(llmc_bundle *bundle, const llmc_session_options *given,
                                llmc_session **session, llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(session, "session"));
    *session = nullptr;
    LLMC_TRY(checkGiven(bundle, "bundle"));
    LLMC_TRY_ASSIGN(llmc_session_options options,
                    readOptions(given, LLMC_SESSION_OPTIONS_INIT, "options"));
    LLMC_TRY_ASSIGN(std::unique_ptr<Session> made, bundle->model->createSession(options.context));
    *session = new llmc_session{bundle, std::move(made)};
    llmc_bundle_retain(bundle);
    return Status::ok();
  });
}

void llmc_session_free(llmc_session *session) { delete session; }

uint64_t llmc_session_length(const llmc_session *session) {
  return session->session->tokens().size();
}

uint64_t llmc_session_capacity(const llmc_session *session) { return session->session->capacity(); }

llmc_status llmc_session_prefill(llmc_session *session, const int32_t *ids, size_t count,
                                 llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(session, "session"));
    if (count > 0)
      LLMC_TRY(checkGiven(ids, "ids"));
    return session->session->append({ids, count});
  });
}

llmc_status llmc_session_decode(llmc_session *session, int32_t id, llmc_error **error) {
  return llmc_session_prefill(session, &id, 1, error);
}

const float *llmc_session_logits(const llmc_session *session, size_t *count) {
  std::span<const float> logits = session->session->logits();
  if (count)
    *count = logits.size();
  return logits.empty() ? nullptr : logits.data();
}

llmc_status llmc_session_rewind(llmc_session *session, uint64_t length, llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(session, "session"));
    return session->session->rewind(length);
  });
}

void llmc_session_cancel(llmc_session *session) { session->session->cancel(); }

llmc_status llmc_session_generate(llmc_session *session, const int32_t *prompt, size_t prompt_count,
                                  const llmc_generate_options *given, llmc_token_callback callback,
                                  void *user, llmc_generate_result *result, llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(session, "session"));
    if (prompt_count > 0)
      LLMC_TRY(checkGiven(prompt, "prompt"));
    LLMC_TRY_ASSIGN(llmc_generate_options cOptions,
                    readOptions(given, LLMC_GENERATE_OPTIONS_INIT, "options"));
    const Model &model = *session->bundle->model;
    LLMC_TRY_ASSIGN(GenerateOptions options, toOptions(cOptions, model));
    auto tokenizer = model.tokenizer();
    auto onToken = [&](const TokenEvent &event) {
      if (!callback)
        return true;
      llmc_token_event cEvent = {sizeof(llmc_token_event), event.id, event.text.data(),
                                 event.text.size()};
      return callback(user, &cEvent) == 0;
    };
    GenerateResult outcome;
    Status status = generate(*session->session, tokenizer.isOk() ? &*tokenizer : nullptr,
                             {prompt, prompt_count}, options, onToken, outcome);
    if (result) {
      llmc_generate_result value = {};
      value.finish = static_cast<llmc_finish>(outcome.finish);
      value.prompt_tokens = outcome.promptTokens;
      value.generated_tokens = outcome.generatedTokens;
      value.prefill_seconds = outcome.prefillSeconds;
      value.decode_seconds = outcome.decodeSeconds;
      LLMC_TRY(writeStruct(value, result, "result"));
    }
    return status;
  });
}
