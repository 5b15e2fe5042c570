// SPDX-License-Identifier: Apache-2.0
//
// Checks each field that is known and drops the rest, so that the bytes do not
// change with a library's version stamp.
#include "compiler/bundle/GenerationCompiler.h"

#include <nlohmann/json.hpp>

#include <limits>

namespace llmc {

namespace {

using nlohmann::json;

// What transformers takes when a file says `do_sample` and no `top_k`.
constexpr unsigned kTopKOfTransformers = 50;

class GenerationReader {
public:
  GenerationCompileResult read(std::string_view generationText, std::string_view modelText,
                               const NamedTokens &named) {
    json generation = parse("generation_config.json", generationText);
    json model = parse("config.json", modelText);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    copySampling(generation, "temperature", 0, kInfinity);
    copySampling(generation, "top_p", 0, 1);
    copySampling(generation, "min_p", 0, 1);
    copySampling(generation, "repetition_penalty", std::numeric_limits<double>::min(), kInfinity);
    copyCount(generation, "top_k");
    copyCount(generation, "max_new_tokens");
    if (const json *samples = find(generation, "do_sample")) {
      if (!samples->is_boolean())
        fail("generation_config.json", "do_sample", "true or false");
      out["do_sample"] = *samples;
      if (*samples == true && !find(generation, "top_k"))
        out["top_k"] = kTopKOfTransformers;
    }
    copyTokens(generation, model, "bos_token_id", named.beginOfText);
    copyTokens(generation, model, "pad_token_id", named.padding);
    copyTokens(generation, model, "eos_token_id", named.endOfText);
    if (!message.empty())
      return {"", message};
    return {out.dump(), ""};
  }

private:
  json parse(const char *file, std::string_view text) {
    if (text.empty())
      return json::object();
    json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (document.is_object())
      return document;
    message = std::string(file) + ": it is not a JSON object";
    return json::object();
  }

  /// null counts as absent, as it does for the writers of these files.
  static const json *find(const json &object, const char *name) {
    auto field = object.find(name);
    return field == object.end() || field->is_null() ? nullptr : &*field;
  }

  void fail(const std::string &file, const char *name, const std::string &expected) {
    if (message.empty())
      message = file + ": '" + name + "' is not " + expected;
  }

  void copySampling(const json &object, const char *name, double least, double most) {
    const json *field = find(object, name);
    if (!field)
      return;
    double value = field->is_number() ? field->get<double>() : -1;
    if (value >= least && value <= most && value <= std::numeric_limits<float>::max())
      out[name] = *field;
    else
      fail("generation_config.json", name,
           most == 1 ? "a number from 0 to 1" : "a positive number");
  }

  static bool isIndex(const json &value) {
    return value.is_number_unsigned() &&
           value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
  }

  void copyCount(const json &object, const char *name) {
    const json *field = find(object, name);
    if (!field)
      return;
    if (isIndex(*field))
      out[name] = *field;
    else
      fail("generation_config.json", name, "a count");
  }

  /// End tokens may be several and are written as the list `eos_token_ids`.
  void copyTokens(const json &generation, const json &model, const char *name,
                  std::optional<uint32_t> named) {
    bool isEnd = std::string_view(name) == "eos_token_id";
    std::string key = isEnd ? "eos_token_ids" : name;
    const json *text = find(model, "text_config");
    std::pair<const char *, const json *> sources[] = {
        {"generation_config.json", find(generation, name)},
        {"config.json", find(model, name)},
        {"config.json", text && text->is_object() ? find(*text, name) : nullptr}};
    for (auto [file, field] : sources) {
      if (!field)
        continue;
      json ids = field->is_array() ? *field : json::array({*field});
      for (const json &id : ids) {
        // -1 is written where there is no such token.
        if (!isIndex(id) && id != -1)
          return fail(file, name, isEnd ? "a token id or a list of them" : "a token id");
        if (isIndex(id) && isEnd)
          out[key].push_back(id);
        else if (isIndex(id) && !out.contains(key))
          out[key] = id;
      }
      return;
    }
    if (named)
      out[key] = isEnd ? json::array({*named}) : json(*named);
  }

  json out = json::object();
  std::string message;
};

} // namespace

GenerationCompileResult compileGeneration(std::string_view generationConfig,
                                          std::string_view modelConfig, const NamedTokens &named) {
  return GenerationReader().read(generationConfig, modelConfig, named);
}

} // namespace llmc
