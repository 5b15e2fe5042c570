// SPDX-License-Identifier: Apache-2.0
//
// Turns tokens into text, one at a time: the only decoder there is, so that a
// streamed text and a text decoded at once cannot differ. What comes out is
// always whole UTF-8 characters.
#ifndef LLMC_RUNTIME_LLM_TOKEN_DECODER_H
#define LLMC_RUNTIME_LLM_TOKEN_DECODER_H

#include "runtime/llm/Regex.h"
#include "runtime/llm/TokenizerTables.h"

#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// The decoder steps of a tokenizer. Immutable, shared by its streams.
class TokenDecoder {
public:
  static Result<TokenDecoder> create(const TokenizerTables &tables);

  struct Step {
    uint32_t kind;
    uint32_t x;
    uint32_t y;
    bool isWholeText; // it follows a step that joins the tokens
    std::string_view a;
    std::string_view b;
    std::optional<Regex> regex;
  };
  const std::vector<Step> &steps() const { return stepList; }

private:
  std::vector<Step> stepList;
};

/// One text being decoded.
class TokenStream {
public:
  /// `holdsByteRuns`: bytes of byte-fallback tokens wait until a token of another kind ends their
  /// run, since one wrong byte makes the whole run U+FFFDs. Without it a run is given out as soon
  /// as it is UTF-8, and only what follows can become U+FFFD.
  TokenStream(const TokenDecoder &decoder, bool holdsByteRuns);

  /// Appends to `out` the text that is certain once token `text` is known.
  Status push(std::string_view text, std::string &out);
  /// Appends what was held back. The stream is then at its end.
  Status finish(std::string &out);

private:
  /// What a step remembers between tokens.
  struct StepState {
    uint64_t count = 0;   // tokens seen; Strip over the whole text: characters dropped
    bool started = false; // Strip: text has begun
    std::string held;
  };

  Status run(size_t step, std::string text, std::string &out);
  Status runByteFallback(size_t step, std::string text, std::string &out);
  Status flushByteRun(size_t step, std::string &out);
  Status runWholeText(size_t step, std::string text, bool isEnd, std::string &out);
  std::string takeUtf8(std::string &held, bool isEnd);

  const TokenDecoder &decoder;
  bool holdsByteRuns;
  std::vector<StepState> states;
  std::string tail; // bytes that may yet become a character
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_TOKEN_DECODER_H
