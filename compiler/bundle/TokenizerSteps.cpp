// SPDX-License-Identifier: Apache-2.0
//
// One table row per step type of the `tokenizers` package. A type without a row
// is refused by its name.
#include "compiler/bundle/TokenizerSteps.h"

#include "compiler/bundle/RegexTranslation.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace llmc {

namespace {

using nlohmann::json;

// The pattern of the package's ByteLevel pre-tokenizer.
constexpr const char *kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr int kMaxNesting = 16;

class StepReader {
public:
  StepReader(TokenizerImage &image, TokenizerProblem &problem) : image(image), problem(problem) {}

  bool read(const json &document, bool &decidesSpecialTokens) {
    if (!readList("normalizer", "normalizers", document, kNormalizers) ||
        !readList("pre_tokenizer", "pretokenizers", document, kPreTokenizers) ||
        !readList("post_processor", "processors", document, kPostProcessors))
      return false;
    decidesSpecialTokens = decides;
    if (!hasStep(document, "decoder"))
      return add(image.decoders, {LLMC_DECODE_JOIN_SPACE});
    return readList("decoder", "decoders", document, kDecoders) && checkDecoderOrder();
  }

private:
  using Handler = bool (StepReader::*)(const json &step);
  struct Row {
    std::string_view type;
    Handler handler;
  };

  static bool hasStep(const json &document, const char *key) {
    auto step = document.find(key);
    return step != document.end() && !step->is_null();
  }

  template <size_t N>
  bool readList(const char *key, const char *listKey, const json &document, const Row (&rows)[N]) {
    where = key;
    return !hasStep(document, key) ||
           readStep(document[key], listKey, std::begin(rows), std::end(rows), 0);
  }

  bool readStep(const json &step, const char *listKey, const Row *begin, const Row *end,
                int nesting) {
    std::string type = step.is_object() ? textOf(step, "type") : "";
    if (type.empty())
      return wrong("it has a step without a type");
    if (nesting > kMaxNesting)
      return wrong("its steps are nested more than 16 deep");
    if (type == "Sequence") {
      auto list = step.find(listKey);
      if (list == step.end() || !list->is_array())
        return wrong("its Sequence has no list '" + std::string(listKey) + "'");
      return std::all_of(list->begin(), list->end(), [&](const json &inner) {
        return readStep(inner, listKey, begin, end, nesting + 1);
      });
    }
    auto *row = std::find_if(begin, end, [&](const Row &r) { return r.type == type; });
    if (row == end)
      return unsupported("step '" + type + "'");
    return (this->*row->handler)(step);
  }

  // Fields of a step.
  static std::string textOf(const json &step, const char *key) {
    auto field = step.find(key);
    return field != step.end() && field->is_string() ? field->get<std::string>() : "";
  }
  static bool flagOf(const json &step, const char *key, bool standard) {
    auto field = step.find(key);
    return field != step.end() && field->is_boolean() ? field->get<bool>() : standard;
  }
  /// LLMC_NONE unless it is a number that fits.
  static uint32_t numberOf(const json &value) {
    return value.is_number_unsigned() && value.get<uint64_t>() < LLMC_NONE
               ? static_cast<uint32_t>(value.get<uint64_t>())
               : LLMC_NONE;
  }
  static uint32_t numberOf(const json &step, const char *key) {
    auto field = step.find(key);
    return field == step.end() ? LLMC_NONE : numberOf(*field);
  }

  bool wrong(const std::string &what) { return fail(false, what); }
  bool unsupported(const std::string &what) { return fail(true, what + " is not supported"); }
  bool fail(bool isUnsupported, const std::string &what) {
    problem = {isUnsupported, std::string(where) + ": " + what};
    return false;
  }

  static bool add(std::vector<TextStep> &list, TextStep step) {
    list.push_back(std::move(step));
    return true;
  }

  bool addRegex(std::vector<TextStep> &list, TextStep step, const std::string &pattern) {
    RegexTranslation translation = translateRegex(pattern);
    if (!translation.problem.empty())
      return unsupported("the regular expression '" + pattern + "' (" + translation.problem + ")");
    step.a = translation.pattern;
    return add(list, std::move(step));
  }

