// SPDX-License-Identifier: Apache-2.0
//
// Brings a model's generation defaults, which exporters spread over three
// files, into the one form that the runtime reads.
#ifndef LLMC_COMPILER_BUNDLE_GENERATION_COMPILER_H
#define LLMC_COMPILER_BUNDLE_GENERATION_COMPILER_H

#include "compiler/bundle/TokenizerCompiler.h"

#include <string>
#include <string_view>

namespace llmc {

struct GenerationCompileResult {
  std::string bytes;   // the bundle entry LLMC_ENTRY_GENERATION, a JSON object
  std::string message; // not empty: which field of which file is wrong, and there are no bytes
};

/// `generationConfig` is generation_config.json and `modelConfig` config.json, each empty if
/// absent. The begin, end and padding tokens come from the first that names them: generationConfig,
/// modelConfig (also its `text_config`), `named` of the tokenizer.
GenerationCompileResult compileGeneration(std::string_view generationConfig,
                                          std::string_view modelConfig, const NamedTokens &named);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_GENERATION_COMPILER_H
