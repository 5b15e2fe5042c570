// SPDX-License-Identifier: Apache-2.0
//
// Lays out the tables behind the header, each at a multiple of 8. Hash tables
// are at most three quarters full and filled in id or rank order, so that equal input
// gives equal bytes.
#include "compiler/bundle/TokenizerImage.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

namespace llmc {

namespace {

class ImageWriter {
public:
  explicit ImageWriter(const TokenizerImage &image) : image(image) {}

  std::optional<std::string> write() {
    llmc_tokenizer_header header = {};
    std::memcpy(header.magic, LLMC_TOKENIZER_MAGIC, sizeof(header.magic));
    header.version_major = LLMC_TOKENIZER_MAJOR;
    header.version_minor = LLMC_TOKENIZER_MINOR;
    header.model_flags = image.modelFlags;
    header.unk_token = image.unknownToken.value_or(LLMC_NONE);
    header.continuing_prefix = store(image.continuingPrefix);
    header.end_of_word_suffix = store(image.endOfWordSuffix);

    bytes.resize(sizeof(header));
    putTokens(header);
    header.merges = put(image.merges);
    header.merge_slots = put(mergeSlots());
    header.added = put(addedTokens());
    header.normalizers = put(steps(image.normalizers));
    header.pretokenizers = put(steps(image.pretokenizers));
    header.decoders = put(steps(image.decoders));
    header.prefix_ids = put(image.prefixIds);
    header.suffix_ids = put(image.suffixIds);
    header.strings = put(std::vector<char>(strings.begin(), strings.end()));
    header.file_size = bytes.size();
    std::memcpy(bytes.data(), &header, sizeof(header));
    if (strings.size() >= LLMC_NONE)
      return std::nullopt;
    return std::move(bytes);
  }

private:
  llmc_str store(const std::string &text) {
    llmc_str range = {static_cast<uint32_t>(strings.size()), static_cast<uint32_t>(text.size())};
    strings += text;
    return range;
  }

  template <typename T> llmc_table put(const std::vector<T> &records) {
    bytes.resize((bytes.size() + 7) / 8 * 8);
    llmc_table table = {bytes.size(), records.size()};
    bytes.append(reinterpret_cast<const char *>(records.data()), records.size() * sizeof(T));
    return table;
  }

  void putTokens(llmc_tokenizer_header &header) {
    std::vector<llmc_str> texts;
    std::vector<uint8_t> flags;
    std::vector<uint32_t> slots(slotCount(image.tokens.size()), LLMC_NONE);
    for (const TokenizerImage::Token &token : image.tokens) {
      auto id = static_cast<uint32_t>(texts.size());
      texts.push_back(store(token.text.value_or("")));
      flags.push_back((token.text ? 0 : LLMC_TOKEN_ABSENT) |
                      (token.isSpecial ? LLMC_TOKEN_SPECIAL : 0));
      if (token.text && token.isInVocabulary)
        fill(slots, llmc_vocab_hash(token.text->data(), token.text->size()), id);
    }
    header.tokens = put(texts);
    header.token_flags = put(flags);
    header.vocab_slots = put(slots);
  }

  std::vector<uint32_t> mergeSlots() const {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> lastRank;
    for (size_t rank = 0; rank < image.merges.size(); ++rank)
      lastRank[{image.merges[rank].left, image.merges[rank].right}] = static_cast<uint32_t>(rank);
    std::vector<uint32_t> slots(slotCount(image.merges.size()), LLMC_NONE);
    for (size_t rank = 0; rank < image.merges.size(); ++rank) {
      const llmc_merge_record &merge = image.merges[rank];
      if (lastRank[{merge.left, merge.right}] == rank)
        fill(slots, llmc_merge_hash(merge.left, merge.right), static_cast<uint32_t>(rank));
    }
    return slots;
  }

  static size_t slotCount(size_t entries) { return std::bit_ceil(entries + entries / 3 + 1); }

  static void fill(std::vector<uint32_t> &slots, size_t start, uint32_t value) {
    size_t mask = slots.size() - 1;
    while (slots[start & mask] != LLMC_NONE)
      ++start;
    slots[start & mask] = value;
  }

  std::vector<llmc_added_token_record> addedTokens() {
    std::vector<const AddedToken *> sorted;
    for (const AddedToken &token : image.added)
      sorted.push_back(&token);
    std::sort(sorted.begin(), sorted.end(),
              [](const AddedToken *a, const AddedToken *b) { return a->text < b->text; });
    std::vector<llmc_added_token_record> records;
    for (const AddedToken *token : sorted)
      records.push_back({store(token->text), token->id, token->flags});
    return records;
  }

  std::vector<llmc_text_step_record> steps(const std::vector<TextStep> &list) {
    std::vector<llmc_text_step_record> records;
    for (const TextStep &step : list)
      records.push_back({step.kind, step.x, step.y, 0, store(step.a), store(step.b)});
    return records;
  }

  const TokenizerImage &image;
  std::string bytes;
  std::string strings;
};

} // namespace

std::optional<std::string> writeTokenizerImage(const TokenizerImage &image) {
  return ImageWriter(image).write();
}

} // namespace llmc
