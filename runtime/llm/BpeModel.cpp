// SPDX-License-Identifier: Apache-2.0
//
// A heap of candidate merges over a linked list of symbols: n log n in the
// length of the piece, so that a piece of a million characters is no attack.
#include "runtime/llm/BpeModel.h"

#include "runtime/llm/UnicodeText.h"

#include <algorithm>

namespace llmc {

void BpeModel::encode(std::string_view piece, std::vector<uint32_t> &ids) {
  if (piece.empty())
    return;
  if (tables.hasModelFlag(LLMC_BPE_IGNORE_MERGES)) {
    if (auto id = tables.findInVocabulary(piece)) {
      ids.push_back(*id);
      return;
    }
  }
  addCharacters(piece);
  mergeAll();
  for (const Symbol &symbol : symbols)
    if (!symbol.isMerged)
      ids.push_back(symbol.id);
}

void BpeModel::addCharacters(std::string_view piece) {
  symbols.clear();
  std::string_view prefix = tables.continuingPrefix();
  std::string_view suffix = tables.endOfWordSuffix();
  bool hasMarks = !prefix.empty() || !suffix.empty();
  bool fuses = tables.hasModelFlag(LLMC_BPE_FUSE_UNK);
  bool pendingUnknown = false;
  for (size_t at = 0; at < piece.size();) {
    std::string_view character = piece.substr(at, utf8Size(piece[at]));
    bool isFirst = at == 0;
    at += character.size();
    if (hasMarks) {
      marked.assign(isFirst ? std::string_view() : prefix);
      marked += character;
      marked += at >= piece.size() ? suffix : std::string_view();
      character = marked;
    }
    if (auto id = tables.findInVocabulary(character)) {
      if (pendingUnknown)
        addSymbol(*tables.unknownToken());
      pendingUnknown = false;
      addSymbol(*id);
      continue;
    }
    // An unknown character before these bytes still waits and comes out behind them, as it does
    // in the package.
    if (tables.hasModelFlag(LLMC_BPE_BYTE_FALLBACK) && addBytes(character))
      continue;
    if (!tables.unknownToken())
      continue; // without an unknown token such characters are dropped
    if (pendingUnknown && !fuses)
      addSymbol(*tables.unknownToken());
    pendingUnknown = true;
  }
  if (pendingUnknown)
    addSymbol(*tables.unknownToken());
  if (!symbols.empty())
    symbols.back().next = -1;
}

/// All bytes or none: false if the vocabulary lacks one of them.
bool BpeModel::addBytes(std::string_view character) {
  size_t before = symbols.size();
  for (char c : character) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    auto byte = static_cast<uint8_t>(c);
    char name[6] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    auto id = tables.findInVocabulary({name, sizeof(name)});
    if (!id) {
      symbols.resize(before);
      return false;
    }
    addSymbol(*id);
  }
  return true;
}

void BpeModel::addSymbol(uint32_t id) {
  auto position = static_cast<int64_t>(symbols.size());
  symbols.push_back({id, position - 1, position + 1, false});
}

namespace {
/// For std::push_heap, whose top is the greatest element.
constexpr auto kComesLater = [](const auto &a, const auto &b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
};
} // namespace

void BpeModel::addCandidate(int64_t left, int64_t right) {
  auto merge = tables.findMerge(symbols[left].id, symbols[right].id);
  if (!merge)
    return;
  queue.push_back({merge->rank, merge->result, static_cast<size_t>(left)});
  std::push_heap(queue.begin(), queue.end(), kComesLater);
}

void BpeModel::mergeAll() {
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    addCandidate(static_cast<int64_t>(i), static_cast<int64_t>(i + 1));
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), kComesLater);
    Candidate top = queue.back();
    queue.pop_back();
    Symbol &left = symbols[top.position];
    if (left.isMerged || left.next < 0)
      continue;
    Symbol &right = symbols[left.next];
    // The pair may have changed since the candidate was made; what counts is the token it makes.
    auto merge = tables.findMerge(left.id, right.id);
    if (!merge || merge->result != top.result)
      continue;
    left.id = top.result;
    left.next = right.next;
    right.isMerged = true;
    auto position = static_cast<int64_t>(top.position);
    if (left.next >= 0)
      symbols[left.next].previous = position;
    if (left.previous >= 0)
      addCandidate(left.previous, position);
    if (left.next >= 0)
      addCandidate(position, left.next);
  }
}

} // namespace llmc
