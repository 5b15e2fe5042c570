// SPDX-License-Identifier: Apache-2.0
//
// Reads the model and the added tokens; the steps around them are read by
// TokenizerSteps.cpp. Ids of added tokens are given out as the `tokenizers`
// package does it when it loads the file, whatever ids the file names.
#include "compiler/bundle/TokenizerCompiler.h"

#include "compiler/bundle/TokenizerImage.h"
#include "compiler/bundle/TokenizerSteps.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_map>

namespace llmc {

namespace {

using nlohmann::json;

// Far above any vocabulary; keeps a wrong id from costing memory.
constexpr uint64_t kMaxTokens = 1u << 26;

bool flagOf(const json &object, const char *key, bool standard = false) {
  auto field = object.find(key);
  return field != object.end() && field->is_boolean() ? field->get<bool>() : standard;
}

std::string textOf(const json &object, const char *key) {
  auto field = object.find(key);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

class TokenizerReader {
public:
  explicit TokenizerReader(TokenizerProblem &problem) : problem(problem) {}

  bool read(const json &document, const json &config) {
    bool decides = false;
    if (!readModel(document) || !readAddedTokens(document) ||
        !readTokenizerSteps(document, image, decides, problem))
      return false;
    named.beginOfText = findNamed(config, "bos_token");
    named.endOfText = findNamed(config, "eos_token");
    named.padding = findNamed(config, "pad_token");
    if (!decides) {
      if (named.beginOfText && flagOf(config, "add_bos_token"))
        image.prefixIds.push_back(*named.beginOfText);
      if (named.endOfText && flagOf(config, "add_eos_token"))
        image.suffixIds.push_back(*named.endOfText);
    }
    for (auto *ids : {&image.prefixIds, &image.suffixIds})
      for (uint32_t id : *ids)
        if (id >= image.tokens.size() || !image.tokens[id].text)
          return wrong("post_processor: it adds token " + std::to_string(id) +
                       ", which does not exist");
    return true;
  }

  TokenizerImage image;
  NamedTokens named;

private:
  bool wrong(const std::string &text) {
    problem = {false, text};
    return false;
  }
  bool unsupported(const std::string &text) {
    problem = {true, text + " is not supported"};
    return false;
  }

  bool readModel(const json &document) {
    auto model = document.find("model");
    if (model == document.end() || !model->is_object())
      return wrong("model: it is missing");
    std::string type = textOf(*model, "type");
    if (type.empty() && model->contains("merges"))
      type = "BPE";
    if (type != "BPE")
      return unsupported("model: type '" + type + "'");
    auto dropout = model->find("dropout");
    if (dropout != model->end() && dropout->is_number() && dropout->get<double>() != 0)
      return unsupported("model: dropout");
    image.modelFlags = (flagOf(*model, "byte_fallback") ? LLMC_BPE_BYTE_FALLBACK : 0) |
                       (flagOf(*model, "fuse_unk") ? LLMC_BPE_FUSE_UNK : 0) |
                       (flagOf(*model, "ignore_merges") ? LLMC_BPE_IGNORE_MERGES : 0);
    image.continuingPrefix = textOf(*model, "continuing_subword_prefix");
    image.endOfWordSuffix = textOf(*model, "end_of_word_suffix");
    if (!readVocabulary(*model) || !readMerges(*model))
      return false;
    std::string unknown = textOf(*model, "unk_token");
    if (unknown.empty())
      return true;
    auto id = vocabulary.find(unknown);
    if (id == vocabulary.end()) {
      // The package accepts such a file and fails when it meets an unknown character.
      if (hasEveryByte())
        return true;
      return wrong("model: the unk_token '" + unknown + "' is not in the vocabulary");
    }
    image.unknownToken = id->second;
    return true;
  }

  /// Whether the vocabulary has each byte as a character of byte-level BPE, or as "<0xNN>" that is
  /// fallen back to: nothing is unknown then.
  bool hasEveryByte() const {
    bool hasCharacters = true, hasFallbacks = (image.modelFlags & LLMC_BPE_BYTE_FALLBACK) != 0;
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      constexpr char kDigits[] = "0123456789ABCDEF";
      hasFallbacks &=
          vocabulary.contains(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
      bool isPrintable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      uint32_t c = isPrintable ? byte : next++;
      std::string character(1, static_cast<char>(c));
      if (c >= 0x80)
        character = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
      hasCharacters &= vocabulary.contains(character);
    }
    return hasCharacters || hasFallbacks;
  }

  bool readVocabulary(const json &model) {
    auto entries = model.find("vocab");
    if (entries == model.end() || !entries->is_object())
      return wrong("model: 'vocab' is not an object");
    vocabulary.reserve(entries->size());
    for (const auto &[text, value] : entries->items()) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxTokens)
        return wrong("model: the id of '" + text + "' is not a number below " +
                     std::to_string(kMaxTokens));
      auto id = static_cast<uint32_t>(value.get<uint64_t>());
      TokenizerImage::Token &token = tokenAt(id);
      if (token.text)
        return wrong("model: '" + *token.text + "' and '" + text + "' have the same id " +
                     std::to_string(id));
      token.text = text;
      token.isInVocabulary = true;
      vocabulary.emplace(text, id);
    }
    return true;
  }

  TokenizerImage::Token &tokenAt(uint32_t id) {
    if (id >= image.tokens.size())
      image.tokens.resize(id + 1);
    return image.tokens[id];
  }

