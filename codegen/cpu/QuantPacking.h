// SPDX-License-Identifier: Apache-2.0
//
// From canonical rows (compiler/ir/CanonicalRows.h) to the layouts of
// codegen/cpu/QuantLayout.h. No value changes: what was quantized is only moved,
// and scales of groups become the f16 that they are.
#ifndef LLMC_CODEGEN_CPU_QUANT_PACKING_H
#define LLMC_CODEGEN_CPU_QUANT_PACKING_H

#include "codegen/cpu/QuantLayout.h"
#include "compiler/ir/WeightFormat.h"
#include "compiler/ir/WeightStore.h"

namespace llmc::cpu {

/// The layout of a quantized format.
QuantLayout quantLayoutFor(const WeightFormat &format);

/// Packs the canonical rows of a quantized weight.
std::unique_ptr<WeightTransform> packQuantized(const QuantLayout &layout);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_QUANT_PACKING_H
