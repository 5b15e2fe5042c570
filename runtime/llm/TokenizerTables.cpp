// SPDX-License-Identifier: Apache-2.0
//
// Checks a compiled tokenizer once and looks things up in it. The checks over
// the large tables are reductions without branches, which the compiler turns
// into vector code: loading must stay well under a millisecond.
#include "runtime/llm/TokenizerTables.h"

#include "runtime/llm/UnicodeText.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace llmc {

static_assert(std::endian::native == std::endian::little, "bundle tables are little-endian");

namespace {

/// Which operands a step kind has, and in which of the three lists it may stand.
enum StepList : uint32_t { Normalizer, Pretokenizer, Decoder };
struct StepRule {
  uint32_t kind;
  StepList list;
  uint32_t maxX;
  uint32_t maxY;
  bool needsA; // a is not empty
};
constexpr uint32_t kAny = 0xFFFFFFFF;
constexpr StepRule kStepRules[] = {
    {LLMC_NORMALIZE_NFC, Normalizer, 0, 0, false},
    {LLMC_NORMALIZE_NFD, Normalizer, 0, 0, false},
    {LLMC_NORMALIZE_NFKC, Normalizer, 0, 0, false},
    {LLMC_NORMALIZE_NFKD, Normalizer, 0, 0, false},
    {LLMC_NORMALIZE_LOWERCASE, Normalizer, 0, 0, false},
    {LLMC_NORMALIZE_STRIP, Normalizer, 1, 1, false},
    {LLMC_NORMALIZE_STRIP_ACCENTS, Normalizer, 0, 0, false},
    {LLMC_NORMALIZE_PREPEND, Normalizer, 0, 0, false},
    {LLMC_NORMALIZE_REPLACE, Normalizer, 0, 0, true},
    {LLMC_NORMALIZE_REPLACE_REGEX, Normalizer, 0, 0, true},
    {LLMC_SPLIT_TEXT, Pretokenizer, LLMC_SPLIT_CONTIGUOUS, 1, true},
    {LLMC_SPLIT_REGEX, Pretokenizer, LLMC_SPLIT_CONTIGUOUS, 1, true},
    {LLMC_PREFIX_SPACE, Pretokenizer, 0, 0, false},
    {LLMC_BYTES_TO_CHARS, Pretokenizer, 0, 0, false},
    {LLMC_METASPACE, Pretokenizer, LLMC_PREPEND_ALWAYS, 0, true},
    {LLMC_DECODE_REPLACE, Decoder, 0, 0, true},
    {LLMC_DECODE_REPLACE_REGEX, Decoder, 0, 0, true},
    {LLMC_DECODE_BYTE_FALLBACK, Decoder, 0, 0, false},
    {LLMC_DECODE_FUSE, Decoder, 0, 0, false},
    {LLMC_DECODE_STRIP, Decoder, kAny, kAny, true},
    {LLMC_DECODE_CHARS_TO_BYTES, Decoder, 0, 0, false},
    {LLMC_DECODE_METASPACE, Decoder, 1, 0, true},
    {LLMC_DECODE_JOIN_SPACE, Decoder, 0, 0, false},
};

/// Steps a decoder can apply once all tokens have become one text.
bool worksOnWholeText(uint32_t kind) {
  return kind == LLMC_DECODE_REPLACE || kind == LLMC_DECODE_STRIP || kind == LLMC_DECODE_FUSE;
}

/// NONE or below `count`: adding 1 maps NONE to 0.
bool allBelowOrNone(std::span<const uint32_t> values, uint32_t count) {
  uint32_t highest = 0;
  for (uint32_t value : values)
    highest = std::max(highest, value + 1);
  return highest <= count;
}

} // namespace

class TokenizerTablesReader {
public:
  TokenizerTablesReader(std::span<const std::byte> bytes, TokenizerTables &tables)
      : bytes(bytes), tables(tables) {}

