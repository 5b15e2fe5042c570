// SPDX-License-Identifier: Apache-2.0
//
// Says for each op on which device instance it runs, by the user's rules.
#include "passes/Passes.h"
#include "passes/rules/NameRules.h"

#include "llvm/ADT/StringExtras.h"

namespace llmc {

#define GEN_PASS_DEF_ASSIGNDEVICES
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// A device instance is a driver's name and a number.
bool namesDevice(StringRef name) {
  return llvm::isAlpha(name.front()) && llvm::all_of(name, llvm::isAlnum);
}

struct AssignDevicesPass : impl::AssignDevicesBase<AssignDevicesPass> {
  using AssignDevicesBase::AssignDevicesBase;

  void runOnOperation() override {
    constexpr StringLiteral kForm = "PATTERN=DEVICE, e.g. layers[0-3]=cpu0";
    llvm::Expected<NameRules> rules = NameRules::parse(map, /*allowDefault=*/false, kForm);
    if (!rules) {
      getOperation().emitError("[LLMC1530] device map: ") << llvm::toString(rules.takeError());
      return signalPassFailure();
    }
    for (const NameRules::Rule &rule : rules->all())
      if (!namesDevice(rule.value)) {
        getOperation().emitError("[LLMC1530] device map: the rule '")
            << rule.text << "' is not of the form " << kForm;
        return signalPassFailure();
      }
    if (rules->all().empty())
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.getBody().getOps())
        if (!isa<func::ReturnOp, llm::WeightOp, llm::ConstantOp>(op))
          // Of a fused op the first node decides.
          if (const NameRules::Rule *rule = rules->find(ArrayRef(nodesOf(&op)).take_front(1)))
            op.setAttr(rt::kDeviceAttr, StringAttr::get(&getContext(), rule->value));
    for (const NameRules::Rule &rule : rules->all())
      if (!rule.used) {
        getOperation().emitError("[LLMC1531] device map: the rule '")
            << rule.text << "' matches no node";
        signalPassFailure();
      }
  }
};

} // namespace
} // namespace llmc
