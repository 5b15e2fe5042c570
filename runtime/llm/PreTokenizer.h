// SPDX-License-Identifier: Apache-2.0
//
// Cuts normalized text into the pieces that the model encodes one by one. The
// pieces lie behind each other in one buffer, so that cutting allocates nothing
// per piece.
#ifndef LLMC_RUNTIME_LLM_PRE_TOKENIZER_H
#define LLMC_RUNTIME_LLM_PRE_TOKENIZER_H

#include "runtime/llm/Regex.h"
#include "runtime/llm/TokenizerTables.h"

#include <string>
#include <vector>

namespace llmc {

struct TextPieces {
  struct Piece {
    size_t begin;
    size_t end;
    bool startsText; // the piece with which the whole input begins
  };
  std::string text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece &piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenizer {
public:
  static Result<PreTokenizer> create(const TokenizerTables &tables);

  /// `startsText`: `text` is where the user's whole input begins.
  Status apply(std::string_view text, bool startsText, TextPieces &out) const;

private:
  struct Step {
    uint32_t kind;
    uint32_t mode; // LLMC_SPLIT_* or LLMC_PREPEND_*
    bool isInverted;
    std::string_view a;
    std::optional<Regex> regex;
  };
  static Status split(const Step &step, TextPieces &pieces);
  static void rewrite(const Step &step, TextPieces &pieces);
  std::vector<Step> steps;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_PRE_TOKENIZER_H