  Status read() {
    LLMC_TRY(readHeader());
    const llmc_tokenizer_header &h = *tables.header;
    std::span<const char> strings;
    LLMC_TRY(view("strings", h.strings, strings));
    tables.strings = strings.data();
    stringsSize = strings.size();
    LLMC_TRY(view("tokens", h.tokens, tables.tokens));
    LLMC_TRY(view("token flags", h.token_flags, tables.tokenFlags));
    LLMC_TRY(view("vocabulary slots", h.vocab_slots, tables.vocabSlots));
    LLMC_TRY(view("merges", h.merges, tables.merges));
    LLMC_TRY(view("merge slots", h.merge_slots, tables.mergeSlots));
    LLMC_TRY(view("added tokens", h.added, tables.added));
    LLMC_TRY(view("normalizers", h.normalizers, tables.normalizerSteps));
    LLMC_TRY(view("pre-tokenizers", h.pretokenizers, tables.pretokenizerSteps));
    LLMC_TRY(view("decoders", h.decoders, tables.decoderSteps));
    LLMC_TRY(view("prefix ids", h.prefix_ids, tables.prefix));
    LLMC_TRY(view("suffix ids", h.suffix_ids, tables.suffix));
    LLMC_TRY(checkTokens());
    LLMC_TRY(checkMerges());
    LLMC_TRY(checkAddedTokens());
    LLMC_TRY(checkSteps("normalizer", tables.normalizerSteps, Normalizer));
    LLMC_TRY(checkSteps("pre-tokenizer", tables.pretokenizerSteps, Pretokenizer));
    LLMC_TRY(checkSteps("decoder", tables.decoderSteps, Decoder));
    return checkModel();
  }

private:
  template <typename... Args>
  static Status corrupt(fmt::format_string<Args...> text, Args &&...args) {
    return Status::error(Code::Corrupt, "the compiled tokenizer is damaged: {}",
                         fmt::format(text, std::forward<Args>(args)...));
  }

  Status readHeader() {
    if (bytes.size() < sizeof(llmc_tokenizer_header))
      return corrupt("it has {} bytes, fewer than its header of {}", bytes.size(),
                     sizeof(llmc_tokenizer_header));
    tables.header = reinterpret_cast<const llmc_tokenizer_header *>(bytes.data());
    const llmc_tokenizer_header &h = *tables.header;
    if (std::memcmp(h.magic, LLMC_TOKENIZER_MAGIC, sizeof(h.magic)) != 0)
      return corrupt("it does not start with '{}'", LLMC_TOKENIZER_MAGIC);
    if (h.version_major != LLMC_TOKENIZER_MAJOR || h.version_minor != LLMC_TOKENIZER_MINOR)
      return Status::error(
          Code::Incompatible, "the compiled tokenizer has format {}.{}, this runtime reads {}.{}",
          h.version_major, h.version_minor, LLMC_TOKENIZER_MAJOR, LLMC_TOKENIZER_MINOR);
    if (h.file_size != bytes.size())
      return corrupt("it has {} bytes, its header says {}", bytes.size(), h.file_size);
    return Status::ok();
  }

  template <typename T>
  Status view(std::string_view name, llmc_table table, std::span<const T> &out) {
    if (table.offset % 8 != 0 || table.offset > bytes.size() ||
        table.count > (bytes.size() - table.offset) / sizeof(T))
      return corrupt("table '{}' of {} records at {} does not fit {} bytes", name, table.count,
                     table.offset, bytes.size());
    if (table.count >= LLMC_NONE)
      return corrupt("table '{}' has {} records", name, table.count);
    out = {reinterpret_cast<const T *>(bytes.data() + table.offset),
           static_cast<size_t>(table.count)};
    return Status::ok();
  }

  bool isInStrings(llmc_str range) const {
    return static_cast<uint64_t>(range.offset) + range.size <= stringsSize;
  }

  Status checkTokens() {
    if (tables.tokenFlags.size() != tables.tokens.size())
      return corrupt("{} tokens have {} flags", tables.tokens.size(), tables.tokenFlags.size());
    bool outside = false;
    for (llmc_str range : tables.tokens)
      outside |= !isInStrings(range);
    if (outside)
      return corrupt("the text of a token lies outside the strings");
    return checkSlots("vocabulary", tables.vocabSlots, tables.tokenCount());
  }

  /// A power of two with at least one free slot, so that every search ends.
  Status checkSlots(std::string_view name, std::span<const uint32_t> slots, uint32_t count) {
    if (!std::has_single_bit(slots.size()))
      return corrupt("the {} has {} slots, not a power of two", name, slots.size());
    if (!allBelowOrNone(slots, count))
      return corrupt("a {} slot exceeds {} entries", name, count);
    if (std::find(slots.begin(), slots.end(), LLMC_NONE) == slots.end())
      return corrupt("the {} has no free slot", name);
    return Status::ok();
  }

  Status checkMerges() {
    uint32_t highest = 0;
    for (const llmc_merge_record &merge : tables.merges)
      highest = std::max({highest, merge.left, merge.right, merge.result});
    if (!tables.merges.empty() && highest >= tables.tokenCount())
      return corrupt("a merge names token {} of {}", highest, tables.tokenCount());
    return checkSlots("merge table", tables.mergeSlots,
                      static_cast<uint32_t>(tables.merges.size()));
  }

