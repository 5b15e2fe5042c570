// SPDX-License-Identifier: Apache-2.0
//
// The `session` entry is the `run` entry read for one sequence whose cache
// lives in the runtime: a copy with other sizes, inputs made from the past's
// length, and caches where past was concatenated with new. It is made whole or
// not at all.
#include "compiler/ir/llm/Symbols.h"
#include "passes/Passes.h"
#include "passes/recover/GraphMatch.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace llmc {

#define GEN_PASS_DEF_FORMKVCACHE
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

constexpr llvm::StringLiteral kRole = "llm.role";
constexpr llvm::StringLiteral kEntry = "rt.entry";

/// Sizes of the run entry in terms of the session's.
class SizeMap {
public:
  explicit SizeMap(llm::Symbols &symbols) : symbols(symbols) {}

  /// Says that `expr`, a size of an input, is `value`. False when it is already something else.
  bool unify(AffineExpr expr, AffineExpr value) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
      AffineExpr &known = values[symbol.getPosition()];
      if (!known)
        known = value;
      return known == value;
    }
    if (llm::constantOf(expr))
      return expr == value;
    composites.push_back({expr, value});
    return true;
  }
  /// Whether the sizes that aren't symbols of their own agree too.
  bool consistent() {
    return llvm::all_of(composites, [&](auto &pair) { return map(pair.first) == pair.second; });
  }

  /// Null when `expr` depends on a size that the session doesn't know.
  AffineExpr map(AffineExpr expr) {
    for (unsigned position : llm::symbolsIn(expr))
      if (!symbol(position))
        return {};
    return llm::substitute(expr, [&](unsigned position) { return values[position]; });
  }

private:
  AffineExpr symbol(unsigned position) {
    if (AffineExpr known = values.lookup(position))
      return known;
    llm::SymbolAttr definition = symbols.all()[position];
    if (!definition.getOperands())
      return {};
    AffineExpr a = map(definition.getOperands().getExprs()[0]),
               b = a ? map(definition.getOperands().getExprs()[1]) : AffineExpr();
    if (!b)
      return {};
    AffineExpr value;
    switch (definition.getKind()) {
    case llm::SymbolKind::FloorDiv:
      value = llm::isConstant(b, 0) ? AffineExpr() : symbols.floorDiv(a, b);
      break;
    case llm::SymbolKind::Mod:
      value = llm::isConstant(b, 0) ? AffineExpr() : symbols.mod(a, b);
      break;
    case llm::SymbolKind::Min:
      value = symbols.min(a, b);
      break;
    case llm::SymbolKind::Max:
      value = symbols.max(a, b);
      break;
    case llm::SymbolKind::Broadcast:
      value = symbols.broadcast(a, b, definition.getName());
      break;
    default:
      break;
    }
    return values[position] = value;
  }

  llm::Symbols &symbols;
  DenseMap<unsigned, AffineExpr> values;
  SmallVector<std::pair<AffineExpr, AffineExpr>> composites;
};

