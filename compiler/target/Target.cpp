// SPDX-License-Identifier: Apache-2.0
//
// Finding a target in a context.
#include "compiler/target/Target.h"

namespace llmc {

Target::~Target() = default;

const Target *TargetSet::find(mlir::MLIRContext *context, llvm::StringRef name) {
  auto *dialect = context->getOrLoadDialect<rt::RtDialect>();
  auto *set = dialect->getRegisteredInterface<TargetSet>();
  if (!set)
    return nullptr;
  for (const auto &target : set->targets)
    if (target->name() == name)
      return target.get();
  return nullptr;
}

} // namespace llmc
