// SPDX-License-Identifier: Apache-2.0
//
// Says for each op on which device instance it runs, by the user's rules.
#include "passes/Passes.h"
#include "passes/partition/DeviceRules.h"

namespace llmc {

#define GEN_PASS_DEF_ASSIGNDEVICES
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// The ONNX node an op came from; empty when it has no name.
StringRef nodeOf(Operation *op) {
  StringRef name;
  op->getLoc()->walk([&](Location inner) {
    auto named = dyn_cast<NameLoc>(inner);
    if (!named)
      return WalkResult::advance();
    name = named.getName().getValue();
    return WalkResult::interrupt();
  });
  return name;
}

struct AssignDevicesPass : impl::AssignDevicesBase<AssignDevicesPass> {
  using AssignDevicesBase::AssignDevicesBase;

  void runOnOperation() override {
    llvm::Expected<DeviceRules> rules = DeviceRules::parse(map);
    if (!rules) {
      getOperation().emitError("[LLMC1530] device map: ") << llvm::toString(rules.takeError());
      return signalPassFailure();
    }
    if (rules->empty())
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.getBody().getOps())
        if (!isa<func::ReturnOp, llm::WeightOp, llm::ConstantOp>(op))
          if (std::optional<std::string> device = rules->deviceOf(nodeOf(&op)))
            op.setAttr(rt::kDeviceAttr, StringAttr::get(&getContext(), *device));
    for (const std::string &rule : rules->unused()) {
      getOperation().emitError("[LLMC1531] device map: the rule '") << rule << "' matches no node";
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace llmc
