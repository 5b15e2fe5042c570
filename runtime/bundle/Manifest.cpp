// SPDX-License-Identifier: Apache-2.0
//
// nlohmann-json reports by exceptions; they end in Manifest::parse. Its parser
// keeps no stack of its own calls, but a depth limit also bounds what readers
// of the manifest in other languages must take.
#include "runtime/bundle/Manifest.h"

#include "runtime/abi/BundleFormat.h"

#include <nlohmann/json.hpp>

#include <set>

namespace llmc {
namespace {

using Json = nlohmann::json;

template <typename... Args> Status corrupt(fmt::format_string<Args...> text, Args &&...args) {
  return Status::error(Code::Corrupt, text, std::forward<Args>(args)...);
}

/// Ends a parse from within its callback.
struct Refusal {
  std::string why;
};

Json parseStrictly(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  unsigned depth = 0;
  auto watch = [&](int, Json::parse_event_t event, Json &value) {
    switch (event) {
    case Json::parse_event_t::object_start:
    case Json::parse_event_t::array_start:
      if (++depth > LLMC_MAX_MANIFEST_DEPTH)
        throw Refusal{fmt::format("nests deeper than {}", LLMC_MAX_MANIFEST_DEPTH)};
      keys.emplace_back();
      break;
    case Json::parse_event_t::object_end:
    case Json::parse_event_t::array_end:
      --depth;
      keys.pop_back();
      break;
    case Json::parse_event_t::key:
      if (!keys.back().insert(value.get<std::string>()).second)
        throw Refusal{fmt::format("has the key '{}' twice", value.get<std::string>())};
      break;
    case Json::parse_event_t::value:
      break;
    }
    return true;
  };
  return Json::parse(text, watch);
}

/// Member `key` of `object`; an empty object when there is none.
Result<Json> objectMember(const Json &object, const char *key) {
  auto found = object.find(key);
  if (found == object.end())
    return Json(Json::object());
  if (!found->is_object())
    return corrupt("'{}' is not an object", key);
  return Json(*found);
}

Status readString(const Json &object, const char *key, std::string &value) {
  auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    return corrupt("has no string '{}'", key);
  value = found->get<std::string>();
  return Status::ok();
}

Status readEntries(const Json &root, Manifest &manifest) {
  LLMC_TRY_ASSIGN(Json entries, objectMember(root, "entries"));
  for (const auto &[name, description] : entries.items()) {
    if (!description.is_object())
      return corrupt("entry '{}' is not an object", name);
    std::string hex;
    if (Status status = readString(description, "sha256", hex); !status.isOk())
      return status.inContext("entry '" + name + "'");
    std::optional<Sha256Digest> digest = parseSha256(hex);
    if (!digest)
      return corrupt("entry '{}': 'sha256' is not 64 lower-case hex digits", name);
    auto size = description.find("size");
    if (size == description.end() || !size->is_number_unsigned())
      return corrupt("entry '{}' has no unsigned number 'size'", name);
    manifest.entries.emplace(name, Manifest::Entry{*digest, size->get<uint64_t>()});
  }
  return Status::ok();
}

Status readTargets(const Json &root, Manifest &manifest) {
  auto targets = root.find("targets");
  if (targets == root.end() || !targets->is_array())
    return corrupt("has no array 'targets'");
  for (const Json &description : *targets) {
    Manifest::Target target;
    for (auto [key, value] : {std::pair{"driver", &target.driver}, std::pair{"arch", &target.arch},
                              std::pair{"level", &target.level}, std::pair{"code", &target.code}})
      if (Status status = readString(description, key, *value); !status.isOk())
        return status.inContext(fmt::format("target {}", manifest.targets.size()));
    if (!manifest.entries.contains(target.code))
      return corrupt("target {} names the code '{}', which is not among the entries",
                     manifest.targets.size(), target.code);
    manifest.targets.push_back(std::move(target));
  }
  return Status::ok();
}

Result<Manifest> read(const Json &root) {
  if (!root.is_object())
    return corrupt("is not an object");
  std::string format;
  LLMC_TRY(readString(root, "format", format));
  std::string expected = fmt::format("{}.{}", LLMC_FORMAT_MAJOR, LLMC_FORMAT_MINOR);
  if (format != expected)
    return Status::error(Code::Incompatible,
                         "the bundle has format {}, but this runtime reads format {}: compile the "
                         "model again, or use the runtime of the llmc that compiled it",
                         format, expected);
  Manifest manifest;
  LLMC_TRY(readString(root, "generator", manifest.generator));
  LLMC_TRY(readEntries(root, manifest));
  LLMC_TRY(readTargets(root, manifest));
  LLMC_TRY_ASSIGN(Json inputs, objectMember(root, "inputs"));
  for (const auto &[name, digest] : inputs.items()) {
    if (!digest.is_string() || !parseSha256(digest.get<std::string>()))
      return corrupt("input '{}' has no SHA-256", name);
    manifest.inputs.emplace(name, digest.get<std::string>());
  }
  LLMC_TRY_ASSIGN(Json model, objectMember(root, "model"));
  for (const auto &[key, value] : model.items())
    manifest.model.emplace(key, value.is_string() ? value.get<std::string>() : value.dump());
  return manifest;
}

} // namespace

Result<Manifest> Manifest::parse(std::string_view text) {
  if (text.size() > LLMC_MAX_MANIFEST_BYTES)
    return corrupt("manifest.json has {} bytes; at most {} are allowed", text.size(),
                   LLMC_MAX_MANIFEST_BYTES);
  try {
    Result<Manifest> result = read(parseStrictly(text));
    if (!result.isOk() && result.status().code() == Code::Corrupt)
      return result.status().inContext("manifest.json");
    return result;
  } catch (const Refusal &refusal) {
    return corrupt("manifest.json: {}", refusal.why);
  } catch (const Json::parse_error &error) {
    return corrupt("manifest.json is not JSON: it is malformed at byte {}", error.byte);
  } catch (const Json::exception &error) {
    return corrupt("manifest.json: {}", error.what());
  } catch (const std::bad_alloc &) {
    return Status::error(Code::Unavailable, "no memory for manifest.json");
  }
}

} // namespace llmc
