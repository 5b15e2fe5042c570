// SPDX-License-Identifier: Apache-2.0
//
// What happens between a layer's projections and its attention is little work:
// cutting query, keys and values apart, turning them by their positions,
// writing keys and values to the cache. One kernel does all of it, so that a
// token waits once for the other workers instead of five times.
#include "passes/Passes.h"

namespace llmc {

#define GEN_PASS_DEF_FUSEAPPENDS
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// Ops whose elements cost little where they are asked for row by row.
bool isRowOp(Operation *op) {
  if (auto transpose = dyn_cast_or_null<llm::TransposeOp>(op)) {
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    return !permutation.empty() && permutation.back() == int64_t(permutation.size()) - 1;
  }
  return op && isa<llm::SliceOp, llm::RopeOp>(op);
}

struct FuseAppendsPass : impl::FuseAppendsBase<FuseAppendsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration())
        for (Block &block : function.getBody())
          for (auto attention : llvm::make_early_inc_range(block.getOps<llm::AttentionOp>()))
            fuseBefore(attention);
  }

private:
  void fuseBefore(llm::AttentionOp attention);
};

/// The one append to `cache` that stands before `attention`, if no other op touches the cache
/// between them.
llm::KvAppendOp appendBefore(Value cache, llm::AttentionOp attention) {
  llm::KvAppendOp last;
  for (Operation *user : cache.getUsers()) {
    if (user == attention || user->getBlock() != attention->getBlock() ||
        !user->isBeforeInBlock(attention))
      continue;
    auto append = dyn_cast<llm::KvAppendOp>(user);
    if (!append || last)
      return {};
    last = append;
  }
  return last;
}

/// Adds the row ops that make `value` and nothing else, last first.
void addProducers(Value value, Operation *place, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!isRowOp(op) || !value.hasOneUse() || op->getBlock() != place->getBlock() ||
      op->getAttr(rt::kDeviceAttr) != place->getAttr(rt::kDeviceAttr))
    return;
  ops.insert(op);
  addProducers(op->getOperand(0), place, ops);
}

void FuseAppendsPass::fuseBefore(llm::AttentionOp attention) {
  if (!isa<llm::KvType>(attention.getKey().getType()))
    return;
  llvm::SetVector<Operation *> ops; // each before what it uses
  for (Value cache : {attention.getKey(), attention.getValue()}) {
    llm::KvAppendOp append = appendBefore(cache, attention);
    if (!append || append->getAttr(rt::kDeviceAttr) != attention->getAttr(rt::kDeviceAttr))
      return;
    if (!ops.insert(append))
      return;
    addProducers(append.getInput(), attention, ops);
  }
  SmallVector<Value> results;
  Value query = attention.getQuery();
  size_t before = ops.size();
  addProducers(query, attention, ops);
  if (ops.size() != before)
    results.push_back(query);

  OpBuilder builder(attention);
  Location loc = ops.front()->getLoc();
  auto fusion = llm::FusionOp::create(builder, loc, TypeRange(results));
  if (Attribute device = attention->getAttr(rt::kDeviceAttr))
    fusion->setAttr(rt::kDeviceAttr, device);
  Block *body = builder.createBlock(&fusion.getBody());
  for (Operation *op : llvm::reverse(ops))
    op->moveBefore(body, body->end());
  builder.setInsertionPointToEnd(body);
  llm::FusionYieldOp::create(builder, loc, results);
  if (!results.empty())
    attention.getQueryMutable().assign(fusion.getResult(0));
  ++numFusions;
}

} // namespace
} // namespace llmc
