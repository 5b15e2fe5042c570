// SPDX-License-Identifier: Apache-2.0
//
// The sorted list serves as a trie: each further byte narrows the range of
// tokens that still match, so that nothing needs to be built at load.
#include "runtime/llm/AddedTokens.h"

#include "runtime/llm/UnicodeText.h"

#include <algorithm>

namespace llmc {

Result<AddedTokens> AddedTokens::create(const TokenizerTables &tables, Which which,
                                        const TextNormalizer &normalizer) {
  AddedTokens added;
  for (const llmc_added_token_record &record : tables.addedTokens()) {
    bool isNormalized = (record.flags & LLMC_ADDED_NORMALIZED) != 0;
    if (isNormalized != (which == Which::Normalized))
      continue;
    std::string text(tables.text(record.text));
    if (isNormalized) {
      LLMC_TRY_ASSIGN(text, normalizer.apply(text));
    }
    if (!text.empty())
      added.tokens.push_back({std::move(text), record.id, record.flags});
  }
  // Of tokens that normalize to the same text the one with the lower id counts.
  std::sort(added.tokens.begin(), added.tokens.end(), [](const Token &a, const Token &b) {
    return a.text != b.text ? a.text < b.text : a.id < b.id;
  });
  auto isSame = [](const Token &a, const Token &b) { return a.text == b.text; };
  added.tokens.erase(std::unique(added.tokens.begin(), added.tokens.end(), isSame),
                     added.tokens.end());
  for (const Token &token : added.tokens)
    added.startsToken[static_cast<uint8_t>(token.text[0])] = true;
  return added;
}

const AddedTokens::Token *AddedTokens::match(std::string_view text) const {
  const Token *longest = nullptr;
  auto low = tokens.begin();
  auto high = tokens.end();
  for (size_t length = 0; length < text.size() && low != high; ++length) {
    auto byteOf = [length](const Token &token) {
      return token.text.size() > length ? static_cast<uint8_t>(token.text[length]) : -1;
    };
    int byte = static_cast<uint8_t>(text[length]);
    low = std::partition_point(low, high, [&](const Token &t) { return byteOf(t) < byte; });
    high = std::partition_point(low, high, [&](const Token &t) { return byteOf(t) <= byte; });
    // The shortest of those that share this prefix is sorted first.
    if (low != high && low->text.size() == length + 1)
      longest = &*low;
  }
  return longest;
}

namespace {

bool endsWithWord(std::string_view text) {
  return !text.empty() && isWordCharacter(lastCodepoint(text));
}

bool startsWithWord(std::string_view text) {
  return !text.empty() && isWordCharacter(stepUtf8(text).codepoint);
}

/// Where the white space that ends `text` begins.
size_t startOfTrailingSpace(std::string_view text) {
  while (!text.empty() && isSpace(lastCodepoint(text)))
    text.remove_suffix(utf8SizeOf(lastCodepoint(text)));
  return text.size();
}

size_t sizeOfLeadingSpace(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    Utf8Step step = stepUtf8(text.substr(size));
    if (!isSpace(step.codepoint))
      break;
    size += step.size;
  }
  return size;
}

} // namespace

std::vector<TextSegment> AddedTokens::split(std::string_view text) const {
  std::vector<TextSegment> segments;
  size_t done = 0; // end of the last segment
  for (size_t at = 0; at < text.size();) {
    const Token *token =
        startsToken[static_cast<uint8_t>(text[at])] ? match(text.substr(at)) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->text.size();
    at = end;
    if ((token->flags & LLMC_ADDED_SINGLE_WORD) != 0 &&
        (endsWithWord(text.substr(0, begin)) || startsWithWord(text.substr(end))))
      continue;
    if ((token->flags & LLMC_ADDED_LSTRIP) != 0)
      begin = std::max(startOfTrailingSpace(text.substr(0, begin)), done);
    if ((token->flags & LLMC_ADDED_RSTRIP) != 0)
      end += sizeOfLeadingSpace(text.substr(end));
    if (done < begin)
      segments.push_back({done, begin, std::nullopt});
    segments.push_back({begin, end, token->id});
    done = end;
  }
  if (done < text.size())
    segments.push_back({done, text.size(), std::nullopt});
  return segments;
}

} // namespace llmc
