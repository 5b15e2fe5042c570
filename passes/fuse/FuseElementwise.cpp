// SPDX-License-Identifier: Apache-2.0
//
// Groups ops into kernels, walking each function backwards: an op joins the
// one group that uses its result, or starts a group. A kernel asks for result
// elements backwards, so an op in a group costs once per question; that number
// is kept for every op and bounds what may join. Groups have one result, which
// makes cycles impossible.
#include "compiler/ir/llm/Dims.h"
#include "passes/Passes.h"
#include "passes/fuse/ProductChain.h"

#include "mlir/IR/IRMapping.h"

namespace llmc {

#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "passes/Passes.h.inc"

using namespace mlir;
using llm::ElementKind;

namespace {

/// How often a kernel may work out a cheap op per element of its result.
constexpr int64_t kMaxQuestions = 4;
/// Ops in one kernel: code size, and depth of the emitter's recursion.
constexpr size_t kMaxOps = 24;

/// Ops whose elements can be asked for one by one.
bool isElementOp(Operation *op) {
  return isa<llm::ElementwiseOp, llm::ReshapeOp, llm::BroadcastOp, llm::TileOp, llm::TransposeOp,
             llm::SliceOp, llm::ConcatOp, llm::PadOp, llm::TriluOp, llm::GatherOp,
             llm::GatherElementsOp, llm::GatherNdOp, llm::IotaOp, llm::SizesOp, llm::RopeOp>(op);
}

/// Ops that write whole lines to memory, after which an epilogue may work on them.
bool isRootOp(Operation *op) {
  return isa<llm::MatmulOp, llm::ReduceOp, llm::SoftmaxOp, llm::LayerNormOp, llm::RmsNormOp,
             llm::AttentionOp>(op);
}

/// Whether to work it out twice would cost more than to keep the result.
bool isHeavy(Operation *op) {
  if (isa<llm::GatherOp, llm::GatherElementsOp, llm::GatherNdOp, llm::RopeOp>(op))
    return true;
  auto elementwise = dyn_cast<llm::ElementwiseOp>(op);
  if (!elementwise)
    return false;
  switch (elementwise.getKind()) {
  case ElementKind::Abs:
  case ElementKind::Neg:
  case ElementKind::Relu:
  case ElementKind::Cast:
  case ElementKind::Add:
  case ElementKind::Sub:
  case ElementKind::Mul:
  case ElementKind::Min:
  case ElementKind::Max:
  case ElementKind::And:
  case ElementKind::Or:
  case ElementKind::Xor:
  case ElementKind::Not:
  case ElementKind::Equal:
  case ElementKind::Less:
  case ElementKind::LessEqual:
  case ElementKind::Greater:
  case ElementKind::GreaterEqual:
  case ElementKind::Select:
    return false;
  default:
    return true;
  }
}

/// How many times per element a root op reads the operand; 0 when it may not be computed on the
/// fly.
int64_t readsOf(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (auto reduce = dyn_cast<llm::ReduceOp>(op))
    return reduce.getKind() == llm::ReduceKind::LogSumExp ? 2 : 1;
  if (operand.getOperandNumber() != 0)
    return 0;
  if (isa<llm::SoftmaxOp>(op))
    return 2;
  return isa<llm::LayerNormOp, llm::RmsNormOp>(op) ? 3 : 0;
}

/// Whether an element op may read one element of the operand for many of its own.
bool repeats(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (isa<llm::BroadcastOp, llm::TileOp, llm::GatherOp, llm::GatherElementsOp, llm::GatherNdOp>(op))
    return true;
  if (isa<llm::RopeOp>(op))
    return operand.getOperandNumber() != 0;
  if (!isa<llm::ElementwiseOp>(op))
    return false;
  MLIRContext *context = op->getContext();
  return llm::productOf(llm::dimsOf(operand.get().getType()), context) !=
         llm::productOf(llm::dimsOf(op->getResult(0).getType()), context);
}

struct Group {
  SmallVector<Operation *> ops; // the result first, each before what it uses
  Operation *root = nullptr;
};

/// What joining costs an op: questions per element of the group's result, and whether elements are
/// asked for by several of those.
struct Questions {
  int64_t count = 0;
  bool repeated = false;
  bool epilogue = true; // only elementwise ops of one type lie between the op and the result
};

class Grouping {
public:
  void add(Operation *op);
  std::vector<Group> groups;

private:
  bool joins(Operation *op, Group &group, Questions &questions);

