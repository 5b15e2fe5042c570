// SPDX-License-Identifier: Apache-2.0
//
// The ZIP checksum at memory speed: weights of many gigabytes pass through it.
#ifndef LLMC_COMPILER_BUNDLE_CRC32_H
#define LLMC_COMPILER_BUNDLE_CRC32_H

#include <cstddef>
#include <cstdint>

namespace llmc {

/// The checksum of some bytes with checksum `crc` (0 for none) followed by these `size` bytes.
uint32_t extendCrc32(uint32_t crc, const void *bytes, size_t size);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_CRC32_H
