// SPDX-License-Identifier: Apache-2.0
//
// What a compiled tokenizer holds, before and as bytes. Whoever fills it sees
// to the meaning; writeTokenizerImage() only lays the tables out.
#ifndef LLMC_COMPILER_BUNDLE_TOKENIZER_IMAGE_H
#define LLMC_COMPILER_BUNDLE_TOKENIZER_IMAGE_H

#include "runtime/abi/TokenizerFormat.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc {

struct TextStep {
  uint32_t kind = 0;
  uint32_t x = 0;
  uint32_t y = 0;
  std::string a = {};
  std::string b = {};
};

struct AddedToken {
  std::string text;
  uint32_t id;
  uint32_t flags; // LLMC_ADDED_*
};

struct TokenizerImage {
  struct Token {
    std::optional<std::string> text; // nothing: no token has this id
    bool isInVocabulary = false;
    bool isSpecial = false;
  };
  uint32_t modelFlags = 0;
  std::optional<uint32_t> unknownToken;
  std::string continuingPrefix;
  std::string endOfWordSuffix;
  std::vector<Token> tokens;             // by id
  std::vector<llmc_merge_record> merges; // by rank; of equal pairs the last counts
  std::vector<AddedToken> added;         // each text once
  std::vector<TextStep> normalizers;
  std::vector<TextStep> pretokenizers;
  std::vector<TextStep> decoders;
  std::vector<uint32_t> prefixIds;
  std::vector<uint32_t> suffixIds;
};

/// The bytes; nothing if the strings exceed 4 GiB.
std::optional<std::string> writeTokenizerImage(const TokenizerImage &image);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_TOKENIZER_IMAGE_H
