// SPDX-License-Identifier: Apache-2.0
//
// Reads the few fields of the entry; its writer is compiler/bundle's
// GenerationCompiler.cpp.
#include "runtime/llm/GenerationConfig.h"

#include <nlohmann/json.hpp>

namespace llmc {

namespace {

using nlohmann::json;

class Fields {
public:
  explicit Fields(const json &object) : object(object) {}

  void read(const char *name, bool &out) {
    if (const json *field = find(name))
      field->is_boolean() ? void(out = field->get<bool>()) : fail(name, "a boolean");
  }
  void read(const char *name, float &out) {
    if (const json *field = find(name))
      field->is_number() ? void(out = field->get<float>()) : fail(name, "a number");
  }
  void read(const char *name, uint32_t &out) {
    if (const json *field = find(name))
      isIndex(*field) ? void(out = field->get<uint32_t>()) : fail(name, "a number below 2^32");
  }
  void read(const char *name, std::optional<uint32_t> &out) {
    uint32_t value = 0;
    read(name, value);
    if (find(name))
      out = value;
  }
  void read(const char *name, std::vector<uint32_t> &out) {
    const json *field = find(name);
    if (!field)
      return;
    if (!field->is_array())
      return fail(name, "a list");
    for (const json &element : *field)
      isIndex(element) ? out.push_back(element.get<uint32_t>())
                       : fail(name, "a list of numbers below 2^32");
  }

  Status status = Status::ok();

private:
  const json *find(const char *name) const {
    auto field = object.find(name);
    return field == object.end() ? nullptr : &*field;
  }
  static bool isIndex(const json &value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX;
  }
  void fail(const char *name, const char *expected) {
    status = Status::error(Code::Corrupt, "the bundle's generation settings: '{}' is not {}", name,
                           expected);
  }

  const json &object;
};

} // namespace

Result<GenerationConfig> GenerationConfig::parse(std::string_view text) {
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return Status::error(Code::Corrupt, "the bundle's generation settings are not a JSON object");
  GenerationConfig config;
  SamplingOptions &sampling = config.sampling;
  Fields fields(object);
  bool samples = false;
  fields.read("do_sample", samples);
  fields.read("temperature", sampling.temperature);
  fields.read("top_k", sampling.topK);
  fields.read("top_p", sampling.topP);
  fields.read("min_p", sampling.minP);
  fields.read("repetition_penalty", sampling.repetitionPenalty);
  fields.read("eos_token_ids", config.endTokens);
  fields.read("bos_token_id", config.beginToken);
  fields.read("pad_token_id", config.paddingToken);
  fields.read("max_new_tokens", config.maxNewTokens);
  LLMC_TRY(fields.status);
  sampling.isGreedy = !samples;
  if (Status status = sampling.check(); !status.isOk())
    return Status::error(Code::Corrupt, "the bundle's generation settings: {}", status.message());
  return config;
}

} // namespace llmc
