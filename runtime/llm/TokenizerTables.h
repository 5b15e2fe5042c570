// SPDX-License-Identifier: Apache-2.0
//
// A checked view of a compiled tokenizer (abi/TokenizerFormat.h). After open()
// every offset, id and step kind in the tables is in range, so that the code
// that reads them checks nothing again.
#ifndef LLMC_RUNTIME_LLM_TOKENIZER_TABLES_H
#define LLMC_RUNTIME_LLM_TOKENIZER_TABLES_H

#include "runtime/abi/TokenizerFormat.h"
#include "runtime/core/Status.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace llmc {

class TokenizerTables {
public:
  /// `bytes` stay valid while `owner` lives; they are copied only if they are not 8-byte aligned.
  static Result<TokenizerTables> open(std::span<const std::byte> bytes,
                                      std::shared_ptr<const void> owner);

  std::string_view text(llmc_str range) const { return {strings + range.offset, range.size}; }

  /// One more than the highest id.
  uint32_t tokenCount() const { return static_cast<uint32_t>(tokens.size()); }
  /// The text of a token; nothing where no token has the id.
  std::optional<std::string_view> tokenText(uint32_t id) const;
  bool isSpecial(uint32_t id) const { return (tokenFlags[id] & LLMC_TOKEN_SPECIAL) != 0; }

  /// Looks a text up in the model's vocabulary, which added tokens need not be in.
  std::optional<uint32_t> findInVocabulary(std::string_view token) const;
  struct Merge {
    uint32_t rank;
    uint32_t result;
  };
  std::optional<Merge> findMerge(uint32_t left, uint32_t right) const;

  bool hasModelFlag(uint32_t flag) const { return (header->model_flags & flag) != 0; }
  std::optional<uint32_t> unknownToken() const;
  std::string_view continuingPrefix() const { return text(header->continuing_prefix); }
  std::string_view endOfWordSuffix() const { return text(header->end_of_word_suffix); }

  std::span<const llmc_added_token_record> addedTokens() const { return added; }
  std::span<const llmc_text_step_record> normalizers() const { return normalizerSteps; }
  std::span<const llmc_text_step_record> pretokenizers() const { return pretokenizerSteps; }
  std::span<const llmc_text_step_record> decoders() const { return decoderSteps; }
  std::span<const uint32_t> prefixIds() const { return prefix; }
  std::span<const uint32_t> suffixIds() const { return suffix; }

private:
  friend class TokenizerTablesReader;

  std::shared_ptr<const void> owner;
  const llmc_tokenizer_header *header = nullptr;
  const char *strings = nullptr;
  std::span<const llmc_str> tokens;
  std::span<const uint8_t> tokenFlags;
  std::span<const uint32_t> vocabSlots;
  std::span<const llmc_merge_record> merges;
  std::span<const uint32_t> mergeSlots;
  std::span<const llmc_added_token_record> added;
  std::span<const llmc_text_step_record> normalizerSteps;
  std::span<const llmc_text_step_record> pretokenizerSteps;
  std::span<const llmc_text_step_record> decoderSteps;
  std::span<const uint32_t> prefix;
  std::span<const uint32_t> suffix;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_TOKENIZER_TABLES_H