  /// Adds `step` with the field `pattern`, which is {"String": …} or {"Regex": …}.
  bool addPattern(std::vector<TextStep> &list, const json &fields, TextStep step,
                  uint32_t regexKind) {
    auto pattern = fields.find("pattern");
    if (pattern == fields.end() || !pattern->is_object())
      return wrong("a step has no pattern");
    std::string text = textOf(*pattern, "String");
    if (!text.empty()) {
      step.a = text;
      return add(list, std::move(step));
    }
    std::string regex = textOf(*pattern, "Regex");
    if (regex.empty())
      return unsupported("an empty pattern");
    step.kind = regexKind;
    return addRegex(list, std::move(step), regex);
  }

  // Normalizers.
  template <uint32_t Kind> bool plainNormalizer(const json &) {
    return add(image.normalizers, {Kind});
  }
  bool stripNormalizer(const json &step) {
    return add(image.normalizers, {LLMC_NORMALIZE_STRIP, flagOf(step, "strip_left", true) ? 1u : 0u,
                                   flagOf(step, "strip_right", true) ? 1u : 0u});
  }
  bool prependNormalizer(const json &step) {
    return add(image.normalizers, {LLMC_NORMALIZE_PREPEND, 0, 0, textOf(step, "prepend")});
  }
  bool replaceNormalizer(const json &step) {
    return addPattern(image.normalizers, step,
                      {LLMC_NORMALIZE_REPLACE, 0, 0, "", textOf(step, "content")},
                      LLMC_NORMALIZE_REPLACE_REGEX);
  }

  // Pre-tokenizers.
  bool behaviorOf(const json &step, const char *standard, uint32_t &mode) {
    static constexpr std::pair<std::string_view, uint32_t> kBehaviors[] = {
        {"Contiguous", LLMC_SPLIT_CONTIGUOUS},
        {"Isolated", LLMC_SPLIT_ISOLATED},
        {"MergedWithNext", LLMC_SPLIT_MERGED_WITH_NEXT},
        {"MergedWithPrevious", LLMC_SPLIT_MERGED_WITH_PREVIOUS},
        {"Removed", LLMC_SPLIT_REMOVED},
    };
    std::string name = textOf(step, "behavior");
    if (name.empty() && standard)
      name = standard;
    for (auto [known, value] : kBehaviors) {
      if (name != known)
        continue;
      mode = value;
      return true;
    }
    return wrong("a split has the behavior '" + name + "'");
  }
  bool splitPreTokenizer(const json &step) {
    TextStep split{LLMC_SPLIT_TEXT, 0, flagOf(step, "invert", false) ? 1u : 0u};
    return behaviorOf(step, nullptr, split.x) &&
           addPattern(image.pretokenizers, step, split, LLMC_SPLIT_REGEX);
  }
  bool splitAt(const char *pattern, uint32_t mode, bool isInverted) {
    return addRegex(image.pretokenizers, {LLMC_SPLIT_REGEX, mode, isInverted ? 1u : 0u}, pattern);
  }
  bool byteLevelPreTokenizer(const json &step) {
    if (flagOf(step, "add_prefix_space", true))
      add(image.pretokenizers, {LLMC_PREFIX_SPACE});
    if (flagOf(step, "use_regex", true) && !splitAt(kByteLevelPattern, LLMC_SPLIT_ISOLATED, false))
      return false;
    return add(image.pretokenizers, {LLMC_BYTES_TO_CHARS});
  }
  bool whitespacePreTokenizer(const json &) {
    // Rust's \w, which the package uses here, also has the join controls.
    return splitAt(R"([\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+)", LLMC_SPLIT_REMOVED, true);
  }
  bool whitespaceSplitPreTokenizer(const json &) {
    return splitAt(R"(\s)", LLMC_SPLIT_REMOVED, false);
  }
  bool digitsPreTokenizer(const json &step) {
    return splitAt(R"(\p{N})",
                   flagOf(step, "individual_digits", false) ? LLMC_SPLIT_ISOLATED
                                                            : LLMC_SPLIT_CONTIGUOUS,
                   false);
  }
  bool punctuationPreTokenizer(const json &step) {
    uint32_t mode = 0;
    return behaviorOf(step, "Isolated", mode) && splitAt(R"([\p{P}!-/:-@\[-`{-~])", mode, false);
  }
  /// Older files have `add_prefix_space` in place of `prepend_scheme`.
  bool prependSchemeOf(const json &step, uint32_t &scheme) {
    std::string name = textOf(step, "prepend_scheme");
    if (name.empty())
      name = flagOf(step, "add_prefix_space", true) ? "always" : "never";
    scheme = name == "always"  ? LLMC_PREPEND_ALWAYS
             : name == "first" ? LLMC_PREPEND_FIRST
             : name == "never" ? LLMC_PREPEND_NEVER
                               : LLMC_NONE;
    return scheme != LLMC_NONE || wrong("a Metaspace has the prepend_scheme '" + name + "'");
  }
  static std::string replacementOf(const json &step) {
    std::string replacement = textOf(step, "replacement");
    return replacement.empty() ? "\xE2\x96\x81" : replacement;
  }
  bool metaspacePreTokenizer(const json &step) {
    TextStep metaspace{LLMC_METASPACE, 0, 0, replacementOf(step)};
    if (!prependSchemeOf(step, metaspace.x))
      return false;
    std::string replacement = metaspace.a;
    add(image.pretokenizers, std::move(metaspace));
    return !flagOf(step, "split", true) ||
           add(image.pretokenizers, {LLMC_SPLIT_TEXT, LLMC_SPLIT_MERGED_WITH_NEXT, 0, replacement});
  }

