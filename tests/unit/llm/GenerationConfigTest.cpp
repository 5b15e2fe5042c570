// SPDX-License-Identifier: Apache-2.0
//
// From the files that exporters write to the options of the sampler.
#include "runtime/llm/GenerationConfig.h"
#include "compiler/bundle/GenerationCompiler.h"

#include <gtest/gtest.h>

namespace llmc {
namespace {

GenerationConfig readBack(std::string_view generation, std::string_view model = "",
                          const NamedTokens &named = {}) {
  GenerationCompileResult compiled = compileGeneration(generation, model, named);
  EXPECT_EQ(compiled.message, "");
  auto config = GenerationConfig::parse(compiled.bytes);
  EXPECT_TRUE(config.isOk()) << config.status().message();
  return config.isOk() ? *config : GenerationConfig();
}

TEST(GenerationConfig, TakesEveryFieldOfTheFile) {
  GenerationConfig config = readBack(R"({"do_sample": true, "temperature": 0.6, "top_k": 20,
      "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.05, "eos_token_id": [128001, 128009],
      "bos_token_id": 128000, "pad_token_id": null, "max_new_tokens": 100,
      "transformers_version": "4.57.6"})");
  EXPECT_FALSE(config.sampling.isGreedy);
  EXPECT_EQ(config.sampling.temperature, 0.6f);
  EXPECT_EQ(config.sampling.topK, 20u);
  EXPECT_EQ(config.sampling.topP, 0.95f);
  EXPECT_EQ(config.sampling.minP, 0.05f);
  EXPECT_EQ(config.sampling.repetitionPenalty, 1.05f);
  EXPECT_EQ(config.endTokens, (std::vector<uint32_t>{128001, 128009}));
  EXPECT_EQ(config.beginToken, 128000u);
  EXPECT_FALSE(config.paddingToken.has_value());
  EXPECT_EQ(config.maxNewTokens, 100u);
}

TEST(GenerationConfig, IsGreedyUnlessTheFileSamples) {
  GenerationConfig config = readBack("");
  EXPECT_TRUE(config.sampling.isGreedy);
  EXPECT_TRUE(config.endTokens.empty());
  EXPECT_EQ(config.sampling.topK, 0u);
  EXPECT_TRUE(readBack(R"({"temperature": 0.5})").sampling.isGreedy);
  // transformers' own default joins in when a file only says that it samples.
  EXPECT_EQ(readBack(R"({"do_sample": true})").sampling.topK, 50u);
  EXPECT_EQ(readBack(R"({"do_sample": true, "top_k": 0})").sampling.topK, 0u);
}

TEST(GenerationConfig, LooksForTokensInOneFileAfterTheOther) {
  NamedTokens named{1, 2, 3};
  std::string model = R"({"eos_token_id": 20, "text_config": {"bos_token_id": 10}})";
  GenerationConfig config = readBack(R"({"pad_token_id": 300})", model, named);
  EXPECT_EQ(config.endTokens, (std::vector<uint32_t>{20}));
  EXPECT_EQ(config.beginToken, 10u);
  EXPECT_EQ(config.paddingToken, 300u);
  EXPECT_EQ(readBack("", "", named).endTokens, (std::vector<uint32_t>{2}));
  EXPECT_TRUE(readBack(R"({"eos_token_id": -1})", model, named).endTokens.empty());
}

TEST(GenerationConfig, NamesTheFieldThatIsWrong) {
  for (auto [text, name] : {std::pair{R"({"temperature": "hot"})", "temperature"},
                            {R"({"temperature": -1})", "temperature"},
                            {R"({"temperature": 1e300})", "temperature"},
                            {R"({"top_p": 2})", "top_p"},
                            {R"({"repetition_penalty": 0})", "repetition_penalty"},
                            {R"({"top_k": 1.5})", "top_k"},
                            {R"({"do_sample": 1})", "do_sample"},
                            {R"({"eos_token_id": "x"})", "eos_token_id"},
                            {R"({"eos_token_id": [1, {}]})", "eos_token_id"},
                            {"[]", "JSON"},
                            {"{", "JSON"}}) {
    GenerationCompileResult compiled = compileGeneration(text, "", {});
    EXPECT_NE(compiled.message.find(name), std::string::npos) << text << compiled.message;
    EXPECT_EQ(compiled.bytes, "");
  }
}

TEST(GenerationConfig, RefusesADamagedEntry) {
  for (const char *text : {"", "[]", R"({"top_k": -1})", R"({"temperature": "1"})",
                           R"({"temperature": -1})", R"({"top_p": 1e300})", R"({"do_sample": 0})",
                           R"({"eos_token_ids": 5})", R"({"eos_token_ids": [4294967296]})"}) {
    auto config = GenerationConfig::parse(text);
    ASSERT_FALSE(config.isOk()) << text;
    EXPECT_EQ(config.status().code(), Code::Corrupt);
  }
}

} // namespace
} // namespace llmc
