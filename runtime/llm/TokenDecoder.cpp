// SPDX-License-Identifier: Apache-2.0
//
// Each token runs through the steps one after the other; a step may keep text
// back in its state and must give it out in finish().
#include "runtime/llm/TokenDecoder.h"

#include "runtime/llm/TextNormalizer.h"
#include "runtime/llm/UnicodeText.h"

namespace llmc {

Result<TokenDecoder> TokenDecoder::create(const TokenizerTables &tables) {
  TokenDecoder decoder;
  bool isWhole = false;
  for (const llmc_text_step_record &record : tables.decoders()) {
    Step step{record.kind,           record.x,    record.y, isWhole, tables.text(record.a),
              tables.text(record.b), std::nullopt};
    if (record.kind == LLMC_DECODE_REPLACE_REGEX) {
      LLMC_TRY_ASSIGN(step.regex, Regex::compile(step.a));
    }
    decoder.stepList.push_back(std::move(step));
    isWhole |= record.kind == LLMC_DECODE_FUSE || record.kind == LLMC_DECODE_CHARS_TO_BYTES;
  }
  return decoder;
}

namespace {

/// The byte that a token "<0x0A>" names, or -1.
int byteOfFallbackToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return -1;
  int byte = 0;
  for (char digit : token.substr(3, 2)) {
    int value = digit >= '0' && digit <= '9'   ? digit - '0'
                : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                               : -1;
    if (value < 0)
      return -1;
    byte = byte * 16 + value;
  }
  return byte;
}

/// At most `atStart` and `atEnd` times `character` taken off the ends of one token.
std::string_view stripToken(std::string_view token, std::string_view character, uint32_t atStart,
                            uint32_t atEnd) {
  for (uint32_t i = 0; i < atStart && token.starts_with(character); ++i)
    token.remove_prefix(character.size());
  for (uint32_t i = 0; i < atEnd && token.ends_with(character); ++i)
    token.remove_suffix(character.size());
  return token;
}

/// The bytes a byte-level token stands for; a token with other characters stands for itself.
std::string bytesOfCharacters(std::string_view token) {
  std::string bytes;
  for (std::string_view rest = token; !rest.empty();) {
    Utf8Step step = stepUtf8(rest);
    int byte = step.kind == Utf8Step::Valid ? byteOfCharacter(step.codepoint) : -1;
    if (byte < 0)
      return std::string(token);
    bytes += static_cast<char>(byte);
    rest.remove_prefix(step.size);
  }
  return bytes;
}

std::string replaceMetaspace(std::string_view token, std::string_view mark, bool drops) {
  return replaceText(token, mark, drops ? "" : " ");
}

} // namespace

TokenStream::TokenStream(const TokenDecoder &decoder, bool holdsByteRuns)
    : decoder(decoder), holdsByteRuns(holdsByteRuns), states(decoder.steps().size()) {}

Status TokenStream::push(std::string_view text, std::string &out) {
  return run(0, std::string(text), out);
}

Status TokenStream::run(size_t index, std::string text, std::string &out) {
  for (; index < states.size(); ++index) {
    const TokenDecoder::Step &step = decoder.steps()[index];
    StepState &state = states[index];
    if (step.isWholeText)
      return runWholeText(index, std::move(text), /*isEnd=*/false, out);
    switch (step.kind) {
    case LLMC_DECODE_REPLACE:
      text = replaceText(text, step.a, step.b);
      break;
    case LLMC_DECODE_REPLACE_REGEX: {
      LLMC_TRY_ASSIGN(text, replaceMatches(toUtf8(text), *step.regex, step.b));
      break;
    }
    case LLMC_DECODE_BYTE_FALLBACK:
      return runByteFallback(index, std::move(text), out);
    case LLMC_DECODE_STRIP:
      text = std::string(stripToken(text, step.a, step.x, step.y));
      break;
    case LLMC_DECODE_METASPACE:
      text = replaceMetaspace(text, step.a, step.x != 0 && state.count++ == 0);
      break;
    case LLMC_DECODE_JOIN_SPACE:
      if (state.count++ > 0)
        text.insert(0, 1, ' ');
      break;
    case LLMC_DECODE_CHARS_TO_BYTES:
      state.held += bytesOfCharacters(text);
      text = takeUtf8(state.held, /*isEnd=*/false);
      break;
    default: // LLMC_DECODE_FUSE: marked by isWholeText of the steps behind it
      break;
    }
  }
  tail += text;
  out += takeUtf8(tail, /*isEnd=*/false);
  return Status::ok();
}

