// SPDX-License-Identifier: Apache-2.0
//
// The one place that lists all targets.
#ifndef LLMC_CODEGEN_TARGETS_H
#define LLMC_CODEGEN_TARGETS_H

#include "mlir/IR/DialectRegistry.h"

namespace llmc {

/// Attaches every target, and the dialects that codegen uses, to contexts made with `registry`.
void registerTargets(mlir::DialectRegistry &registry);

} // namespace llmc

#endif // LLMC_CODEGEN_TARGETS_H
