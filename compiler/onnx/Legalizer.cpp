// SPDX-License-Identifier: Apache-2.0
//
// The walk over the nodes, and a row's view of one node.
#include "compiler/onnx/Legalizer.h"

#include "compiler/ir/ElementType.h"
#include "compiler/onnx/LegalizerInputs.h"
#include "compiler/onnx/OpTable.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace llmc::onnx {

Lowering::Lowering(llm::Symbols &symbols, func::FuncOp function)
    : Emitter(symbols, OpBuilder(function.getContext())), function(function) {}

/// Element types that the `llm` ops compute with.
static bool isSupportedElement(Type type) {
  return type.isIntOrFloat() && type.getIntOrFloatBitWidth() != 6;
}

/// Whether the elements of a weight share bytes, which no kernel reads.
static bool isPacked(RankedTensorType type) {
  Type element = type.getElementType();
  return element.isIntOrFloat() && element.getIntOrFloatBitWidth() < 8 && !element.isInteger(1);
}

//===----------------------------------------------------------------------===//
// The current node
//===----------------------------------------------------------------------===//

bool Lowering::has(unsigned i) {
  return i < numInputs() && !isa<NoneType>(node.getInputs()[i].getType());
}

Tensor Lowering::input(unsigned i) {
  if (!has(i))
    return fail(1202, node.getOpType() + " needs input " + Twine(i) + ", which is absent");
  Value value = node.getInputs()[i];
  if (auto type = foreign.find(value); type != foreign.end()) {
    std::string name;
    llvm::raw_string_ostream(name) << type->second;
    return fail(1206, "input " + Twine(i) + " of " + node.getOpType() + " has the type " + name +
                          ", which llmc doesn't compute with");
  }
  return tensors.lookup(value);
}

Tensor Lowering::storedInput(unsigned i) {
  WeightOp weight = has(i) ? weights.lookup(node.getInputs()[i]) : WeightOp();
  auto type = weight ? cast<RankedTensorType>(weight.getType()) : RankedTensorType();
  if (!type || !isPacked(type))
    return input(i);
  return weightInput(i, type, "");
}

Tensor Lowering::weightInput(unsigned i, RankedTensorType type, StringRef what) {
  WeightOp weight = has(i) ? weights.lookup(node.getInputs()[i]) : WeightOp();
  auto from = weight ? cast<RankedTensorType>(weight.getType()) : RankedTensorType();
  if (!from || !from.getElementType().isIntOrFloat())
    return fail(1205, what + " (input " + Twine(i) + ") of " + node.getOpType() +
                          " must be a constant of numbers");
  auto bits = [](RankedTensorType t) { return t.getNumElements() * t.getElementTypeBitWidth(); };
  if (bits(from) != bits(type)) {
    std::string texts;
    llvm::raw_string_ostream(texts) << from << ", which doesn't hold " << type;
    return fail(1204, what + " (input " + Twine(i) + ") of " + node.getOpType() + " has the type " +
                          texts);
  }
  return wrap(llm::WeightOp::create(builder, loc, type, weight.getKey()));
}

bool Lowering::isStored(Tensor tensor) {
  if (!tensor)
    return false;
  if (const Content *content = tensor.content(); content && content->complete())
    return llvm::all_of(content->elements, [](const Element &e) { return e.number(); });
  auto isConstant = [](Value x) {
    return isa_and_nonnull<llm::WeightOp, llm::ConstantOp>(x.getDefiningOp());
  };
  Value source = value(tensor);
  auto dequantize = source.getDefiningOp<llm::DequantizeOp>();
  return dequantize ? llvm::all_of(dequantize->getOperands(), isConstant) : isConstant(source);
}

SmallVector<Tensor> Lowering::inputs() {
  SmallVector<Tensor> all;
  for (unsigned i = 0; i < numInputs(); ++i)
    all.push_back(input(i));
  return all;
}

bool Lowering::wants(unsigned i) {
  return i < node.getOutputs().size() && !node.getOutputs()[i].use_empty();
}

