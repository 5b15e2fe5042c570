// SPDX-License-Identifier: Apache-2.0
//
// Splits and rewrites pieces as the `tokenizers` package does: a split sees one
// piece at a time, so that look-around never crosses an earlier cut.
#include "runtime/llm/PreTokenizer.h"

#include "runtime/llm/TextNormalizer.h"
#include "runtime/llm/UnicodeText.h"

#include <algorithm>

namespace llmc {

namespace {

/// A stretch of a piece that matched the pattern, or that lies between matches.
struct Stretch {
  size_t begin;
  size_t end;
  bool isMatch;
};

Status findMatches(std::string_view text, std::string_view literal, const Regex *regex,
                   std::vector<MatchRange> &matches) {
  if (regex)
    return regex->findAll(text, matches);
  matches.clear();
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size()))
    matches.push_back({at, at + literal.size()});
  return Status::ok();
}

void toStretches(const std::vector<MatchRange> &matches, size_t size, bool isInverted,
                 std::vector<Stretch> &stretches) {
  stretches.clear();
  size_t end = 0;
  for (MatchRange match : matches) {
    if (end != match.begin)
      stretches.push_back({end, match.begin, isInverted});
    stretches.push_back({match.begin, match.end, !isInverted});
    end = match.end;
  }
  if (end != size)
    stretches.push_back({end, size, isInverted});
}

/// Joins or drops stretches in place; afterwards each is a piece.
void applyMode(uint32_t mode, std::vector<Stretch> &stretches) {
  std::vector<Stretch> &s = stretches;
  size_t kept = 0;
  bool previous = false;
  switch (mode) {
  case LLMC_SPLIT_REMOVED:
    std::erase_if(s, [](const Stretch &stretch) { return stretch.isMatch; });
    return;
  case LLMC_SPLIT_ISOLATED:
    return;
  case LLMC_SPLIT_MERGED_WITH_PREVIOUS:
  case LLMC_SPLIT_CONTIGUOUS:
    for (size_t i = 0; i < s.size(); ++i) {
      Stretch stretch = s[i];
      bool joins = mode == LLMC_SPLIT_CONTIGUOUS ? stretch.isMatch == previous
                                                 : stretch.isMatch && !previous;
      if (joins && kept > 0)
        s[kept - 1].end = stretch.end;
      else
        s[kept++] = stretch;
      previous = stretch.isMatch;
    }
    s.resize(kept);
    return;
  default: // LLMC_SPLIT_MERGED_WITH_NEXT: as with the previous, seen from the end
    std::reverse(s.begin(), s.end());
    for (size_t i = 0; i < s.size(); ++i) {
      Stretch stretch = s[i];
      if (stretch.isMatch && !previous && kept > 0)
        s[kept - 1].begin = stretch.begin;
      else
        s[kept++] = stretch;
      previous = stretch.isMatch;
    }
    s.resize(kept);
    std::reverse(s.begin(), s.end());
    return;
  }
}

} // namespace

Result<PreTokenizer> PreTokenizer::create(const TokenizerTables &tables) {
  PreTokenizer preTokenizer;
  for (const llmc_text_step_record &record : tables.pretokenizers()) {
    Step step{record.kind, record.x, record.y != 0, tables.text(record.a), std::nullopt};
    if (record.kind == LLMC_SPLIT_REGEX) {
      LLMC_TRY_ASSIGN(step.regex, Regex::compile(step.a));
    }
    preTokenizer.steps.push_back(std::move(step));
  }
  return preTokenizer;
}

Status PreTokenizer::apply(std::string_view text, bool startsText, TextPieces &out) const {
  out.text.assign(text);
  out.pieces.clear();
  if (!text.empty())
    out.pieces.push_back({0, text.size(), startsText});
  for (const Step &step : steps) {
    if (step.kind == LLMC_SPLIT_TEXT || step.kind == LLMC_SPLIT_REGEX)
      LLMC_TRY(split(step, out));
    else
      rewrite(step, out);
  }
  return Status::ok();
}

Status PreTokenizer::split(const Step &step, TextPieces &pieces) {
  std::vector<TextPieces::Piece> cut;
  std::vector<MatchRange> matches;
  std::vector<Stretch> stretches;
  for (const TextPieces::Piece &piece : pieces.pieces) {
    LLMC_TRY(findMatches(pieces.view(piece), step.a, step.regex ? &*step.regex : nullptr, matches));
    toStretches(matches, piece.end - piece.begin, step.isInverted, stretches);
    applyMode(step.mode, stretches);
    for (const Stretch &stretch : stretches)
      if (stretch.begin != stretch.end)
        cut.push_back({piece.begin + stretch.begin, piece.begin + stretch.end,
                       piece.startsText && stretch.begin == 0});
  }
  pieces.pieces = std::move(cut);
  return Status::ok();
}

void PreTokenizer::rewrite(const Step &step, TextPieces &pieces) {
  std::string rewritten;
  rewritten.reserve(pieces.text.size() * 3 / 2 + 8);
  for (TextPieces::Piece &piece : pieces.pieces) {
    std::string_view text = pieces.view(piece);
    size_t begin = rewritten.size();
    switch (step.kind) {
    case LLMC_PREFIX_SPACE:
      if (!text.starts_with(' '))
        rewritten += ' ';
      rewritten += text;
      break;
    case LLMC_BYTES_TO_CHARS:
      for (char byte : text)
        appendUtf8(rewritten, characterOfByte(static_cast<uint8_t>(byte)));
      break;
    default: { // LLMC_METASPACE
      std::string replaced = replaceText(text, " ", step.a);
      bool prepends =
          step.mode == LLMC_PREPEND_ALWAYS || (step.mode == LLMC_PREPEND_FIRST && piece.startsText);
      if (prepends && !replaced.starts_with(step.a))
        rewritten += step.a;
      rewritten += replaced;
      break;
    }
    }
    piece.begin = begin;
    piece.end = rewritten.size();
  }
  pieces.text = std::move(rewritten);
}

} // namespace llmc
