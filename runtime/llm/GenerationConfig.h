// SPDX-License-Identifier: Apache-2.0
//
// How a model asks to be sampled when the user does not say: the bundle entry
// LLMC_ENTRY_GENERATION, which the compiler makes from generation_config.json.
#ifndef LLMC_RUNTIME_LLM_GENERATION_CONFIG_H
#define LLMC_RUNTIME_LLM_GENERATION_CONFIG_H

#include "runtime/core/Status.h"
#include "runtime/llm/Sampler.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace llmc {

struct GenerationConfig {
  SamplingOptions sampling;
  std::vector<uint32_t> endTokens; // generation ends at any of them
  std::optional<uint32_t> beginToken;
  std::optional<uint32_t> paddingToken;
  std::optional<uint32_t> maxNewTokens;

  /// `json` holds an object; absent fields keep the values above. A field of another type or out of
  /// its range is Corrupt.
  static Result<GenerationConfig> parse(std::string_view json);
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_GENERATION_CONFIG_H