  DenseMap<Operation *, size_t> groupOf;
  DenseMap<Operation *, Questions> known;
};

bool Grouping::joins(Operation *op, Group &group, Questions &questions) {
  // A reshape that nothing follows in its kernel is a view.
  if (group.ops.size() >= kMaxOps || isa<llm::ReshapeOp>(group.ops.front()))
    return false;
  if (op->getAttr(rt::kDeviceAttr) != group.ops.front()->getAttr(rt::kDeviceAttr))
    return false;
  Type resultType = group.ops.front()->getResult(0).getType();
  for (OpOperand &use : op->getResult(0).getUses()) {
    Operation *user = use.getOwner();
    const Questions &outer = known[user];
    if (user == group.root) {
      int64_t reads = readsOf(use);
      // Behind a product it costs least, and sums of a norm don't depend on what else is fused.
      if (reads == 0 || followsProduct(use.get()))
        return false;
      questions.count += reads;
      questions.repeated |= reads > 1;
      questions.epilogue = false;
      continue;
    }
    int64_t asked = isa<llm::RopeOp>(user) && use.getOperandNumber() == 0 ? 2 : 1;
    questions.count += outer.count * asked;
    questions.repeated |= outer.repeated || repeats(use);
    questions.epilogue &= outer.epilogue && isa<llm::ElementwiseOp>(user) &&
                          user->getResult(0).getType() == op->getResult(0).getType();
  }
  if (isRootOp(op)) {
    // The epilogue overwrites the root's result element by element.
    return !group.root && questions.epilogue && questions.count <= kMaxQuestions &&
           op->getResult(0).getType() == resultType;
  }
  if (isHeavy(op))
    return questions.count == 1 && !questions.repeated;
  return questions.count <= kMaxQuestions;
}

void Grouping::add(Operation *op) {
  if (op->getNumResults() != 1 || (!isElementOp(op) && !isRootOp(op)))
    return;
  std::optional<size_t> target;
  bool single = !op->use_empty();
  for (Operation *user : op->getUsers()) {
    auto found = groupOf.find(user);
    single &= found != groupOf.end() && (!target || *target == found->second);
    if (!single)
      break;
    target = found->second;
  }
  Questions questions;
  if (single && joins(op, groups[*target], questions)) {
    Group &group = groups[*target];
    group.ops.push_back(op);
    if (isRootOp(op))
      group.root = op;
    groupOf[op] = *target;
    known[op] = questions;
    return;
  }
  groupOf[op] = groups.size();
  known[op] = {1, false, true};
  groups.push_back({{op}, isRootOp(op) ? op : nullptr});
}

struct FuseElementwisePass : impl::FuseElementwiseBase<FuseElementwisePass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration())
        for (Block &block : function.getBody())
          fuse(block);
  }

private:
  void fuse(Block &block);
};

/// Reshapes of what comes from memory stay outside, where they are views and cost nothing.
void trimViews(Group &group) {
  llvm::SmallPtrSet<Operation *, 16> inside(group.ops.begin(), group.ops.end());
  for (size_t i = group.ops.size(); i-- > 0;) {
    Operation *op = group.ops[i];
    if (!isa<llm::ReshapeOp>(op) || inside.contains(op->getOperand(0).getDefiningOp()))
      continue;
    inside.erase(op);
    group.ops.erase(group.ops.begin() + i);
  }
}

void FuseElementwisePass::fuse(Block &block) {
  Grouping grouping;
  for (Operation &op : llvm::reverse(block))
    grouping.add(&op);
  for (Group &group : grouping.groups) {
    trimViews(group);
    if (group.ops.size() < 2)
      continue;
    Operation *last = group.ops.front();
    OpBuilder builder(last);
    SmallVector<Location> locations;
    for (Operation *op : group.ops)
      locations.push_back(op->getLoc());
    // The main op names the kernel.
    Location loc = group.root ? group.root->getLoc() : last->getLoc();
    auto fusion = llm::FusionOp::create(builder, loc, last->getResultTypes());
    if (Attribute device = last->getAttr(rt::kDeviceAttr))
      fusion->setAttr(rt::kDeviceAttr, device);
    Block *body = builder.createBlock(&fusion.getBody());
    for (Operation *op : llvm::reverse(group.ops))
      op->moveBefore(body, body->end());
    builder.setInsertionPointToEnd(body);
    last->getResult(0).replaceAllUsesWith(fusion->getResult(0));
    llm::FusionYieldOp::create(builder, loc, last->getResult(0));
    ++numFusions;
    numFused += group.ops.size();
  }
}

} // namespace
} // namespace llmc
