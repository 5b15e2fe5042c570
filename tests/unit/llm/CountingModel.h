// SPDX-License-Identifier: Apache-2.0
//
// Bundles around the language model of tests/kernels/CountingKernels.c, with
// its cache kept in each way that a session knows, and the answer it must give.
#ifndef LLMC_TESTS_UNIT_LLM_COUNTINGMODEL_H
#define LLMC_TESTS_UNIT_LLM_COUNTINGMODEL_H

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::test {

constexpr int64_t kCountingVocabulary = 128;

struct CountingModel {
  enum Way {
    Recompute, ///< run: ids -> logits
    Cache,     ///< run: ids, mask, positions, past -> logits, present
    State,     ///< run with a state of fixed size
    Blocks,    ///< Recompute's run entry and a session entry
    Foreign,   ///< Recompute with an input that no role explains
  };
  Way way = Recompute;
  /// Cache: how the past lies.
  enum Layout {
    HeadsTokens, ///< (batch, 3, past, 2)
    Combined,    ///< (2, batch, 3, past, 2)
    TokensFirst, ///< (batch, past, 4)
    TokensLast,  ///< (batch * 3, 2, past)
  };
  Layout layout = HeadsTokens;
  uint64_t maxContext = 0;   ///< 0 = the manifest names none
  bool hasTokenizer = false; ///< bytes are tokens, 256 is "<end>"
  std::string generation;    ///< the entry's JSON; empty = no entry

  /// Writes the bundle; aborts when it can't.
  void write(const std::string &path) const;
};

/// What the model says after `tokens`.
int32_t countingNext(const std::vector<int32_t> &tokens);
/// The `count` tokens it generates greedily after `tokens`.
std::vector<int32_t> countingContinue(std::vector<int32_t> tokens, size_t count);

/// A bundle with one input and one output of each element type, which are equal, and a batch.
void writeIdentityBundle(const std::string &path);

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_LLM_COUNTINGMODEL_H