  /// A merge is "a b" or ["a", "b"].
  bool readMerges(const json &model) {
    auto merges = model.find("merges");
    if (merges == model.end() || !merges->is_array())
      return wrong("model: 'merges' is not a list");
    image.merges.reserve(merges->size());
    for (const json &merge : *merges) {
      std::string left, right;
      if (merge.is_string()) {
        left = merge.get<std::string>();
        if (left.starts_with("#version"))
          continue;
        size_t space = left.find(' ');
        if (space == std::string::npos || left.find(' ', space + 1) != std::string::npos)
          return wrong("model: the merge '" + left + "' is not two tokens with a space between");
        right = left.substr(space + 1);
        left.resize(space);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else {
        return wrong("model: merge " + std::to_string(image.merges.size()) +
                     " is neither \"a b\" nor [\"a\", \"b\"]");
      }
      if (!addMerge(left, right))
        return false;
    }
    return true;
  }

  bool addMerge(const std::string &left, const std::string &right) {
    const std::string &prefix = image.continuingPrefix;
    std::string result = left + (right.starts_with(prefix) ? right.substr(prefix.size()) : right);
    uint32_t ids[3];
    const std::string *texts[3] = {&left, &right, &result};
    for (int i = 0; i < 3; ++i) {
      auto id = vocabulary.find(*texts[i]);
      if (id == vocabulary.end())
        return wrong("model: merge '" + left + "' + '" + right + "' needs the token '" + *texts[i] +
                     "', which is not in the vocabulary");
      ids[i] = id->second;
    }
    image.merges.push_back({ids[0], ids[1], ids[2]});
    return true;
  }

  bool readAddedTokens(const json &document) {
    auto tokens = document.find("added_tokens");
    if (tokens == document.end() || tokens->is_null())
      return true;
    if (!tokens->is_array())
      return wrong("added_tokens: it is not a list");
    for (const json &token : *tokens) {
      if (!token.is_object() || !token.contains("content"))
        return wrong("added_tokens: an entry has no content");
      std::string text = textOf(token, "content");
      if (!text.empty() && !addToken(text, token))
        return false;
    }
    return true;
  }

  bool addToken(const std::string &text, const json &fields) {
    bool isSpecial = flagOf(fields, "special");
    uint32_t flags = (flagOf(fields, "single_word") ? LLMC_ADDED_SINGLE_WORD : 0) |
                     (flagOf(fields, "lstrip") ? LLMC_ADDED_LSTRIP : 0) |
                     (flagOf(fields, "rstrip") ? LLMC_ADDED_RSTRIP : 0) |
                     (flagOf(fields, "normalized", !isSpecial) ? LLMC_ADDED_NORMALIZED : 0);
    if (auto known = added.find(text); known != added.end()) {
      image.tokens[known->second].isSpecial |= isSpecial;
      return true;
    }
    uint32_t id = nextAddedId();
    if (auto known = vocabulary.find(text); known != vocabulary.end())
      id = known->second;
    else if (id >= kMaxTokens || tokenAt(id).text)
      return wrong("added_tokens: '" + text + "' gets id " + std::to_string(id) +
                   ", which the vocabulary already uses");
    highestAdded = std::max<int64_t>(highestAdded, id);
    added.emplace(text, id);
    tokenAt(id).text = text;
    tokenAt(id).isSpecial |= isSpecial;
    image.added.push_back({text, id, flags});
    return true;
  }

  uint32_t nextAddedId() const {
    auto size = static_cast<int64_t>(vocabulary.size());
    return static_cast<uint32_t>(highestAdded >= size ? highestAdded + 1 : size);
  }

  /// The token that a config names by its text, or by an object with its text as `content`.
  std::optional<uint32_t> findNamed(const json &config, const char *key) const {
    auto field = config.find(key);
    if (field == config.end())
      return std::nullopt;
    std::string text = field->is_object() ? textOf(*field, "content") : textOf(config, key);
    if (auto id = added.find(text); id != added.end())
      return id->second;
    if (auto id = vocabulary.find(text); id != vocabulary.end())
      return id->second;
    return std::nullopt;
  }

  TokenizerProblem &problem;
  std::unordered_map<std::string, uint32_t> vocabulary;
  std::unordered_map<std::string, uint32_t> added;
  int64_t highestAdded = -1;
};

} // namespace

TokenizerCompileResult compileTokenizer(std::string_view tokenizer,
                                        std::string_view tokenizerConfig) {
  TokenizerCompileResult result;
  json document = json::parse(tokenizer, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    result.message = "tokenizer.json: it is not a JSON object";
    return result;
  }
  json config = json::object();
  if (!tokenizerConfig.empty())
    config = json::parse(tokenizerConfig, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    result.message = "tokenizer_config.json: it is not a JSON object";
    return result;
  }
  TokenizerProblem problem;
  TokenizerReader reader(problem);
  if (!reader.read(document, config)) {
    result.outcome = problem.isUnsupported ? TokenizerCompileResult::Unsupported
                                           : TokenizerCompileResult::Invalid;
    result.message = "tokenizer.json: " + problem.text;
    return result;
  }
  auto bytes = writeTokenizerImage(reader.image);
  if (!bytes) {
    result.outcome = TokenizerCompileResult::Unsupported;
    result.message = "tokenizer.json: its texts exceed 4 GiB";
    return result;
  }
  result.outcome = TokenizerCompileResult::Compiled;
  result.bytes = std::move(*bytes);
  result.named = reader.named;
  return result;
}

} // namespace llmc
