// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 and the few Unicode properties the tokenizer needs. Every function
// takes any bytes: what is not UTF-8 is reported or replaced, never misread.
#ifndef LLMC_RUNTIME_LLM_UNICODE_TEXT_H
#define LLMC_RUNTIME_LLM_UNICODE_TEXT_H

#include "runtime/core/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

/// The character U+FFFD that stands for bytes that are not UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// What the first bytes of a text are.
struct Utf8Step {
  enum Kind { Valid, Invalid, Incomplete };
  Kind kind;
  /// Valid: bytes of the character. Invalid: bytes that one U+FFFD replaces (the maximal prefix of
  /// a well-formed sequence, at least 1). Incomplete: bytes left, all a prefix of a character.
  uint32_t size;
  uint32_t codepoint; // Valid only
};
/// `text` is not empty.
Utf8Step stepUtf8(std::string_view text);
bool isUtf8(std::string_view text);
/// `text` with each ill-formed part replaced by U+FFFD.
std::string toUtf8(std::string_view text);
void appendUtf8(std::string &out, uint32_t codepoint);
/// Bytes of the character whose first byte is `first`, in text known to be UTF-8.
uint32_t utf8Size(char first);

/// Bytes of a character in UTF-8.
uint32_t utf8SizeOf(uint32_t codepoint);

/// The last character of a text known to be UTF-8 and not empty.
uint32_t lastCodepoint(std::string_view text);

/// White_Space.
bool isSpace(uint32_t codepoint);
/// Alphabetic, mark, decimal number, connector or join control: `\w` of UTS 18.
bool isWordCharacter(uint32_t codepoint);
/// General category M.
bool isCombiningMark(uint32_t codepoint);

enum class NormalForm { Nfc, Nfd, Nfkc, Nfkd };
/// `text` is UTF-8.
Result<std::string> normalizeUnicode(std::string_view text, NormalForm form);
/// Each character by its own full lower-case mapping.
std::string lowercase(std::string_view text);

/// The printable character that byte-level BPE writes for a byte (GPT-2's table), U+0021..U+0143.
uint32_t characterOfByte(uint8_t byte);
/// Its inverse, or -1.
int byteOfCharacter(uint32_t codepoint);

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_UNICODE_TEXT_H
