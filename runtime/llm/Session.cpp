// SPDX-License-Identifier: Apache-2.0
//
// The session keeps the tokens, the decoder what the model made of them. The
// decoder may have taken in fewer than there are, after a rewind that it
// couldn't follow; the next step brings it up to date.
#include "runtime/llm/Session.h"

#include <algorithm>

namespace llmc {

Result<std::unique_ptr<Session>> Session::create(const std::shared_ptr<Executor> &executor,
                                                 std::shared_ptr<KvPool> pool, uint64_t capacity) {
  constexpr uint64_t kMaxCapacity = uint64_t(1) << 31; // token ids and positions are 32 bits
  if (capacity == 0 || capacity > kMaxCapacity)
    return Status::error(Code::InvalidArgument, "a context of {} tokens is outside of 1 to {}",
                         capacity, kMaxCapacity);
  LLMC_TRY_ASSIGN(std::unique_ptr<Decoder> decoder,
                  Decoder::create(executor, std::move(pool), static_cast<int64_t>(capacity)));
  return std::unique_ptr<Session>(new Session(std::move(decoder), capacity));
}

bool Session::takeCancel() {
  bool wasSet = cancelFlag.isSet();
  if (wasSet)
    cancelFlag.clear();
  return wasSet;
}

Status Session::append(std::span<const int32_t> ids) {
  if (ids.empty())
    return Status::error(Code::InvalidArgument, "there are no tokens to append");
  for (int32_t id : ids)
    if (id < 0)
      return Status::error(Code::InvalidArgument, "{} is not a token id", id);
  uint64_t before = history.size();
  if (ids.size() > maxTokens - before)
    return Status::error(Code::ResourceExhausted,
                         "the context is full: it holds {} tokens of at most {}, and {} more were "
                         "to be added; ask for a larger context or shorten the text",
                         before, maxTokens, ids.size());
  history.insert(history.end(), ids.begin(), ids.end());
  Status status = computeTail();
  hasLogits = status.isOk();
  if (!status.isOk()) {
    history.resize(before);
    if (decoder->length() > before)
      LLMC_TRY(decoder->truncate(before));
    if (status.code() == Code::Cancelled)
      cancelFlag.clear();
  }
  return status;
}

/// Gives the decoder all tokens that it hasn't taken in.
Status Session::computeTail() {
  CallOptions options;
  options.cancel = &cancelFlag;
  options.profile = profiling;
  Decoder::Step step = decoder->step();
  if (step.isExact && (history.size() - decoder->length()) % step.tokens != 0)
    return Status::error(Code::InvalidArgument,
                         "the model takes exactly {} tokens at a time, but {} were given",
                         step.tokens, history.size() - decoder->length());
  while (decoder->length() < history.size()) {
    if (cancelFlag.isSet())
      return Status::error(Code::Cancelled, "stopped after {} of {} tokens", decoder->length(),
                           history.size());
    size_t end = decoder->length() + std::min(step.tokens, history.size() - decoder->length());
    LLMC_TRY(decoder->advance(std::span(history).first(end), options));
  }
  return Status::ok();
}

std::span<const float> Session::logits() const {
  return hasLogits ? decoder->logits() : std::span<const float>();
}

Status Session::rewind(uint64_t length) {
  if (length > history.size())
    return Status::error(Code::InvalidArgument,
                         "can't go back to {} tokens: the sequence has only {}", length,
                         history.size());
  if (length == history.size())
    return Status::ok();
  history.resize(length);
  hasLogits = false;
  if (decoder->length() > length)
    LLMC_TRY(decoder->truncate(length));
  return Status::ok();
}

} // namespace llmc