/// The last position of a dimension, taken before the op that computes it for all.
struct SinkSlice : OpRewritePattern<llm::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::SliceOp op, PatternRewriter &rewriter) const override {
    Operation *producer = op.getInput().getDefiningOp();
    int64_t axis = slicedAxis(op);
    if (!producer || axis < 0 || !producer->hasOneUse())
      return failure();
    SmallVector<AffineExpr> dims = llm::dimsOf(op.getInput().getType());
    int64_t rank = dims.size();
    unsigned cut = 1; // operands to cut
    if (isa<llm::MatmulOp>(producer)) {
      if (axis == rank - 1 || rankOf(producer->getOperand(0)) != rank)
        return failure();
      // A batch dimension would have to be cut on both sides.
      if (axis < rank - 2)
        return failure();
    } else if (auto norm = dyn_cast<llm::LayerNormOp>(producer)) {
      if (axis >= int64_t(norm.getAxis()))
        return failure();
    } else if (auto rms = dyn_cast<llm::RmsNormOp>(producer)) {
      if (axis >= int64_t(rms.getAxis()))
        return failure();
    } else if (isa<llm::ElementwiseOp>(producer)) {
      cut = producer->getNumOperands();
    } else {
      return failure();
    }
    SmallVector<Value> operands(producer->getOperands());
    for (unsigned i = 0; i < cut; ++i) {
      SmallVector<AffineExpr> inner = llm::dimsOf(operands[i].getType());
      int64_t at = axis - (rank - int64_t(inner.size()));
      if (at < 0 || llm::isConstant(inner[at], 1))
        continue;
      if (inner[at] != dims[axis])
        return failure();
    }
    for (unsigned i = 0; i < cut; ++i) {
      SmallVector<AffineExpr> inner = llm::dimsOf(operands[i].getType());
      int64_t at = axis - (rank - int64_t(inner.size()));
      if (at < 0 || llm::isConstant(inner[at], 1))
        continue;
      SmallVector<AffineExpr> starts(inner.size(), rewriter.getAffineConstantExpr(0));
      starts[at] = op.getStarts().getExprs()[axis];
      inner[at] = rewriter.getAffineConstantExpr(1);
      operands[i] = llm::SliceOp::create(
          rewriter, op.getLoc(), llm::tensorOf(inner, elementTypeOf(operands[i])), operands[i],
          llm::DimsAttr::get(op.getContext(), starts), SmallVector<int64_t>(inner.size(), 1));
    }
    Operation *last = rewriter.clone(*producer);
    last->setOperands(operands);
    last->getResult(0).setType(op.getType());
    rewriter.replaceOp(op, last->getResults());
    return success();
  }

private:
  /// The only dimension that is cut, to size 1; -1 for any other slice.
  static int64_t slicedAxis(llm::SliceOp op) {
    SmallVector<AffineExpr> from = llm::dimsOf(op.getInput().getType()),
                            to = llm::dimsOf(op.getType());
    int64_t axis = -1;
    for (auto [i, step] : llvm::enumerate(op.getSteps())) {
      if (step != 1)
        return -1;
      if (from[i] == to[i])
        continue;
      if (axis >= 0 || !llm::isConstant(to[i], 1))
        return -1;
      axis = i;
    }
    return axis;
  }
};

struct FormKvCachePass : impl::FormKvCacheBase<FormKvCachePass> {
  using FormKvCacheBase::FormKvCacheBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp run;
    for (auto function : module.getOps<func::FuncOp>()) {
      auto kind = function->getAttrOfType<StringAttr>(kEntry);
      if (kind && kind.getValue() == "session")
        return;
      if (kind && kind.getValue() == "run")
        run = function;
    }
    if (!run || run.isDeclaration())
      return;
    llm::Symbols symbols(module);
    NearMiss miss;
    func::FuncOp session = build(run, symbols, miss);
    if (!session) {
      if (remarks)
        remark(miss, "a session with a cache");
      return;
    }
    symbols.store();
    RewritePatternSet patterns(&getContext());
    patterns.add<SinkSlice>(&getContext());
    // Where the rewriter stops early, more positions are computed than needed.
    (void)applyPatternsGreedily(session, std::move(patterns));
  }

private:
  static StringRef roleOf(func::FuncOp function, unsigned argument) {
    auto role = function.getArgAttrOfType<StringAttr>(argument, kRole);
    return role ? role.getValue() : StringRef();
  }
  bool mapSizes(func::FuncOp run, const llm::Symbols &symbols, SizeMap &sizes, NearMiss &miss);
  Value madeInput(OpBuilder &builder, Location loc, StringRef role, RankedTensorType type);
  bool formCaches(Block &body, ArrayRef<Value> pasts, NearMiss &miss);
  func::FuncOp build(func::FuncOp run, llm::Symbols &symbols, NearMiss &miss);

  AffineExpr sequence, past;
};

