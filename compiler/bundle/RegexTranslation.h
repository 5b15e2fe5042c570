// SPDX-License-Identifier: Apache-2.0
//
// Rewrites a regular expression of the `tokenizers` package (Oniguruma, Ruby
// syntax) so that PCRE2 finds the same matches.
#ifndef LLMC_COMPILER_BUNDLE_REGEX_TRANSLATION_H
#define LLMC_COMPILER_BUNDLE_REGEX_TRANSLATION_H

#include <string>
#include <string_view>

namespace llmc {

struct RegexTranslation {
  std::string pattern; // for PCRE2 with UTF | UCP | MULTILINE
  std::string problem; // not empty: why there is no pattern
};
RegexTranslation translateRegex(std::string_view pattern);

/// A pattern that matches `text` and nothing else.
std::string quoteForRegex(std::string_view text);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_REGEX_TRANSLATION_H