std::optional<Sizes> Lowering::knownSizes(unsigned i, StringRef what) {
  Tensor tensor = input(i);
  if (!tensor)
    return std::nullopt;
  const Content *content = tensor.content();
  Sizes sizes;
  bool all = content && isa<IntegerType>(tensor.elementType());
  if (all)
    for (const Element &element : content->elements) {
      all &= element.size && element.divisor == 1;
      sizes.push_back(element.size);
    }
  if (!all) {
    fail(1205, what + " (input " + Twine(i) + ") of " + node.getOpType() +
                   " must follow from constants and the inputs' sizes, but depends on data");
    return std::nullopt;
  }
  return sizes;
}

std::optional<SmallVector<int64_t>> Lowering::knownInts(unsigned i, StringRef what) {
  std::optional<Sizes> sizes = knownSizes(i, what);
  if (!sizes)
    return std::nullopt;
  SmallVector<int64_t> ints;
  for (AffineExpr expr : *sizes) {
    std::optional<int64_t> value = llm::constantOf(expr);
    if (!value) {
      fail(1205, what + " (input " + Twine(i) + ") of " + node.getOpType() +
                     " must be constant, but is " + symbols.text(expr));
      return std::nullopt;
    }
    ints.push_back(*value);
  }
  return ints;
}

std::optional<int64_t> Lowering::knownInt(unsigned i, StringRef what) {
  std::optional<SmallVector<int64_t>> ints = knownInts(i, what);
  if (!ints)
    return std::nullopt;
  if (ints->size() != 1) {
    fail(1203, what + " (input " + Twine(i) + ") of " + node.getOpType() +
                   " must have one element, not " + Twine(ints->size()));
    return std::nullopt;
  }
  return ints->front();
}

