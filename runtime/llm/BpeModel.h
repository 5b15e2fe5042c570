// SPDX-License-Identifier: Apache-2.0
//
// Byte-pair encoding of one piece of text. The merges happen in exactly the
// order in which the `tokenizers` package does them, ties and stale candidates
// included, because a different order gives different tokens.
#ifndef LLMC_RUNTIME_LLM_BPE_MODEL_H
#define LLMC_RUNTIME_LLM_BPE_MODEL_H

#include "runtime/llm/TokenizerTables.h"

#include <string>
#include <string_view>
#include <vector>

namespace llmc {

class BpeModel {
public:
  /// `tables` outlives the model.
  explicit BpeModel(const TokenizerTables &tables) : tables(tables) {}

  /// Appends the tokens of `piece` (UTF-8) to `ids`. Reuses its buffers: make one per text.
  void encode(std::string_view piece, std::vector<uint32_t> &ids);

private:
  /// A token of the piece so far, linked to its neighbours by index.
  struct Symbol {
    uint32_t id;
    int64_t previous;
    int64_t next;
    bool isMerged; // into the symbol before it
  };
  struct Candidate {
    uint32_t rank;
    uint32_t result;
    size_t position; // of the left symbol
  };

  void addCharacters(std::string_view piece);
  bool addBytes(std::string_view character);
  void addSymbol(uint32_t id);
  void addCandidate(int64_t left, int64_t right);
  void mergeAll();

  const TokenizerTables &tables;
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue; // heap, lowest rank and leftmost position first
  std::string marked;           // a character with its subword marks
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_BPE_MODEL_H