  Status checkAddedTokens() {
    std::string_view previous;
    for (const llmc_added_token_record &token : tables.added) {
      if (!isInStrings(token.text) || token.text.size == 0)
        return corrupt("the text of an added token lies outside the strings");
      if (token.id >= tables.tokenCount())
        return corrupt("added token {} exceeds {} tokens", token.id, tables.tokenCount());
      std::string_view text = tables.text(token.text);
      if (text <= previous)
        return corrupt("the added tokens are not sorted");
      if (!isUtf8(text))
        return corrupt("an added token is not UTF-8");
      previous = text;
    }
    return Status::ok();
  }

  Status checkSteps(std::string_view what, std::span<const llmc_text_step_record> steps,
                    StepList list) {
    bool isWhole = false;
    for (const llmc_text_step_record &step : steps) {
      auto *rule = std::find_if(std::begin(kStepRules), std::end(kStepRules),
                                [&](const StepRule &r) { return r.kind == step.kind; });
      if (rule == std::end(kStepRules) || rule->list != list)
        return corrupt("{} is no kind of {}", step.kind, what);
      if (step.x > rule->maxX || step.y > rule->maxY)
        return corrupt("{} {} has operands {} and {}", what, step.kind, step.x, step.y);
      if (!isInStrings(step.a) || !isInStrings(step.b) || (rule->needsA && step.a.size == 0))
        return corrupt("the text of a {} lies outside the strings", what);
      if (!isUtf8(tables.text(step.a)) || !isUtf8(tables.text(step.b)))
        return corrupt("the text of a {} is not UTF-8", what);
      if (isWhole && !worksOnWholeText(step.kind))
        return corrupt("decoder {} cannot follow the joining of tokens", step.kind);
      isWhole |= step.kind == LLMC_DECODE_FUSE || step.kind == LLMC_DECODE_CHARS_TO_BYTES;
    }
    return Status::ok();
  }

  Status checkModel() {
    const llmc_tokenizer_header &h = *tables.header;
    for (llmc_str range : {h.continuing_prefix, h.end_of_word_suffix})
      if (!isInStrings(range))
        return corrupt("a subword mark lies outside the strings");
    uint32_t count = tables.tokenCount();
    if (h.unk_token != LLMC_NONE && h.unk_token >= count)
      return corrupt("the unknown token {} exceeds {} tokens", h.unk_token, count);
    for (auto ids : {tables.prefix, tables.suffix})
      for (uint32_t id : ids)
        if (id >= count)
          return corrupt("token {} around a text exceeds {} tokens", id, count);
    return Status::ok();
  }

  std::span<const std::byte> bytes;
  TokenizerTables &tables;
  size_t stringsSize = 0;
};

Result<TokenizerTables> TokenizerTables::open(std::span<const std::byte> bytes,
                                              std::shared_ptr<const void> owner) {
  TokenizerTables tables;
  tables.owner = std::move(owner);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
    auto copy = std::make_shared<std::vector<uint64_t>>((bytes.size() + 7) / 8);
    std::memcpy(copy->data(), bytes.data(), bytes.size());
    bytes = {reinterpret_cast<const std::byte *>(copy->data()), bytes.size()};
    tables.owner = std::move(copy);
  }
  LLMC_TRY(TokenizerTablesReader(bytes, tables).read());
  return tables;
}

std::optional<std::string_view> TokenizerTables::tokenText(uint32_t id) const {
  if (id >= tokens.size() || (tokenFlags[id] & LLMC_TOKEN_ABSENT) != 0)
    return std::nullopt;
  return text(tokens[id]);
}

std::optional<uint32_t> TokenizerTables::findInVocabulary(std::string_view token) const {
  size_t mask = vocabSlots.size() - 1;
  for (size_t slot = llmc_vocab_hash(token.data(), token.size());; ++slot) {
    uint32_t id = vocabSlots[slot & mask];
    if (id == LLMC_NONE)
      return std::nullopt;
    if (text(tokens[id]) == token)
      return id;
  }
}

std::optional<TokenizerTables::Merge> TokenizerTables::findMerge(uint32_t left,
                                                                 uint32_t right) const {
  size_t mask = mergeSlots.size() - 1;
  for (size_t slot = llmc_merge_hash(left, right);; ++slot) {
    uint32_t rank = mergeSlots[slot & mask];
    if (rank == LLMC_NONE)
      return std::nullopt;
    const llmc_merge_record &merge = merges[rank];
    if (merge.left == left && merge.right == right)
      return Merge{rank, merge.result};
  }
}

std::optional<uint32_t> TokenizerTables::unknownToken() const {
  if (header->unk_token == LLMC_NONE)
    return std::nullopt;
  return header->unk_token;
}

} // namespace llmc
