// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer.json with a little of everything: bytes to fall back to, a merge,
// each list of steps, an added token. The fuzzer's seed and what it damages.
#ifndef LLMC_TESTS_FUZZ_GOOD_TOKENIZER_H
#define LLMC_TESTS_FUZZ_GOOD_TOKENIZER_H

#include <fmt/format.h>

#include <string>

namespace llmc {

inline std::string goodTokenizer() {
  std::string vocabulary = R"("<unk>":0,"a":1,"b":2,"ab":3,"▁":4)";
  for (int byte = 0; byte < 256; ++byte)
    vocabulary += fmt::format(",\"<0x{:02X}>\":{}", byte, byte + 5);
  return R"({"model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","merges":["a b"],"vocab":{)" +
         vocabulary + R"(}},
    "added_tokens":[{"content":"<s>","special":true},{"content":"A","normalized":true,"lstrip":true}],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]},
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Metaspace"},{"type":"Digits"}]},
    "post_processor":{"type":"BertProcessing","cls":["<s>",261],"sep":["a",1]},
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]}})";
}

} // namespace llmc

#endif // LLMC_TESTS_FUZZ_GOOD_TOKENIZER_H
