// SPDX-License-Identifier: Apache-2.0
//
// Finds added tokens in text, leftmost first and of those the longest, as they
// are found before the model sees the text.
#ifndef LLMC_RUNTIME_LLM_ADDED_TOKENS_H
#define LLMC_RUNTIME_LLM_ADDED_TOKENS_H

#include "runtime/llm/TextNormalizer.h"
#include "runtime/llm/TokenizerTables.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace llmc {

/// A part of a text: an added token, or what lies between them.
struct TextSegment {
  size_t begin;
  size_t end;
  std::optional<uint32_t> token;
};

class AddedTokens {
public:
  enum class Which { AsWritten, Normalized };
  /// The tokens looked for in the text as written, or those looked for in normalized text.
  static Result<AddedTokens> create(const TokenizerTables &tables, Which which,
                                    const TextNormalizer &normalizer);

  bool isEmpty() const { return tokens.empty(); }
  std::vector<TextSegment> split(std::string_view text) const;

private:
  struct Token {
    std::string text;
    uint32_t id;
    uint32_t flags;
  };
  /// The longest token with which `text` starts, or null.
  const Token *match(std::string_view text) const;

  std::vector<Token> tokens; // sorted by text, each text once
  std::array<bool, 256> startsToken{};
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_ADDED_TOKENS_H
