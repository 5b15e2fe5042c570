// SPDX-License-Identifier: Apache-2.0
//
// Compiles a Hugging Face tokenizer.json into the tables of
// runtime/abi/TokenizerFormat.h. Same input, same bytes. What cannot be
// compiled exactly is refused by name, never approximated.
#ifndef LLMC_COMPILER_BUNDLE_TOKENIZER_COMPILER_H
#define LLMC_COMPILER_BUNDLE_TOKENIZER_COMPILER_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llmc {

/// Ids that tokenizer_config.json names by text.
struct NamedTokens {
  std::optional<uint32_t> beginOfText;
  std::optional<uint32_t> endOfText;
  std::optional<uint32_t> padding;
};

struct TokenizerCompileResult {
  enum Outcome {
    Compiled,
    /// A kind of tokenizer or step that llmc does not have: a bundle can do without the tokenizer.
    Unsupported,
    /// A file is not what it says it is.
    Invalid,
  };
  Outcome outcome = Invalid;
  std::string bytes;   // Compiled: the bundle entry LLMC_ENTRY_TOKENIZER
  std::string message; // else: what was found, what was expected, where
  NamedTokens named;   // Compiled
};

/// `tokenizerConfig` is tokenizer_config.json, or empty. Begin and end tokens come from the
/// post-processor of tokenizer.json; where that adds none by design (absent, or ByteLevel),
/// `add_bos_token` and `add_eos_token` of tokenizer_config.json decide.
TokenizerCompileResult compileTokenizer(std::string_view tokenizer,
                                        std::string_view tokenizerConfig);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_TOKENIZER_COMPILER_H
