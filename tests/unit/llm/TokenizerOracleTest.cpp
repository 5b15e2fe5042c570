// SPDX-License-Identifier: Apache-2.0
//
// Compares ids and text with those of the `tokenizers` package, for the cases
// that tokenizer_cases.py wrote (environment variable LLMC_TOKENIZER_CASES).
#include "compiler/bundle/TokenizerCompiler.h"
#include "runtime/llm/Tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace llmc {
namespace {

using nlohmann::json;
using Ids = std::vector<uint32_t>;

std::string readFile(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Everything that a streamer gives out for `ids`.
std::string streamed(const Tokenizer &tokenizer, const Ids &ids, bool skipSpecialTokens) {
  TextStreamer streamer(tokenizer, skipSpecialTokens);
  std::string text;
  for (uint32_t id : ids)
    text += *streamer.push(id);
  return text + *streamer.finish();
}

void checkCase(const Tokenizer &tokenizer, const json &one) {
  SCOPED_TRACE(one.dump());
  auto text = one.find("text");
  if (text != one.end()) {
    auto plain = tokenizer.encode(text->get<std::string>(), /*addSpecialTokens=*/false);
    auto special = tokenizer.encode(text->get<std::string>(), /*addSpecialTokens=*/true);
    ASSERT_TRUE(plain.isOk()) << plain.status().message();
    ASSERT_TRUE(special.isOk()) << special.status().message();
    EXPECT_EQ(*plain, one["ids"].get<Ids>());
    EXPECT_EQ(*special, one["ids_special"].get<Ids>());
  }
  if (!one.contains("decoded"))
    return;
  auto ids = one["ids_special"].get<Ids>();
  auto whole = tokenizer.decode(ids, /*skipSpecialTokens=*/false);
  auto skipped = tokenizer.decode(ids, /*skipSpecialTokens=*/true);
  ASSERT_TRUE(whole.isOk() && skipped.isOk());
  EXPECT_EQ(*whole, one["decoded"].get<std::string>());
  EXPECT_EQ(*skipped, one["decoded_skip"].get<std::string>());
  // A wrong byte in a byte-fallback run changes text that a streamer has already given out.
  if (whole->find("\xEF\xBF\xBD") == std::string::npos)
    EXPECT_EQ(streamed(tokenizer, ids, false), *whole);
}

TEST(TokenizerOracle, GivesTheIdsAndTextOfTheTokenizersPackage) {
  const char *folder = std::getenv("LLMC_TOKENIZER_CASES");
  if (!folder)
    GTEST_SKIP() << "LLMC_TOKENIZER_CASES is not set; run tests/unit/llm/tokenizer_cases.py";
  size_t files = 0, cases = 0;
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto &path : paths) {
    SCOPED_TRACE(path.string());
    json document = json::parse(readFile(path));
    auto compiled = compileTokenizer(document["tokenizer"].get<std::string>(),
                                     document["config"].get<std::string>());
    ASSERT_EQ(compiled.outcome, TokenizerCompileResult::Compiled) << compiled.message;
    auto start = std::chrono::steady_clock::now();
    auto tokenizer = Tokenizer::load(bytesOf(compiled.bytes));
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(tokenizer.isOk()) << tokenizer.status().message();
    for (const json &one : document["cases"]) {
      checkCase(*tokenizer, one);
      if (testing::Test::HasFailure())
        break;
      ++cases;
    }
    std::cout << path.filename().string() << ": " << document["cases"].size() << " cases, "
              << tokenizer->tokenCount() << " tokens loaded in " << took.count() << " us\n";
    ++files;
  }
  ASSERT_GT(files, 0u);
  std::cout << cases << " cases of " << files << " tokenizers agree\n";
}

} // namespace
} // namespace llmc
