// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 through libcrypto, which uses the CPU's instructions for it.
#ifndef LLMC_RUNTIME_BUNDLE_SHA256_H
#define LLMC_RUNTIME_BUNDLE_SHA256_H

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmc {

using Sha256Digest = std::array<unsigned char, 32>;

/// Nothing when libcrypto refuses to hash (no memory, or a policy of the machine).
std::optional<Sha256Digest> sha256(std::span<const std::byte> bytes);

/// 64 lower-case hex digits.
std::string toHex(const Sha256Digest &digest);
/// Nothing unless `text` is 64 lower-case hex digits.
std::optional<Sha256Digest> parseSha256(std::string_view text);

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_SHA256_H
