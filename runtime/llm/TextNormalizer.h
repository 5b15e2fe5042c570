// SPDX-License-Identifier: Apache-2.0
//
// The normalizer steps of a tokenizer: a pure function from UTF-8 to UTF-8.
#ifndef LLMC_RUNTIME_LLM_TEXT_NORMALIZER_H
#define LLMC_RUNTIME_LLM_TEXT_NORMALIZER_H

#include "runtime/llm/Regex.h"
#include "runtime/llm/TokenizerTables.h"

#include <string>
#include <vector>

namespace llmc {

/// `text` with every occurrence of `from` (not empty), left to right, replaced by `to`.
std::string replaceText(std::string_view text, std::string_view from, std::string_view to);
/// `text` with every match replaced by `to`.
Result<std::string> replaceMatches(std::string_view text, const Regex &regex, std::string_view to);

class TextNormalizer {
public:
  static Result<TextNormalizer> create(const TokenizerTables &tables);

  bool isIdentity() const { return steps.empty(); }
  Result<std::string> apply(std::string_view text) const;

private:
  struct Step {
    uint32_t kind;
    bool atStart; // Strip
    bool atEnd;
    std::string_view a; // in the tables
    std::string_view b;
    std::optional<Regex> regex;
  };
  static Result<std::string> applyStep(const Step &step, std::string text);
  std::vector<Step> steps;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_TEXT_NORMALIZER_H
