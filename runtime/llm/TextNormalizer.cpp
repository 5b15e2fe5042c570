// SPDX-License-Identifier: Apache-2.0
//
// One case per step kind; the meanings are those of the `tokenizers` package.
#include "runtime/llm/TextNormalizer.h"

#include "runtime/llm/UnicodeText.h"

namespace llmc {

std::string replaceText(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  out += text;
  return out;
}

Result<std::string> replaceMatches(std::string_view text, const Regex &regex, std::string_view to) {
  std::vector<MatchRange> matches;
  LLMC_TRY(regex.findAll(text, matches));
  std::string out;
  out.reserve(text.size());
  size_t end = 0;
  for (MatchRange match : matches) {
    out += text.substr(end, match.begin - end);
    out += to;
    end = match.end;
  }
  out += text.substr(end);
  return out;
}

namespace {

std::string stripSpaces(std::string_view text, bool atStart, bool atEnd) {
  while (atStart && !text.empty()) {
    Utf8Step step = stepUtf8(text);
    if (!isSpace(step.codepoint))
      break;
    text.remove_prefix(step.size);
  }
  while (atEnd && !text.empty()) {
    uint32_t last = lastCodepoint(text);
    if (!isSpace(last))
      break;
    text.remove_suffix(utf8SizeOf(last));
  }
  return std::string(text);
}

std::string dropCombiningMarks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    Utf8Step step = stepUtf8(text);
    if (!isCombiningMark(step.codepoint))
      out += text.substr(0, step.size);
    text.remove_prefix(step.size);
  }
  return out;
}

} // namespace

Result<TextNormalizer> TextNormalizer::create(const TokenizerTables &tables) {
  TextNormalizer normalizer;
  for (const llmc_text_step_record &record : tables.normalizers()) {
    Step step{record.kind,           record.x != 0,         record.y != 0,
              tables.text(record.a), tables.text(record.b), std::nullopt};
    if (record.kind == LLMC_NORMALIZE_REPLACE_REGEX) {
      LLMC_TRY_ASSIGN(step.regex, Regex::compile(step.a));
    }
    normalizer.steps.push_back(std::move(step));
  }
  return normalizer;
}

Result<std::string> TextNormalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step &step : steps) {
    LLMC_TRY_ASSIGN(out, applyStep(step, std::move(out)));
  }
  return out;
}

Result<std::string> TextNormalizer::applyStep(const Step &step, std::string text) {
  switch (step.kind) {
  case LLMC_NORMALIZE_NFC:
    return normalizeUnicode(text, NormalForm::Nfc);
  case LLMC_NORMALIZE_NFD:
    return normalizeUnicode(text, NormalForm::Nfd);
  case LLMC_NORMALIZE_NFKC:
    return normalizeUnicode(text, NormalForm::Nfkc);
  case LLMC_NORMALIZE_NFKD:
    return normalizeUnicode(text, NormalForm::Nfkd);
  case LLMC_NORMALIZE_LOWERCASE:
    return lowercase(text);
  case LLMC_NORMALIZE_STRIP:
    return stripSpaces(text, step.atStart, step.atEnd);
  case LLMC_NORMALIZE_STRIP_ACCENTS:
    return dropCombiningMarks(text);
  case LLMC_NORMALIZE_PREPEND:
    return text.empty() ? text : std::string(step.a) + text;
  case LLMC_NORMALIZE_REPLACE:
    return replaceText(text, step.a, step.b);
  case LLMC_NORMALIZE_REPLACE_REGEX:
    return replaceMatches(text, *step.regex, step.b);
  default:
    return Status::error(Code::Internal, "normalizer kind {} passed the check", step.kind);
  }
}

} // namespace llmc
