// SPDX-License-Identifier: Apache-2.0
//
// Reads the normalizer, pre-tokenizer, decoder and post-processor of a
// tokenizer.json into the step lists of a TokenizerImage.
#ifndef LLMC_COMPILER_BUNDLE_TOKENIZER_STEPS_H
#define LLMC_COMPILER_BUNDLE_TOKENIZER_STEPS_H

#include "compiler/bundle/TokenizerImage.h"

#include <nlohmann/json_fwd.hpp>

namespace llmc {

/// Why a tokenizer was refused; empty text: it was not.
struct TokenizerProblem {
  bool isUnsupported = false; // else the file is wrong
  std::string text;
};

/// False if `problem` was set. `decidesSpecialTokens` tells whether the post-processor is of a kind
/// that puts tokens around a text (even if it puts none).
bool readTokenizerSteps(const nlohmann::json &document, TokenizerImage &image,
                        bool &decidesSpecialTokens, TokenizerProblem &problem);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_TOKENIZER_STEPS_H