Status TokenStream::runByteFallback(size_t index, std::string text, std::string &out) {
  std::string &bytes = states[index].held;
  int byte = byteOfFallbackToken(text);
  if (byte < 0) {
    LLMC_TRY(flushByteRun(index, out));
    return run(index + 1, std::move(text), out);
  }
  bytes += static_cast<char>(byte);
  if (holdsByteRuns || !isUtf8(bytes))
    return Status::ok();
  return flushByteRun(index, out);
}

Status TokenStream::flushByteRun(size_t index, std::string &out) {
  std::string bytes = std::move(states[index].held);
  states[index].held.clear();
  if (bytes.empty())
    return Status::ok();
  if (isUtf8(bytes))
    return run(index + 1, std::move(bytes), out);
  for (size_t i = 0; i < bytes.size(); ++i)
    LLMC_TRY(run(index + 1, std::string(kReplacementCharacter), out));
  return Status::ok();
}

/// Steps over the joined text, which see it in parts: they keep back the end of a part where what
/// follows could change it.
Status TokenStream::runWholeText(size_t index, std::string text, bool isEnd, std::string &out) {
  const TokenDecoder::Step &step = decoder.steps()[index];
  StepState &state = states[index];
  text.insert(0, state.held);
  state.held.clear();
  if (step.kind == LLMC_DECODE_STRIP) {
    while (!state.started && state.count < step.x && text.starts_with(step.a)) {
      text.erase(0, step.a.size());
      ++state.count;
    }
    state.started |= !text.empty();
    std::string_view kept = stripToken(text, step.a, 0, step.y);
    if (!isEnd)
      state.held = text.substr(kept.size());
    text.resize(kept.size());
  } else if (step.kind == LLMC_DECODE_REPLACE) {
    std::string replaced;
    size_t from = 0;
    for (size_t at = text.find(step.a); at != std::string::npos; at = text.find(step.a, from)) {
      replaced.append(text, from, at - from).append(step.b);
      from = at + step.a.size();
    }
    std::string_view rest = std::string_view(text).substr(from);
    size_t keep = isEnd ? 0 : std::min(rest.size(), step.a.size() - 1);
    while (keep > 0 && !step.a.starts_with(rest.substr(rest.size() - keep)))
      --keep;
    replaced += rest.substr(0, rest.size() - keep);
    state.held = rest.substr(rest.size() - keep);
    text = std::move(replaced);
  }
  return run(index + 1, std::move(text), out);
}

/// Takes the whole characters off the front of `held`; the wrong ones become U+FFFD.
std::string TokenStream::takeUtf8(std::string &held, bool isEnd) {
  std::string text;
  std::string_view rest = held;
  while (!rest.empty()) {
    Utf8Step step = stepUtf8(rest);
    if (step.kind == Utf8Step::Incomplete && !isEnd)
      break;
    text += step.kind == Utf8Step::Valid ? rest.substr(0, step.size) : kReplacementCharacter;
    rest.remove_prefix(step.size);
  }
  held = std::string(rest);
  return text;
}

Status TokenStream::finish(std::string &out) {
  for (size_t index = 0; index < states.size(); ++index) {
    const TokenDecoder::Step &step = decoder.steps()[index];
    if (step.isWholeText)
      LLMC_TRY(runWholeText(index, "", /*isEnd=*/true, out));
    else if (step.kind == LLMC_DECODE_BYTE_FALLBACK)
      LLMC_TRY(flushByteRun(index, out));
    else if (step.kind == LLMC_DECODE_CHARS_TO_BYTES)
      LLMC_TRY(run(index + 1, takeUtf8(states[index].held, /*isEnd=*/true), out));
  }
  out += takeUtf8(tail, /*isEnd=*/true);
  return Status::ok();
}

} // namespace llmc
