// SPDX-License-Identifier: Apache-2.0
//
// The convolution that float, integer and quantized operators share.
#ifndef LLMC_COMPILER_ONNX_LOWER_CONVPARTS_H
#define LLMC_COMPILER_ONNX_LOWER_CONVPARTS_H

#include "compiler/onnx/Legalizer.h"

namespace llmc::onnx {

/// `x`, (batch, channels, sizes…), convolved with `w` as the node's attributes say; `bias` has one
/// element for each output channel, or is null.
Tensor convolve(Lowering &l, Tensor x, Tensor w, Tensor bias);

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LOWER_CONVPARTS_H
