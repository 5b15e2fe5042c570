// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npy format (versions 1 to 3), read from and written to memory. What
// is read is checked against the bytes that are there; nothing is trusted.
#ifndef LLMC_TOOLS_CLI_NPY_FILE_H
#define LLMC_TOOLS_CLI_NPY_FILE_H

#include "tools/cli/OwnedTensor.h"

namespace llmc::cli {

/// The array in `bytes`, brought into row-major order and the host's byte order. Arrays of two-byte
/// voids ("V2", which is how NumPy stores bfloat16) become BF16.
Result<OwnedTensor> parseNpy(std::span<const std::byte> bytes);

/// The head that goes before the tensor's own bytes. BF16 is written as uint16 bits.
std::string npyHeader(const OwnedTensor &tensor);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_NPY_FILE_H