bool FormKvCachePass::mapSizes(func::FuncOp run, const llm::Symbols &symbols, SizeMap &sizes,
                               NearMiss &miss) {
  MLIRContext *context = &getContext();
  AffineExpr one = getAffineConstantExpr(1, context), total = llm::canonical(sequence + past);
  bool hasPast = false, hasIds = false;
  for (unsigned i = 0; i < run.getNumArguments(); ++i) {
    StringRef role = roleOf(run, i);
    auto name = run.getArgAttrOfType<StringAttr>(i, "llm.name");
    std::string what = "the input '" + (name ? name.getValue().str() : std::to_string(i)) + "'";
    auto type = dyn_cast<RankedTensorType>(run.getArgument(i).getType());
    if (!type)
      return miss.stop(run, what + " is no tensor");
    SmallVector<AffineExpr> dims = llm::dimsOf(type), wanted;
    if (role == "ids" || role == "positions")
      wanted = {one, sequence};
    else if (role == "mask")
      wanted = {one, total};
    else if (role == "cache_position")
      wanted = {sequence};
    else if (role == "past" && dims.size() == 4 &&
             run.getArgAttrOfType<IntegerAttr>(i, "llm.cache_axis").getInt() == 2)
      wanted = {one, symbols.checked(dims[1]), past, symbols.checked(dims[3])};
    else
      return miss.stop(run, what + " has no meaning that a session knows");
    hasPast |= role == "past";
    hasIds |= role == "ids";
    if (dims.size() != wanted.size())
      return miss.stop(run, what + " has another rank than its role says");
    if (role == "past" && (!llm::constantOf(wanted[1]) || !llm::constantOf(wanted[3])))
      return miss.stop(run, what + " has no constant heads and size");
    for (auto [dim, value] : llvm::zip_equal(dims, wanted))
      if (!sizes.unify(dim, value))
        return miss.stop(run, what + " has sizes that don't fit one sequence");
  }
  if (!hasPast || !hasIds)
    return miss.stop(run, "there is no pair of past and present");
  return sizes.consistent() || miss.stop(run, "the mask's length isn't past + sequence");
}

/// An input that a session makes itself.
Value FormKvCachePass::madeInput(OpBuilder &builder, Location loc, StringRef role,
                                 RankedTensorType type) {
  MLIRContext *context = &getContext();
  Type element = type.getElementType();
  if (role == "mask") {
    auto scalar = RankedTensorType::get({}, element);
    Attribute one = isa<FloatType>(element) ? Attribute(builder.getFloatAttr(element, 1.0))
                                            : Attribute(builder.getIntegerAttr(element, 1));
    auto constant = llm::ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, one));
    return llm::BroadcastOp::create(builder, loc, type, constant);
  }
  Value positions =
      llm::IotaOp::create(builder, loc, llm::tensorOf(ArrayRef<AffineExpr>{sequence}, element),
                          llm::DimsAttr::get(context, {past}), 1);
  return positions.getType() == type ? positions
                                     : Value(llm::ReshapeOp::create(builder, loc, type, positions));
}

