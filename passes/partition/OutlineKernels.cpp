// SPDX-License-Identifier: Apache-2.0
//
// Every op becomes a call of a kernel that knows nothing of where it stands:
// its sizes are numbered afresh, its weights are operands. Bodies that print
// alike are the same kernel, so a model of 80 equal layers compiles one.
#include "compiler/ir/WeightFormat.h"
#include "compiler/ir/llm/Dims.h"
#include "compiler/target/Target.h"
#include "passes/Passes.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace llmc {

#define GEN_PASS_DEF_OUTLINEKERNELS
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// Gives each distinct run-time size of a kernel a symbol of its own, in order of appearance.
class LocalSizes {
public:
  explicit LocalSizes(MLIRContext *context) {
    replacer.addReplacement([this,
                             context](llm::DimsAttr dims) -> std::pair<Attribute, WalkResult> {
      SmallVector<AffineExpr> local;
      for (AffineExpr expr : dims.getExprs()) {
        if (!isa<AffineConstantExpr>(expr)) {
          unsigned position = positions.insert({expr, unsigned(positions.size())}).first->second;
          expr = getAffineSymbolExpr(position, context);
        }
        local.push_back(expr);
      }
      return {llm::DimsAttr::get(context, local), WalkResult::skip()};
    });
  }

  Type localize(Type type) { return replacer.replace(type); }
  void localize(Operation *op) {
    replacer.replaceElementsIn(op, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                               /*replaceTypes=*/true);
  }
  /// The outer sizes, in the order of the kernel's symbols.
  SmallVector<AffineExpr> outer() const {
    return llvm::map_to_vector(positions, [](const auto &entry) { return entry.first; });
  }

private:
  AttrTypeReplacer replacer;
  llvm::MapVector<AffineExpr, unsigned> positions;
};

/// A constant that a kernel holds itself instead of reading it from memory.
bool isInlineConstant(Operation *op) {
  auto constant = dyn_cast_or_null<llm::ConstantOp>(op);
  auto values = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return values && values.isSplat() && values.getNumElements() > 0;
}

/// "add", "matmul": what a kernel mainly does.
std::string nameOf(Operation *op) {
  if (auto elementwise = dyn_cast<llm::ElementwiseOp>(op))
    return llm::stringifyElementKind(elementwise.getKind()).str();
  if (auto reduce = dyn_cast<llm::ReduceOp>(op))
    return "reduce_" + llm::stringifyReduceKind(reduce.getKind()).str();
  return op->getName().stripDialect().str();
}

/// "add f32[s0, 768]": for people who read profiles.
std::string labelOf(Operation *op, Type type) {
  std::string label = nameOf(op);
  auto tensor = dyn_cast_or_null<RankedTensorType>(type);
  if (!tensor)
    return label;
  llvm::raw_string_ostream stream(label);
  stream << ' ' << tensor.getElementType() << '[';
  llvm::interleaveComma(tensor.getShape(), stream, [&](int64_t size) {
    if (ShapedType::isDynamic(size))
      stream << '?';
    else
      stream << size;
  });
  stream << ']';
  return label;
}

/// The op that a kernel is named after: one that combines elements, else the last.
Operation *mainOf(ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (isa<llm::MatmulOp, llm::ReduceOp, llm::SoftmaxOp, llm::LayerNormOp, llm::RmsNormOp,
            llm::AttentionOp, llm::KvAppendOp>(op))
      return op;
  return isa<llm::FusionYieldOp>(ops.back()) && ops.size() > 1 ? ops[ops.size() - 2] : ops.back();
}

/// The layout that a product wants of a weight whose rows are its columns; empty if none reads it.
/// A gather of such rows takes the same bytes.
std::string layoutOfProducts(const Target &target, llm::WeightOp weight) {
  for (OpOperand &use : weight->getUses())
    if (auto matmul = dyn_cast<llm::MatmulOp>(use.getOwner());
        matmul && matmul.getTransposeRhs() && use.getOperandNumber() == 1)
      return target.weightLayout(matmul, 1);
  return {};
}

struct OutlineKernelsPass : impl::OutlineKernelsBase<OutlineKernelsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    target = TargetSet::find(&getContext(), "cpu");
    kernelBuilder = OpBuilder::atBlockEnd(module.getBody());
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isDeclaration())
        outline(function);
    numKernels = kernels.size();
  }

