// SPDX-License-Identifier: Apache-2.0
//
// Files hold weights in forms that no kernel reads: behind DequantizeLinear, in
// the blocks of MatMulNBits, as kernels of convolutions. Before the graph passes see a program,
// each has become a weight of the store in the type that the program computes with.
#ifndef LLMC_COMPILER_DRIVER_IMPORTEDWEIGHTS_H
#define LLMC_COMPILER_DRIVER_IMPORTEDWEIGHTS_H

#include "compiler/ir/WeightStore.h"

#include "mlir/IR/BuiltinOps.h"

namespace llmc {

/// Replaces each `llm.dequantize` of weights and constants, and each matrix that is a rearranged
/// weight of more dimensions, by a weight that `weights` makes when it is read. Reports parameters
/// that don't fit.
mlir::LogicalResult resolveImportedWeights(mlir::ModuleOp module, WeightStore &weights);

} // namespace llmc

#endif // LLMC_COMPILER_DRIVER_IMPORTEDWEIGHTS_H