  // Post-processors. Those that run later put their tokens further outside.
  bool byteLevelPostProcessor(const json &) { return true; } // it only moves offsets
  bool pairPostProcessor(const json &step) {
    decides = true;
    for (auto [key, ids, atFront] :
         {std::tuple{"cls", &image.prefixIds, true}, std::tuple{"sep", &image.suffixIds, false}}) {
      auto token = step.find(key);
      uint32_t id = token != step.end() && token->is_array() && token->size() == 2
                        ? numberOf((*token)[1])
                        : LLMC_NONE;
      if (id == LLMC_NONE)
        return wrong("the token '" + std::string(key) + "' is not a [text, id] pair");
      ids->insert(atFront ? ids->begin() : ids->end(), id);
    }
    return true;
  }
  bool templatePostProcessor(const json &step) {
    decides = true;
    auto pieces = step.find("single");
    auto tokens = step.find("special_tokens");
    if (pieces == step.end() || !pieces->is_array())
      return wrong("its TemplateProcessing has no list 'single'");
    std::vector<uint32_t> before, after;
    bool seenText = false;
    for (const json &piece : *pieces) {
      if (piece.is_object() && piece.contains("Sequence")) {
        if (seenText)
          return unsupported("a template that repeats the text");
        seenText = true;
        continue;
      }
      std::string name =
          piece.is_object() && piece.contains("SpecialToken") && piece["SpecialToken"].is_object()
              ? textOf(piece["SpecialToken"], "id")
              : "";
      if (tokens == step.end() || !tokens->is_object() || !tokens->contains(name) ||
          !(*tokens)[name].is_object() || !(*tokens)[name].contains("ids") ||
          !(*tokens)[name]["ids"].is_array())
        return wrong("its template has no ids for '" + name + "'");
      for (const json &id : (*tokens)[name]["ids"])
        (seenText ? after : before).push_back(numberOf(id));
    }
    if (!seenText)
      return unsupported("a template without the text");
    image.prefixIds.insert(image.prefixIds.begin(), before.begin(), before.end());
    image.suffixIds.insert(image.suffixIds.end(), after.begin(), after.end());
    return true;
  }

