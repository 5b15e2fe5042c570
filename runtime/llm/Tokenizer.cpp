// SPDX-License-Identifier: Apache-2.0
//
// Puts the stages in order: added tokens, normalizer, added tokens in normalized
// text, pre-tokenizer, model; and back through the decoder.
#include "runtime/llm/Tokenizer.h"

#include "runtime/llm/AddedTokens.h"
#include "runtime/llm/BpeModel.h"
#include "runtime/llm/PreTokenizer.h"
#include "runtime/llm/TextNormalizer.h"
#include "runtime/llm/TokenDecoder.h"
#include "runtime/llm/TokenizerTables.h"
#include "runtime/llm/UnicodeText.h"

namespace llmc {

struct Tokenizer::Parts {
  TokenizerTables tables;
  TextNormalizer normalizer;
  AddedTokens addedAsWritten;
  AddedTokens addedNormalized;
  PreTokenizer preTokenizer;
  TokenDecoder decoder;

  Status encodeText(std::string_view text, bool startsText, BpeModel &model, TextPieces &pieces,
                    std::vector<uint32_t> &ids) const;
};

namespace {

/// A pattern that does not compile was checked when the bundle was written: the bundle is damaged.
Status asCorrupt(const Status &status) {
  if (status.code() != Code::InvalidArgument)
    return status;
  return Status::error(Code::Corrupt, "the compiled tokenizer is damaged: {}", status.message());
}

} // namespace

Result<Tokenizer> Tokenizer::load(std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner) {
  LLMC_TRY_ASSIGN(TokenizerTables tables, TokenizerTables::open(bytes, std::move(owner)));
  auto normalizer = TextNormalizer::create(tables);
  if (!normalizer.isOk())
    return asCorrupt(normalizer.status());
  auto preTokenizer = PreTokenizer::create(tables);
  if (!preTokenizer.isOk())
    return asCorrupt(preTokenizer.status());
  auto decoder = TokenDecoder::create(tables);
  if (!decoder.isOk())
    return asCorrupt(decoder.status());
  LLMC_TRY_ASSIGN(AddedTokens asWritten,
                  AddedTokens::create(tables, AddedTokens::Which::AsWritten, *normalizer));
  LLMC_TRY_ASSIGN(AddedTokens normalized,
                  AddedTokens::create(tables, AddedTokens::Which::Normalized, *normalizer));
  Tokenizer tokenizer;
  tokenizer.parts = std::make_shared<Parts>(Parts{std::move(tables), std::move(*normalizer),
                                                  std::move(asWritten), std::move(normalized),
                                                  std::move(*preTokenizer), std::move(*decoder)});
  return tokenizer;
}

Result<std::vector<uint32_t>> Tokenizer::encode(std::string_view text,
                                                bool addSpecialTokens) const {
  std::string repaired;
  if (!isUtf8(text)) {
    repaired = toUtf8(text);
    text = repaired;
  }
  const TokenizerTables &tables = parts->tables;
  std::vector<uint32_t> ids;
  if (addSpecialTokens)
    ids.assign(tables.prefixIds().begin(), tables.prefixIds().end());
  BpeModel model(tables);
  TextPieces pieces;
  for (const TextSegment &segment : parts->addedAsWritten.split(text)) {
    if (segment.token)
      ids.push_back(*segment.token);
    else
      LLMC_TRY(parts->encodeText(text.substr(segment.begin, segment.end - segment.begin),
                                 segment.begin == 0, model, pieces, ids));
  }
  if (addSpecialTokens)
    ids.insert(ids.end(), tables.suffixIds().begin(), tables.suffixIds().end());
  return ids;
}

Status Tokenizer::Parts::encodeText(std::string_view text, bool startsText, BpeModel &model,
                                    TextPieces &pieces, std::vector<uint32_t> &ids) const {
  std::string normalized;
  if (!normalizer.isIdentity()) {
    LLMC_TRY_ASSIGN(normalized, normalizer.apply(text));
    text = normalized;
  }
  for (const TextSegment &segment : addedNormalized.split(text)) {
    if (segment.token) {
      ids.push_back(*segment.token);
      continue;
    }
    LLMC_TRY(preTokenizer.apply(text.substr(segment.begin, segment.end - segment.begin),
                                startsText && segment.begin == 0, pieces));
    for (const TextPieces::Piece &piece : pieces.pieces)
      model.encode(pieces.view(piece), ids);
  }
  return Status::ok();
}

Result<std::string> Tokenizer::decode(std::span<const uint32_t> ids, bool skipSpecialTokens) const {
  TokenStream stream(parts->decoder, /*holdsByteRuns=*/true);
  std::string out;
  for (uint32_t id : ids) {
    auto text = tokenText(id);
    if (text && !(skipSpecialTokens && isSpecialToken(id)))
      LLMC_TRY(stream.push(*text, out));
  }
  LLMC_TRY(stream.finish(out));
  return out;
}

uint32_t Tokenizer::tokenCount() const { return parts->tables.tokenCount(); }

std::optional<std::string_view> Tokenizer::tokenText(uint32_t id) const {
  return parts->tables.tokenText(id);
}

std::optional<uint32_t> Tokenizer::findToken(std::string_view text) const {
  const TokenizerTables &tables = parts->tables;
  for (const llmc_added_token_record &token : tables.addedTokens())
    if (tables.text(token.text) == text)
      return token.id;
  return tables.findInVocabulary(text);
}

bool Tokenizer::isSpecialToken(uint32_t id) const {
  return id < tokenCount() && parts->tables.isSpecial(id);
}

TextStreamer::TextStreamer(const Tokenizer &tokenizer, bool skipSpecialTokens)
    : parts(tokenizer.parts), skipSpecialTokens(skipSpecialTokens),
      stream(std::make_unique<TokenStream>(parts->decoder, /*holdsByteRuns=*/false)) {}
TextStreamer::~TextStreamer() = default;
TextStreamer::TextStreamer(TextStreamer &&) noexcept = default;
TextStreamer &TextStreamer::operator=(TextStreamer &&) noexcept = default;

Result<std::string> TextStreamer::push(uint32_t id) {
  std::string out;
  auto text = parts->tables.tokenText(id);
  if (text && !(skipSpecialTokens && parts->tables.isSpecial(id)))
    LLMC_TRY(stream->push(*text, out));
  return out;
}

Result<std::string> TextStreamer::finish() {
  std::string out;
  LLMC_TRY(stream->finish(out));
  return out;
}

} // namespace llmc
