// SPDX-License-Identifier: Apache-2.0
//
// A line per target.
#include "codegen/Targets.h"

#include "codegen/cpu/CpuTarget.h"
#include "compiler/target/Target.h"

namespace llmc {

void registerTargets(mlir::DialectRegistry &registry) {
  cpu::registerCodegenDialects(registry);
  registry.addExtension(+[](mlir::MLIRContext *, rt::RtDialect *dialect) {
    TargetSet::TargetList targets;
    targets.push_back(cpu::createCpuTarget());
    dialect->addInterface(std::make_unique<TargetSet>(dialect, std::move(targets)));
  });
}

} // namespace llmc
