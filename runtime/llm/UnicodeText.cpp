// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 decoding after the Unicode standard's table of well-formed sequences;
// properties and normal forms from utf8proc.
#include "runtime/llm/UnicodeText.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>

namespace llmc {

Utf8Step stepUtf8(std::string_view text) {
  auto byteAt = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byteAt(0);
  if (first < 0x80)
    return {Utf8Step::Valid, 1, first};
  // The range of the second byte excludes overlong forms, surrogates and values above U+10FFFF.
  uint32_t size = 0;
  uint32_t codepoint = 0;
  uint8_t low = 0x80, high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    size = 2;
    codepoint = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    size = 3;
    codepoint = first & 0x0F;
    low = first == 0xE0 ? 0xA0 : low;
    high = first == 0xED ? 0x9F : high;
  } else if (first >= 0xF0 && first <= 0xF4) {
    size = 4;
    codepoint = first & 0x07;
    low = first == 0xF0 ? 0x90 : low;
    high = first == 0xF4 ? 0x8F : high;
  } else {
    return {Utf8Step::Invalid, 1, 0};
  }
  for (uint32_t i = 1; i < size; ++i) {
    if (i == text.size())
      return {Utf8Step::Incomplete, i, 0};
    if (byteAt(i) < low || byteAt(i) > high)
      return {Utf8Step::Invalid, i, 0};
    codepoint = codepoint << 6 | (byteAt(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Step::Valid, size, codepoint};
}

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    Utf8Step step = stepUtf8(text);
    if (step.kind != Utf8Step::Valid)
      return false;
    text.remove_prefix(step.size);
  }
  return true;
}

std::string toUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    Utf8Step step = stepUtf8(text);
    out += step.kind == Utf8Step::Valid ? text.substr(0, step.size) : kReplacementCharacter;
    text.remove_prefix(step.size);
  }
  return out;
}

void appendUtf8(std::string &out, uint32_t codepoint) {
  utf8proc_uint8_t bytes[4];
  auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(codepoint), bytes);
  out.append(reinterpret_cast<const char *>(bytes), static_cast<size_t>(size));
}

uint32_t utf8Size(char first) {
  auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

uint32_t utf8SizeOf(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

uint32_t lastCodepoint(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80)
    --start;
  return stepUtf8(text.substr(start)).codepoint;
}

bool isSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool isWordCharacter(uint32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    // Join controls, and the symbols that are Alphabetic: circled and squared letters.
    return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
           (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
           (c >= 0x1F170 && c <= 0x1F189);
  }
}

bool isCombiningMark(uint32_t c) {
  auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

Result<std::string> normalizeUnicode(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  bool composes = form == NormalForm::Nfc || form == NormalForm::Nfkc;
  options |= composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::Nfkc || form == NormalForm::Nfkd)
    options |= UTF8PROC_COMPAT;
  if (text.empty()) // utf8proc takes a null pointer for an error
    return std::string();
  utf8proc_uint8_t *mapped = nullptr;
  auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                           static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                           static_cast<utf8proc_option_t>(options));
  if (size < 0)
    return Status::error(Code::ResourceExhausted, "the text of {} bytes cannot be normalized: {}",
                         text.size(), utf8proc_errmsg(size));
  std::string out(reinterpret_cast<const char *>(mapped), static_cast<size_t>(size));
  std::free(mapped);
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    Utf8Step step = stepUtf8(text);
    text.remove_prefix(step.size);
    // The one character whose lower case is two characters.
    if (step.codepoint == 0x130)
      out += "i\xCC\x87";
    else
      appendUtf8(out, static_cast<uint32_t>(
                          utf8proc_tolower(static_cast<utf8proc_int32_t>(step.codepoint))));
  }
  return out;
}

namespace {

constexpr bool isPrintableByte(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// Printable bytes stand for themselves; the others are numbered from U+0100 on.
struct ByteCharacters {
  std::array<uint16_t, 256> ofByte{};
  std::array<int16_t, 324> ofCharacter{};
  constexpr ByteCharacters() {
    for (auto &byte : ofCharacter)
      byte = -1;
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      ofByte[byte] = static_cast<uint16_t>(isPrintableByte(byte) ? byte : next++);
      ofCharacter[ofByte[byte]] = static_cast<int16_t>(byte);
    }
  }
};
constexpr ByteCharacters kByteCharacters;

} // namespace

uint32_t characterOfByte(uint8_t byte) { return kByteCharacters.ofByte[byte]; }

int byteOfCharacter(uint32_t c) {
  return c < kByteCharacters.ofCharacter.size() ? kByteCharacters.ofCharacter[c] : -1;
}

} // namespace llmc
