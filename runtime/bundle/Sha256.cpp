// SPDX-License-Identifier: Apache-2.0
//
// One-shot hashing and the hex form; the reasons are in the header.
#include "runtime/bundle/Sha256.h"

#include <openssl/evp.h>

namespace llmc {

std::optional<Sha256Digest> sha256(std::span<const std::byte> bytes) {
  Sha256Digest digest;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    return std::nullopt;
  return digest;
}

std::string toHex(const Sha256Digest &digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (unsigned char byte : digest) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::optional<Sha256Digest> parseSha256(std::string_view text) {
  Sha256Digest digest;
  if (text.size() != 2 * digest.size())
    return std::nullopt;
  auto value = [](char digit) -> int {
    if (digit >= '0' && digit <= '9')
      return digit - '0';
    if (digit >= 'a' && digit <= 'f')
      return digit - 'a' + 10;
    return -1;
  };
  for (size_t i = 0; i < digest.size(); ++i) {
    int high = value(text[2 * i]), low = value(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return std::nullopt;
    digest[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return digest;
}

} // namespace llmc