std::optional<double> Lowering::knownNumber(unsigned i, StringRef what) {
  Tensor tensor = input(i);
  if (!tensor)
    return std::nullopt;
  const Content *content = tensor.content();
  std::optional<double> number;
  if (content && content->elements.size() == 1)
    number = content->elements[0].number();
  if (!number)
    fail(1205, what + " (input " + Twine(i) + ") of " + node.getOpType() +
                   " must be a constant of one element");
  return number;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

Attribute Lowering::attr(StringRef name) { return node.getAttrs().get(name); }

int64_t Lowering::intAttr(StringRef name, int64_t otherwise) {
  auto value = dyn_cast_or_null<IntegerAttr>(attr(name));
  return value ? value.getInt() : otherwise;
}

double Lowering::floatAttr(StringRef name, double otherwise) {
  auto value = dyn_cast_or_null<FloatAttr>(attr(name));
  return value ? value.getValueAsDouble() : double(float(otherwise));
}

StringRef Lowering::stringAttr(StringRef name, StringRef otherwise) {
  auto value = dyn_cast_or_null<StringAttr>(attr(name));
  return value ? value.getValue() : otherwise;
}

std::optional<SmallVector<int64_t>> Lowering::intsAttr(StringRef name) {
  auto value = dyn_cast_or_null<DenseI64ArrayAttr>(attr(name));
  if (!value)
    return std::nullopt;
  return SmallVector<int64_t>(value.asArrayRef());
}

Type Lowering::elementTypeOf(int64_t number) {
  ElementType element = elementTypeFromNumber(number);
  Type type = toMlirType(element, builder.getContext());
  if (type && isSupportedElement(type))
    return type;
  fail(1206, node.getOpType() + " to type number " + Twine(number) + " (" +
                 onnxElementName(element) + ") isn't supported");
  return {};
}

std::optional<int64_t> Lowering::axisOf(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  fail(1203, "axis " + Twine(axis) + " of " + node.getOpType() + " is outside rank " + Twine(rank));
  return std::nullopt;
}

std::optional<SmallVector<int64_t>> Lowering::axesOf(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    std::optional<int64_t> positive = axisOf(axis, rank);
    if (!positive)
      return std::nullopt;
    if (llvm::is_contained(result, *positive)) {
      fail(1203, "axis " + Twine(axis) + " of " + node.getOpType() + " is given twice");
      return std::nullopt;
    }
    result.push_back(*positive);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

LogicalResult Lowering::results(ArrayRef<Tensor> list) {
  for (auto [i, output] : llvm::enumerate(node.getOutputs())) {
    if (i < list.size() && list[i]) {
      tensors[output] = list[i];
      continue;
    }
    if (i < list.size() || !output.use_empty()) {
      if (!hasFailed)
        fail(1209, "output " + Twine(i) + " of " + node.getOpType() + " isn't supported");
      return failure();
    }
  }
  return success();
}

LogicalResult Lowering::inlineBody(Region &body) {
  NodeOp outer = node;
  Location outerLoc = loc;
  lowerOps(body.front());
  node = outer;
  loc = outerLoc;
  hasFailed = false;
  auto yield = cast<YieldOp>(body.front().getTerminator());
  if (yield.getOutputs().size() != outer.getOutputs().size()) {
    fail(1203, "a branch gives " + Twine(yield.getOutputs().size()) + " values for " +
                   Twine(outer.getOutputs().size()) + " outputs");
    return failure();
  }
  for (auto [from, to] : llvm::zip_equal(yield.getOutputs(), outer.getOutputs()))
    if (Tensor tensor = tensors.lookup(from))
      tensors[to] = tensor;
    else if (Type type = foreign.lookup(from))
      foreign[to] = type;
  return success();
}

std::optional<SmallVector<Tensor>> Lowering::lowerBody(Region &body, ArrayRef<Tensor> inputs) {
  if (body.getNumArguments() != inputs.size()) {
    fail(1203,
         "a body takes " + Twine(body.getNumArguments()) + " values, not " + Twine(inputs.size()));
    return std::nullopt;
  }
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), inputs))
    tensors[argument] = input;
  NodeOp outer = node;
  Location outerLoc = loc;
  bool failedBefore = anyFailed || !unsupported.empty();
  lowerOps(body.front());
  node = outer;
  loc = outerLoc;
  hasFailed = !failedBefore && (anyFailed || !unsupported.empty());
  if (hasFailed)
    return std::nullopt;
  SmallVector<Tensor> results;
  for (Value output : cast<YieldOp>(body.front().getTerminator()).getOutputs()) {
    results.push_back(tensors.lookup(output));
    if (!results.back()) {
      fail(1206, "a body of " + node.getOpType() + " yields a value that is no tensor");
      return std::nullopt;
    }
  }
  return results;
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

void Lowering::lowerWeight(WeightOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  weights[op.getResult()] = op;
  auto value = dyn_cast_or_null<DenseElementsAttr>(op.getValueAttr());
  if (value && isPacked(type)) {
    tensors[op.getResult()] = constant(value);
    return;
  }
  if (!isSupportedElement(type.getElementType()) || isPacked(type)) {
    foreign[op.getResult()] = type;
    return;
  }
  // Integers are mostly shapes and indices, scalars mostly parameters: passes want to see them.
  bool parameter = value && (isa<IntegerType>(type.getElementType()) || type.getNumElements() == 1);
  if (parameter) {
    tensors[op.getResult()] = constant(value);
    return;
  }
  Value weight = llm::WeightOp::create(builder, loc, type, op.getKey());
  tensors[op.getResult()] = wrap(weight, value ? contentOf(value) : std::nullopt);
}

void Lowering::lowerNode(NodeOp op) {
  const OpRow *row = findRow(op.getDomain(), op.getOpType(), op.getVersion());
  if (!row || !row->lower) {
    unsupported.push_back({op, row ? row->note : ""});
    return;
  }
  node = op;
  hasFailed = false;
  for (Value input : op.getInputs())
    if (!isa<NoneType>(input.getType()) && !tensors.contains(input) && !foreign.contains(input))
      return; // poison, reported where it arose
  if (succeeded(row->lower(*this)))
    return;
  anyFailed = true;
  if (!hasFailed)
    fail(1203, "this " + op.getOpType() + " can't be lowered");
}

