// SPDX-License-Identifier: Apache-2.0
//
// The cast that Cast, CastLike and QuantizeLinear share.
#ifndef LLMC_COMPILER_ONNX_LOWER_CASTPARTS_H
#define LLMC_COMPILER_ONNX_LOWER_CASTPARTS_H

#include "compiler/onnx/Legalizer.h"

namespace llmc::onnx {

/// A cast. To a narrow float, what is too large becomes the largest number unless the node's
/// attribute `saturate` is 0.
Tensor castTo(Lowering &l, Tensor x, mlir::Type to);

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LOWER_CASTPARTS_H
