// SPDX-License-Identifier: Apache-2.0
//
// Text to token ids and back, from the tables a bundle carries. Gives the ids
// and the text that the `tokenizers` package gives for the tokenizer.json the
// tables were compiled from; that file's truncation and padding are not applied.
#ifndef LLMC_RUNTIME_LLM_TOKENIZER_H
#define LLMC_RUNTIME_LLM_TOKENIZER_H

#include "runtime/core/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

class TokenStream;

/// Immutable and safe to use from several threads; copies share the tables.
class Tokenizer {
public:
  /// `bytes` is the bundle entry LLMC_ENTRY_TOKENIZER; it is used in place and stays valid while
  /// `owner` lives (the caller sees to it when `owner` is null).
  static Result<Tokenizer> load(std::span<const std::byte> bytes,
                                std::shared_ptr<const void> owner = nullptr);

  /// Bytes that are not UTF-8 count as U+FFFD. `addSpecialTokens`: with the begin and end tokens
  /// that the tokenizer's files ask for. Special tokens written in `text` are recognised always.
  Result<std::vector<uint32_t>> encode(std::string_view text, bool addSpecialTokens) const;

  /// Ids that no token has are left out, as are special tokens if `skipSpecialTokens`.
  Result<std::string> decode(std::span<const uint32_t> ids, bool skipSpecialTokens) const;

  /// One more than the highest id of any token.
  uint32_t tokenCount() const;
  /// A token as the vocabulary spells it ("Ġthe", "<0x0A>"), if there is one.
  std::optional<std::string_view> tokenText(uint32_t id) const;
  /// The id of an added token or else of a vocabulary entry.
  std::optional<uint32_t> findToken(std::string_view text) const;
  bool isSpecialToken(uint32_t id) const;

private:
  friend class TextStreamer;
  struct Parts;
  std::shared_ptr<const Parts> parts;
};

/// Decodes the tokens of one text as they come.
class TextStreamer {
public:
  TextStreamer(const Tokenizer &tokenizer, bool skipSpecialTokens);
  ~TextStreamer();
  TextStreamer(TextStreamer &&) noexcept;
  TextStreamer &operator=(TextStreamer &&) noexcept;

  /// The whole characters that became certain with this token; often empty.
  Result<std::string> push(uint32_t id);
  /// What was held back; incomplete characters become U+FFFD.
  Result<std::string> finish();

private:
  std::shared_ptr<const Tokenizer::Parts> parts;
  bool skipSpecialTokens;
  std::unique_ptr<TokenStream> stream;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_TOKENIZER_H