/// Replaces concat(past, new) by a cache wherever an attention reads it.
bool FormKvCachePass::formCaches(Block &body, ArrayRef<Value> pasts, NearMiss &miss) {
  MLIRContext *context = &getContext();
  auto pastAttr = llm::DimsAttr::get(context, {past});
  auto keysAttr = llm::DimsAttr::get(context, {llm::canonical(past + sequence)});
  DenseMap<Value, unsigned> cacheOf; // concat -> cache
  SmallVector<llm::ConcatOp> concats;
  for (auto [i, value] : llvm::enumerate(pasts)) {
    Operation *parent = body.getParentOp();
    if (value.use_empty())
      return miss.stop(parent, "a past isn't used");
    for (OpOperand &use : value.getUses()) {
      auto concat = dyn_cast<llm::ConcatOp>(use.getOwner());
      if (!concat || int64_t(concat.getAxis()) != 2 || concat.getInputs().size() != 2 ||
          use.getOperandNumber() != 0 || !value.hasOneUse())
        return miss.stop(use.getOwner(), "a past is used other than before new keys or values");
      cacheOf[concat] = i;
      concats.push_back(concat);
      for (Operation *user : concat->getUsers())
        if (!isa<llm::AttentionOp>(user))
          return miss.stop(user, "keys or values are used other than by an attention");
    }
  }
  for (llm::ConcatOp concat : concats)
    for (Operation *user : concat->getUsers()) {
      auto attention = cast<llm::AttentionOp>(user);
      if (!cacheOf.contains(attention.getKey()) || !cacheOf.contains(attention.getValue()) ||
          attention.getQuery() == concat || attention.getMask() == concat)
        return miss.stop(user, "an attention has only one of keys and values in a cache");
      if (user->getAttr(rt::kDeviceAttr) != concat->getAttr(rt::kDeviceAttr))
        return miss.stop(user, "an attention and its cache are on different devices");
    }
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  for (llm::ConcatOp concat : concats) {
    auto type = cast<RankedTensorType>(concat.getType());
    auto kv =
        llm::KvType::get(context, type.getDimSize(1), type.getDimSize(3), type.getElementType());
    builder.setInsertionPointToStart(&body);
    auto cache = rt::KvOp::create(builder, concat.getLoc(), kv, cacheOf[concat]);
    builder.setInsertionPoint(concat);
    Value fresh = concat.getInputs()[1];
    bool headsLast = false;
    if (auto transpose = fresh.getDefiningOp<llm::TransposeOp>();
        transpose && transpose.getPermutation() == ArrayRef<int64_t>{0, 2, 1, 3}) {
      fresh = transpose.getInput();
      headsLast = true;
    }
    auto append =
        llm::KvAppendOp::create(builder, concat.getLoc(), cache, fresh, pastAttr, headsLast);
    if (Attribute device = concat->getAttr(rt::kDeviceAttr))
      for (Operation *op : {cache.getOperation(), append.getOperation()})
        op->setAttr(rt::kDeviceAttr, device);
    for (OpOperand &use : llvm::make_early_inc_range(concat->getUses())) {
      cast<llm::AttentionOp>(use.getOwner()).setKeysAttr(keysAttr);
      use.set(cache);
    }
    concat.erase();
    ++numCaches;
  }
  return true;
}