  // Decoders.
  template <uint32_t Kind> bool plainDecoder(const json &) { return add(image.decoders, {Kind}); }
  bool replaceDecoder(const json &step) {
    return addPattern(image.decoders, step,
                      {LLMC_DECODE_REPLACE, 0, 0, "", textOf(step, "content")},
                      LLMC_DECODE_REPLACE_REGEX);
  }
  bool stripDecoder(const json &step) {
    TextStep strip{LLMC_DECODE_STRIP, numberOf(step, "start"), numberOf(step, "stop"),
                   textOf(step, "content")};
    if (strip.x == LLMC_NONE || strip.y == LLMC_NONE || strip.a.empty())
      return wrong("its Strip lacks 'content', 'start' or 'stop'");
    return add(image.decoders, std::move(strip));
  }
  bool metaspaceDecoder(const json &step) {
    uint32_t scheme = 0;
    return prependSchemeOf(step, scheme) &&
           add(image.decoders, {LLMC_DECODE_METASPACE, scheme == LLMC_PREPEND_NEVER ? 0u : 1u, 0,
                                replacementOf(step)});
  }
  bool checkDecoderOrder() {
    bool isWhole = false;
    for (const TextStep &step : image.decoders) {
      if (isWhole && step.kind != LLMC_DECODE_REPLACE && step.kind != LLMC_DECODE_STRIP &&
          step.kind != LLMC_DECODE_FUSE)
        return unsupported("a step other than Replace (of a text) and Strip behind Fuse or "
                           "ByteLevel");
      isWhole |= step.kind == LLMC_DECODE_FUSE || step.kind == LLMC_DECODE_CHARS_TO_BYTES;
    }
    return true;
  }

  static constexpr Row kNormalizers[] = {
      {"Lowercase", &StepReader::plainNormalizer<LLMC_NORMALIZE_LOWERCASE>},
      {"NFC", &StepReader::plainNormalizer<LLMC_NORMALIZE_NFC>},
      {"NFD", &StepReader::plainNormalizer<LLMC_NORMALIZE_NFD>},
      {"NFKC", &StepReader::plainNormalizer<LLMC_NORMALIZE_NFKC>},
      {"NFKD", &StepReader::plainNormalizer<LLMC_NORMALIZE_NFKD>},
      {"Prepend", &StepReader::prependNormalizer},
      {"Replace", &StepReader::replaceNormalizer},
      {"Strip", &StepReader::stripNormalizer},
      {"StripAccents", &StepReader::plainNormalizer<LLMC_NORMALIZE_STRIP_ACCENTS>},
  };
  static constexpr Row kPreTokenizers[] = {
      {"ByteLevel", &StepReader::byteLevelPreTokenizer},
      {"Digits", &StepReader::digitsPreTokenizer},
      {"Metaspace", &StepReader::metaspacePreTokenizer},
      {"Punctuation", &StepReader::punctuationPreTokenizer},
      {"Split", &StepReader::splitPreTokenizer},
      {"Whitespace", &StepReader::whitespacePreTokenizer},
      {"WhitespaceSplit", &StepReader::whitespaceSplitPreTokenizer},
  };
  static constexpr Row kPostProcessors[] = {
      {"BertProcessing", &StepReader::pairPostProcessor},
      {"ByteLevel", &StepReader::byteLevelPostProcessor},
      {"RobertaProcessing", &StepReader::pairPostProcessor},
      {"TemplateProcessing", &StepReader::templatePostProcessor},
  };
  static constexpr Row kDecoders[] = {
      {"ByteFallback", &StepReader::plainDecoder<LLMC_DECODE_BYTE_FALLBACK>},
      {"ByteLevel", &StepReader::plainDecoder<LLMC_DECODE_CHARS_TO_BYTES>},
      {"Fuse", &StepReader::plainDecoder<LLMC_DECODE_FUSE>},
      {"Metaspace", &StepReader::metaspaceDecoder},
      {"Replace", &StepReader::replaceDecoder},
      {"Strip", &StepReader::stripDecoder},
  };

  TokenizerImage &image;
  TokenizerProblem &problem;
  const char *where = "";
  bool decides = false;
};

} // namespace

bool readTokenizerSteps(const nlohmann::json &document, TokenizerImage &image,
                        bool &decidesSpecialTokens, TokenizerProblem &problem) {
  return StepReader(image, problem).read(document, decidesSpecialTokens);
}

} // namespace llmc
