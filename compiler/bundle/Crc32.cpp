// SPDX-License-Identifier: Apache-2.0
//
// Folding with carry-less multiplication where the CPU has it, zlib elsewhere
// and for short pieces. Folding replaces 64 bytes of a message by others that
// leave the same remainder further on; the last 16 bytes go through zlib.
#include "compiler/bundle/Crc32.h"

#include <zlib.h>

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace llmc {
namespace {

/// zlib takes at most 32-bit sizes at once.
uint32_t extendByZlib(uint32_t crc, const unsigned char *bytes, size_t size) {
  while (size > 0) {
    size_t piece = std::min<size_t>(size, 1u << 30);
    crc = static_cast<uint32_t>(crc32(crc, bytes, static_cast<uInt>(piece)));
    bytes += piece;
    size -= piece;
  }
  return crc;
}

#if defined(__x86_64__)

/// x^power modulo the CRC polynomial, bits reflected as the checksum has them, one to the left
/// because the carry-less product of two reflected numbers comes out one to the right.
constexpr uint64_t foldFactor(int power) {
  uint32_t remainder = 0x80000000u;
  for (int i = 0; i < power; ++i)
    remainder = (remainder >> 1) ^ ((remainder & 1) ? 0xEDB88320u : 0);
  return static_cast<uint64_t>(remainder) << 1;
}

/// `block` moved `distance` bits further on in the message, where `next` stands.
__attribute__((target("pclmul"))) inline __m128i fold(__m128i block, __m128i factors,
                                                      __m128i next) {
  __m128i low = _mm_clmulepi64_si128(block, factors, 0x00);
  __m128i high = _mm_clmulepi64_si128(block, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul"))) uint32_t extendByFolding(uint32_t crc, const unsigned char *bytes,
                                                           size_t size) {
  const __m128i by512 = _mm_set_epi64x(foldFactor(512 - 32), foldFactor(512 + 32));
  const __m128i by128 = _mm_set_epi64x(foldFactor(128 - 32), foldFactor(128 + 32));
  auto load = [&](size_t at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes + at));
  };
  __m128i block[4] = {load(0), load(16), load(32), load(48)};
  block[0] = _mm_xor_si128(block[0], _mm_cvtsi32_si128(static_cast<int>(~crc)));
  size_t at = 64;
  for (; size - at >= 64; at += 64)
    for (int i = 0; i < 4; ++i)
      block[i] = fold(block[i], by512, load(at + 16 * i));
  for (int i = 0; i < 3; ++i)
    block[i + 1] = fold(block[i], by128, block[i + 1]);
  unsigned char rest[16];
  _mm_storeu_si128(reinterpret_cast<__m128i *>(rest), block[3]);
  // The checksum's initial value is already in the blocks: start from the one that stands for 0.
  crc = extendByZlib(0xFFFFFFFFu, rest, sizeof rest);
  return extendByZlib(crc, bytes + at, size - at);
}

#endif

} // namespace

uint32_t extendCrc32(uint32_t crc, const void *bytes, size_t size) {
  const auto *data = static_cast<const unsigned char *>(bytes);
#if defined(__x86_64__)
  if (size >= 128 && __builtin_cpu_supports("pclmul"))
    return extendByFolding(crc, data, size);
#endif
  return extendByZlib(crc, data, size);
}

} // namespace llmc