private:
  void outline(func::FuncOp function);
  void dispatch(Operation *op);
  Value weightFor(llm::WeightOp weight, Operation *user, unsigned operand, OpBuilder &builder);

  const Target *target = nullptr;
  OpBuilder kernelBuilder = OpBuilder(static_cast<MLIRContext *>(nullptr));
  llvm::StringMap<StringAttr> kernels; // body text -> symbol
  DenseMap<Operation *, std::string> layoutsOfProducts;
};

void OutlineKernelsPass::outline(func::FuncOp function) {
  Block &body = function.getBody().front();
  if (target)
    for (auto weight : body.getOps<llm::WeightOp>())
      layoutsOfProducts[weight] = layoutOfProducts(*target, weight);
  for (Operation &op : llvm::make_early_inc_range(body)) {
    OpBuilder builder(&op);
    if (isa<func::ReturnOp, llm::WeightOp>(op) || isInlineConstant(&op) ||
        isa<rt::RtDialect>(op.getDialect()))
      continue;
    if (auto constant = dyn_cast<llm::ConstantOp>(op)) {
      auto replacement =
          rt::ConstantOp::create(builder, op.getLoc(), constant.getType(), constant.getValueAttr());
      constant.replaceAllUsesWith(replacement.getResult());
      op.erase();
    } else if (auto reshape = dyn_cast<llm::ReshapeOp>(op);
               reshape && !isInlineConstant(reshape.getInput().getDefiningOp())) {
      Value input = reshape.getInput();
      if (auto weight = input.getDefiningOp<llm::WeightOp>())
        input = weightFor(weight, &op, 0, builder);
      auto view = rt::ViewOp::create(builder, op.getLoc(), reshape.getType(), input);
      reshape.replaceAllUsesWith(view.getResult());
      op.erase();
    } else {
      dispatch(&op);
    }
  }
  // What the function returns must be in memory: constants and weights that no kernel touched.
  auto terminator = cast<func::ReturnOp>(body.getTerminator());
  OpBuilder builder(terminator);
  for (OpOperand &operand : terminator->getOpOperands()) {
    Operation *producer = operand.get().getDefiningOp();
    if (auto weight = dyn_cast_or_null<llm::WeightOp>(producer))
      operand.set(weightFor(weight, terminator, operand.getOperandNumber(), builder));
    else if (auto constant = dyn_cast_or_null<llm::ConstantOp>(producer))
      operand.set(rt::ConstantOp::create(builder, constant.getLoc(), constant.getType(),
                                         constant.getValueAttr()));
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isa<llm::WeightOp, llm::ConstantOp>(op) && op.use_empty())
      op.erase();
}

Value OutlineKernelsPass::weightFor(llm::WeightOp weight, Operation *user, unsigned operand,
                                    OpBuilder &builder) {
  auto type = cast<RankedTensorType>(weight.getType());
  auto matmul = dyn_cast<llm::MatmulOp>(user);
  auto gather = dyn_cast<llm::GatherOp>(user);
  std::string layout = "plain";
  if (target && !isa<func::ReturnOp, llm::ReshapeOp>(user))
    layout = target->weightLayout(user, operand);
  bool rows = gather && operand == 0 && gather.getAxis() == 0 && type.getRank() == 2;
  if (layout == "plain" && rows)
    if (std::string shared = layoutsOfProducts.lookup(weight); !shared.empty())
      layout = shared;
  bool transposed = layout != "plain" && (matmul ? matmul.getTransposeRhs() : rows);
  StringAttr format;
  if (std::optional<WeightFormat> quantized = formatOf(type))
    format = builder.getStringAttr(quantized->str());
  // A packed weight's type says so, which keeps kernels that read another form apart.
  if (layout != "plain")
    type = RankedTensorType::get(type.getShape(), type.getElementType(),
                                 builder.getStringAttr(layout));
  // Located at the node that reads it: exporters' names of weights say less.
  return rt::WeightOp::create(builder, user->getLoc(), type, weight.getKeyAttr(),
                              builder.getStringAttr(layout), format, transposed);
}

