// SPDX-License-Identifier: Apache-2.0
//
// Hostile tokenizers: an input that starts with '{' is a tokenizer.json, which
// must compile to tables that load, or be refused; any other input is a list of
// changes (3 bytes of offset, 1 of value) to good tables, which must then load
// or be refused, and encode and decode without harm.
#include "compiler/bundle/TokenizerCompiler.h"
#include "runtime/llm/Tokenizer.h"
#include "runtime/llm/UnicodeText.h"
#include "tests/fuzz/GoodTokenizer.h"

#include <cstdlib>

namespace {

using namespace llmc;

void use(const Tokenizer &tokenizer) {
  auto ids = tokenizer.encode("ab <s> A1b22 h\xC3\xA9\xFF \xE2\x96\x81", true);
  if (!ids.isOk())
    return;
  ids->insert(ids->end(), {0, 1, 7, 200, tokenizer.tokenCount(), 0xFFFFFFFF});
  auto text = tokenizer.decode(*ids, false);
  if (text.isOk() && !isUtf8(*text))
    std::abort();
  TextStreamer streamer(tokenizer, true);
  for (uint32_t id : *ids)
    if (auto part = streamer.push(id); part.isOk() && !isUtf8(*part))
      std::abort();
}

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 0 && data[0] == '{') {
    auto compiled = compileTokenizer({reinterpret_cast<const char *>(data), size}, "");
    if (compiled.outcome != TokenizerCompileResult::Compiled)
      return 0;
    auto tokenizer = Tokenizer::load(bytesOf(compiled.bytes));
    if (!tokenizer.isOk())
      std::abort();
    use(*tokenizer);
    return 0;
  }
  static const std::string kGood = compileTokenizer(goodTokenizer(), "").bytes;
  if (kGood.empty())
    std::abort();
  std::string tables = kGood;
  for (size_t at = 0; at + 4 <= size; at += 4)
    tables[(data[at] << 16 | data[at + 1] << 8 | data[at + 2]) % tables.size()] =
        static_cast<char>(data[at + 3]);
  auto tokenizer = Tokenizer::load(bytesOf(tables));
  if (tokenizer.isOk())
    use(*tokenizer);
  return 0;
}
