// SPDX-License-Identifier: Apache-2.0
//
// Makes every value that crosses devices an explicit copy. Weights are no
// values: each device that reads one holds its own.
#include "passes/Passes.h"

namespace llmc {

#define GEN_PASS_DEF_INSERTTRANSFERS
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

struct InsertTransfersPass : impl::InsertTransfersBase<InsertTransfersPass> {
  void runOnOperation() override {
    host = StringAttr::get(&getContext(), rt::kHostDevice);
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration())
        insert(function);
  }

private:
  void insert(func::FuncOp function);
  StringAttr deviceOf(Value value) const;
  Value onDevice(Value value, StringAttr device, OpBuilder &builder);

  StringAttr host;
  DenseMap<std::pair<Value, StringAttr>, Value> copies;
};

/// Where a value's memory is. Inputs and outputs of an entry are the host's.
StringAttr InsertTransfersPass::deviceOf(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return host;
  if (auto dispatch = dyn_cast<rt::DispatchOp>(op))
    return dispatch.getDeviceAttr();
  if (auto transfer = dyn_cast<rt::TransferOp>(op))
    return transfer.getDeviceAttr();
  if (auto view = dyn_cast<rt::ViewOp>(op))
    return deviceOf(view.getInput());
  auto attr = op->getAttrOfType<StringAttr>(rt::kDeviceAttr);
  return attr ? attr : host;
}

Value InsertTransfersPass::onDevice(Value value, StringAttr device, OpBuilder &builder) {
  StringAttr from = deviceOf(value);
  if (from == device)
    return value;
  Value &copy = copies[{value, device}];
  if (copy)
    return copy;
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<rt::WeightOp, rt::ConstantOp, rt::KvOp>(op)) {
    OpBuilder beside(op);
    Operation *clone = beside.clone(*op);
    clone->setAttr(rt::kDeviceAttr, device);
    return copy = clone->getResult(0);
  }
  if (auto view = dyn_cast_or_null<rt::ViewOp>(op)) {
    Value moved = onDevice(view.getInput(), device, builder);
    return copy = rt::ViewOp::create(builder, view.getLoc(), view.getType(), moved);
  }
  Location loc = op ? op->getLoc() : builder.getUnknownLoc();
  rt::WaitOp::create(builder, loc, from);
  ++numTransfers;
  return copy = rt::TransferOp::create(builder, loc, value.getType(), value, device);
}

void InsertTransfersPass::insert(func::FuncOp function) {
  copies.clear();
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    OpBuilder builder(&op);
    if (auto dispatch = dyn_cast<rt::DispatchOp>(op)) {
      for (OpOperand &operand : op.getOpOperands())
        operand.set(onDevice(operand.get(), dispatch.getDeviceAttr(), builder));
    } else if (isa<func::ReturnOp>(op)) {
      for (OpOperand &operand : op.getOpOperands())
        operand.set(onDevice(operand.get(), host, builder));
    }
  }
}

} // namespace
} // namespace llmc