/// All nodes that a kernel stands for: an error in it could be any one's.
Location locationOf(Operation *op) {
  auto fusion = dyn_cast<llm::FusionOp>(op);
  if (!fusion)
    return op->getLoc();
  SmallVector<Location> locations;
  for (Operation &inner : fusion->getRegion(0).front().without_terminator())
    locations.push_back(inner.getLoc());
  return FusedLoc::get(op->getContext(), locations);
}

void OutlineKernelsPass::dispatch(Operation *op) {
  OpBuilder builder(op);
  MLIRContext *context = op->getContext();
  Location loc = locationOf(op);
  // A fusion's body, or the op alone.
  SmallVector<Operation *> ops{op};
  auto fusion = dyn_cast<llm::FusionOp>(op);
  if (fusion) {
    ops.clear();
    for (Operation &inside : fusion.getBody().front())
      ops.push_back(&inside);
  }
  llvm::SetVector<Value> outside; // operands of the call
  llvm::SetVector<Operation *> inlined;
  // llm.weight -> rt.weight; ops may read a weight in different forms.
  DenseMap<std::pair<Operation *, unsigned>, Value> fetched;
  for (Operation *user : ops)
    for (OpOperand &operand : user->getOpOperands()) {
      Operation *producer = operand.get().getDefiningOp();
      if (fusion && producer && producer->getParentOp() == fusion)
        continue;
      if (isInlineConstant(producer)) {
        inlined.insert(producer);
      } else if (auto weight = dyn_cast_or_null<llm::WeightOp>(producer)) {
        Value value = weightFor(weight, user, operand.getOperandNumber(), builder);
        for (Value known : outside)
          if (auto other = known.getDefiningOp<rt::WeightOp>();
              other && other.getKey() == weight.getKey() && other.getType() == value.getType() &&
              other.getTransposed() == value.getDefiningOp<rt::WeightOp>().getTransposed()) {
            value.getDefiningOp()->erase();
            value = known;
            break;
          }
        fetched[{user, operand.getOperandNumber()}] = value;
        outside.insert(value);
      } else {
        outside.insert(operand.get());
      }
    }

  // The body, with the kernel's own sizes.
  LocalSizes sizes(context);
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(loc);
  OpBuilder inner = OpBuilder::atBlockEnd(scratch->getBody());
  Operation *main = mainOf(ops);
  std::string label = labelOf(main, main->getNumResults() ? main->getResult(0).getType() : Type());
  auto kernel = rt::KernelOp::create(inner, loc, "k", label, 0);
  Block *body = inner.createBlock(&kernel.getBody());
  IRMapping mapping;
  for (Value value : outside)
    mapping.map(value, body->addArgument(sizes.localize(value.getType()), loc));
  for (Operation *constant : inlined)
    inner.clone(*constant, mapping);
  SmallVector<Value> yielded;
  for (Operation *original : ops) {
    if (auto yield = dyn_cast<llm::FusionYieldOp>(original)) {
      for (Value value : yield.getValues())
        yielded.push_back(mapping.lookupOrDefault(value));
      break;
    }
    Operation *clone = inner.clone(*original, mapping);
    for (OpOperand &operand : original->getOpOperands())
      if (Value weight = fetched.lookup({original, operand.getOperandNumber()}))
        clone->setOperand(operand.getOperandNumber(), mapping.lookup(weight));
    clone->removeDiscardableAttr(rt::kDeviceAttr);
    sizes.localize(clone);
    if (!fusion)
      llvm::append_range(yielded, clone->getResults());
  }
  rt::YieldOp::create(inner, loc, yielded);
  SmallVector<AffineExpr> scalars = sizes.outer();
  kernel.setSizes(scalars.size());

  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope());
  StringAttr &symbol = kernels[text];
  if (!symbol) {
    symbol = builder.getStringAttr(nameOf(main) + "_" + std::to_string(kernels.size() - 1));
    kernel.setSymNameAttr(symbol);
    kernel->remove();
    kernelBuilder.insert(kernel);
  }

  auto device = op->getAttrOfType<StringAttr>(rt::kDeviceAttr);
  auto call =
      rt::DispatchOp::create(builder, loc, op->getResultTypes(), FlatSymbolRefAttr::get(symbol),
                             device ? device : builder.getStringAttr(rt::kHostDevice),
                             llm::DimsAttr::get(context, scalars), outside.getArrayRef());
  op->replaceAllUsesWith(call->getResults());
  op->erase();
  ++numDispatches;
}

} // namespace
} // namespace llmc