void Lowering::lowerOps(Block &block) {
  for (Operation &op : block) {
    loc = op.getLoc();
    // Ops of a branch go where its node stands.
    if (&block == &function.front())
      builder.setInsertionPoint(&op);
    if (auto weight = dyn_cast<WeightOp>(op))
      lowerWeight(weight);
    else if (auto inner = dyn_cast<NodeOp>(op))
      lowerNode(inner);
  }
}

bool Lowering::legalizeArguments() {
  std::optional<SmallVector<Sizes>> dims = inputDims(function, symbols);
  if (!dims)
    return false;
  Block &entry = function.front();
  for (auto [i, argument] : llvm::enumerate(entry.getArguments())) {
    auto type = dyn_cast<TensorType>(argument.getType());
    if (!type || !isSupportedElement(type.getElementType())) {
      foreign[argument] = argument.getType();
      continue;
    }
    argument.setType(llm::tensorOf((*dims)[i], type.getElementType()));
    loc = argument.getLoc();
    tensors[argument] = wrap(argument);
  }
  return true;
}

bool Lowering::legalizeReturn(func::ReturnOp op) {
  builder.setInsertionPoint(op);
  SmallVector<Value> values;
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    if (Tensor tensor = tensors.lookup(operand)) {
      values.push_back(value(tensor));
      continue;
    }
    if (Type type = foreign.lookup(operand))
      emitError(op.getLoc()) << "[LLMC1206] output " << i << " has the type " << type
                             << ", which llmc doesn't compute with";
    return false;
  }
  op.getOperandsMutable().assign(values);
  function.setType(FunctionType::get(op.getContext(), function.front().getArgumentTypes(),
                                     ValueRange(values).getTypes()));
  return true;
}

void Lowering::reportUnsupported() {
  if (unsupported.empty())
    return;
  llvm::StringMap<unsigned> kinds;
  for (auto &[op, reason] : unsupported)
    ++kinds[(op.getDomain() + "::" + op.getOpType()).str()];
  InFlightDiagnostic report = emitError(function.getLoc());
  report << "[LLMC1200] the model uses " << kinds.size() << " operator"
         << (kinds.size() == 1 ? "" : "s") << " (" << unsupported.size() << " node"
         << (unsupported.size() == 1 ? "" : "s") << ") that llmc doesn't support";
  for (auto &[op, reason] : unsupported) {
    StringRef domain = op.getDomain().empty() ? StringRef("ai.onnx") : op.getDomain();
    Diagnostic &note = report.attachNote(op.getLoc());
    note << "node '" << op.getNodeName() << "': " << domain << "::" << op.getOpType() << ", opset "
         << op.getVersion();
    if (!reason.empty())
      note << ": " << reason;
    else if (op.getDomain().empty() && int64_t(op.getVersion()) > kNewestOpset)
      note << ": newer than opset " << kNewestOpset;
  }
}

void Lowering::eraseOnnx() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front()))) {
    if (isa<NodeOp, WeightOp, NoneOp>(op)) {
      op.dropAllUses();
      op.erase();
    } else if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

void Lowering::applyChecks() {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](llm::DimsAttr dims) -> Attribute {
    SmallVector<AffineExpr> exprs;
    for (AffineExpr expr : dims.getExprs())
      exprs.push_back(
          llm::substitute(expr, [&](unsigned position) { return symbols.decided(position); }));
    return llm::DimsAttr::get(dims.getContext(), exprs);
  });
  replacer.recursivelyReplaceElementsIn(function, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

LogicalResult Lowering::run() {
  if (!legalizeArguments())
    return failure();
  lowerOps(function.front());
  reportUnsupported();
  if (anyFailed || !unsupported.empty())
    return failure();
  if (!legalizeReturn(cast<func::ReturnOp>(function.front().getTerminator())))
    return failure();
  eraseOnnx();
  if (!symbols.checks().empty())
    applyChecks();
  renameAttributes(function);
  return success();
}

} // namespace llmc::onnx