func::FuncOp FormKvCachePass::build(func::FuncOp run, llm::Symbols &symbols, NearMiss &miss) {
  MLIRContext *context = &getContext();
  sequence = symbols.named("session_seq", llm::SymbolKind::SessionSeq);
  past = symbols.named("session_past", llm::SymbolKind::SessionPast);
  SizeMap sizes(symbols);
  if (!mapSizes(run, symbols, sizes, miss))
    return {};
  std::optional<unsigned> logits;
  for (unsigned i = 0; i < run.getNumResults(); ++i) {
    auto role = dyn_cast_or_null<StringAttr>(run.getResultAttr(i, kRole));
    if (role && role.getValue() == "logits")
      logits = i;
    else if (!role || role.getValue() != "present")
      return miss.stop(run, "an output is neither logits nor a present"), func::FuncOp();
  }
  if (!logits || rankOf(run.front().getTerminator()->getOperand(*logits)) != 3)
    return miss.stop(run, "there are no logits (batch, sequence, vocabulary)"), func::FuncOp();

  // A type or attribute with a size that the session doesn't know stops everything.
  bool known = true;
  auto mapped = [&](ArrayRef<AffineExpr> exprs) {
    return llvm::map_to_vector(exprs, [&](AffineExpr expr) {
      AffineExpr value = sizes.map(expr);
      known &= bool(value);
      return value ? value : expr;
    });
  };
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](RankedTensorType type) -> std::pair<Type, WalkResult> {
    return {llm::tensorOf(mapped(llm::dimsOf(type)), type.getElementType()), WalkResult::skip()};
  });
  replacer.addReplacement([&](llm::DimsAttr dims) -> std::pair<Attribute, WalkResult> {
    return {llm::DimsAttr::get(context, mapped(dims.getExprs())), WalkResult::skip()};
  });

  OpBuilder builder(run);
  builder.setInsertionPointAfter(run);
  OwningOpRef<func::FuncOp> session = cast<func::FuncOp>(run->cloneWithoutRegions());
  Block *body = session->addEntryBlock(); // arguments are set below
  body->eraseArguments(0, body->getNumArguments());
  builder.setInsertionPointToStart(body);
  IRMapping mapping;
  SmallVector<Value> pasts;
  SmallVector<Type> inputTypes;
  SmallVector<Attribute> inputAttrs;
  SmallVector<BlockArgument> removed;
  for (BlockArgument argument : run.getArguments()) {
    unsigned i = argument.getArgNumber();
    StringRef role = roleOf(run, i);
    auto type = cast<RankedTensorType>(replacer.replace(argument.getType()));
    if (role == "ids") {
      mapping.map(argument, body->addArgument(type, argument.getLoc()));
      inputTypes.push_back(type);
      inputAttrs.push_back(run.getArgAttrDict(i));
    } else if (role == "past") {
      BlockArgument stand = body->addArgument(type, argument.getLoc());
      mapping.map(argument, stand);
      pasts.push_back(stand);
      removed.push_back(stand);
    } else {
      mapping.map(argument, madeInput(builder, argument.getLoc(), role, type));
    }
  }
  for (Operation &op : run.front().without_terminator()) {
    Operation *clone = builder.clone(op, mapping);
    replacer.recursivelyReplaceElementsIn(clone, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    if (!known)
      return miss.stop(&op, "it has a size that one sequence doesn't tell"), func::FuncOp();
  }
  Value result = mapping.lookupOrDefault(run.front().getTerminator()->getOperand(*logits));
  // The logits of the last position.
  SmallVector<AffineExpr> dims = llm::dimsOf(result.getType());
  if (dims[1] != sequence)
    return miss.stop(result.getDefiningOp(), "the logits aren't of every position"), func::FuncOp();
  dims[1] = builder.getAffineConstantExpr(1);
  AffineExpr zero = builder.getAffineConstantExpr(0);
  Value last = llm::SliceOp::create(
      builder, result.getLoc(), llm::tensorOf(dims, elementTypeOf(result)), result,
      llm::DimsAttr::get(context, {zero, llm::canonical(sequence - 1), zero}),
      SmallVector<int64_t>{1, 1, 1});
  func::ReturnOp::create(builder, run.getLoc(), last);
  // With one sequence's sizes known, pasts of various lengths turn out to be whole.
  RewritePatternSet canonical(context);
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.getDialectNamespace() == "llm")
      name.getCanonicalizationPatterns(canonical, context);
  (void)applyPatternsGreedily(*session, std::move(canonical));
  if (!formCaches(*body, pasts, miss))
    return {};
  for (BlockArgument argument : llvm::reverse(removed))
    body->eraseArgument(argument.getArgNumber());

  DictionaryAttr resultAttrs = run.getResultAttrDict(*logits);
  session->setFunctionType(builder.getFunctionType(inputTypes, last.getType()));
  session->setArgAttrsAttr(builder.getArrayAttr(inputAttrs));
  session->setResAttrsAttr(
      builder.getArrayAttr({resultAttrs ? resultAttrs : builder.getDictionaryAttr({})}));
  session->setName("session");
  (*session)->setAttr(kEntry, builder.getStringAttr("session"));
  for (unsigned i = 0; i < session->getNumArguments(); ++i)
    session->removeArgAttr(i, "llm.dim_names");
  session->removeResultAttr(0, StringAttr::get(context, "llm.dim_names"));
  // Conditions that the run entry has on its sizes hold for the session's too.
  for (llm::CheckAttr check : SmallVector<llm::CheckAttr>(symbols.checks())) {
    AffineExpr a = sizes.map(check.getSides().getExprs()[0]),
               b = sizes.map(check.getSides().getExprs()[1]);
    if (!a || !b)
      continue;
    if (check.getKind() == llm::CheckKind::Eq)
      symbols.requireEqual(a, b, check.getMessage());
    else
      symbols.requireAtMost(a, b, check.getMessage());
  }
  func::FuncOp made = session.release();
  run->getBlock()->getOperations().insert(std::next(Block::iterator(run)), made);
  return made;
}

} // namespace
} // namespace llmc
