// SPDX-License-Identifier: Apache-2.0
//
// The bytes of `program/main.bin` from a module of `rt` ops: every value is a
// buffer with a lifetime, every size an expression, every op an instruction.
#ifndef LLMC_COMPILER_BUNDLE_PROGRAM_BUILDER_H
#define LLMC_COMPILER_BUNDLE_PROGRAM_BUILDER_H

#include "compiler/ir/rt/RtDialect.h"
#include "runtime/abi/BundleFormat.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace llmc {

/// A stretch of weights.bin and what is to be written there.
struct WeightSegment {
  mlir::Operation *source; ///< rt.weight or rt.constant
  uint64_t offset;
  uint64_t size;
};

struct BuiltProgram {
  std::string bytes;
  std::vector<WeightSegment> weights; ///< ascending, aligned, without gaps beyond the alignment
  uint64_t weightsSize = 0;
};

/// `same` says which of two weights holds the same bytes: it returns a canonical key. Fails after a
/// diagnostic.
mlir::FailureOr<BuiltProgram> buildProgram(mlir::ModuleOp module,
                                           llvm::function_ref<std::string(rt::WeightOp)> same);

/// The number of an element type in the bundle, 0 when it has none.
uint32_t dtypeNumber(mlir::Type element);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_PROGRAM_BUILDER_H
