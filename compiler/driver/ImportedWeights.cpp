// SPDX-License-Identifier: Apache-2.0
//
// A weight keeps the bytes and the name it has in the file; what is new is the
// transform that reads it.
#include "compiler/driver/ImportedWeights.h"

#include "compiler/ir/ImportTransforms.h"
#include "compiler/ir/llm/LlmDialect.h"

using namespace mlir;

namespace llmc {
namespace {

WeightType typeOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return {fromMlirType(type.getElementType()), SmallVector<int64_t, 4>(type.getShape())};
}

/// The bytes of a weight or a constant; null for other values.
llvm::Expected<const Weight *> sourceOf(Value value, WeightStore &weights) {
  if (auto weight = value.getDefiningOp<llm::WeightOp>())
    return weights.find(weight.getKey());
  auto constant = value.getDefiningOp<llm::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  WeightType type = typeOf(value);
  if (!elements || elementBits(type.element) % 8 != 0)
    return nullptr;
  std::string bytes(elements.getRawData().begin(), elements.getRawData().end());
  if (elements.isSplat()) {
    std::string one = bytes;
    bytes.clear();
    for (int64_t i = 0; i < elements.getNumElements(); ++i)
      bytes += one;
  }
  return weights.addOwned("constant", type, std::move(bytes));
}

LogicalResult resolve(llm::DequantizeOp op, WeightStore &weights) {
  auto resultType = cast<RankedTensorType>(op.getType());
  SmallVector<const Weight *> sources;
  for (Value operand : op->getOperands()) {
    llvm::Expected<const Weight *> source = sourceOf(operand, weights);
    if (!source)
      return op.emitError(llvm::toString(source.takeError()));
    if (!*source)
      return success(); // computed at run time
    sources.push_back(*source);
  }
  Dequantization parameters;
  parameters.input = typeOf(op.getInput());
  if (op.getScale())
    parameters.scale = typeOf(op.getScale());
  if (op.getZero())
    parameters.zero = typeOf(op.getZero());
  parameters.result = typeOf(op.getResult());
  parameters.axis = op.getAxis();
  parameters.block = op.getBlock();
  if (resultType.getRank() == 0) { // as one element of a vector
    for (WeightType *type : {&parameters.input, &parameters.result})
      type->shape = {1};
  }
  llvm::Expected<const Weight *> made = weights.addTransformed(
      (sources.front()->name() + ":dequantized").str(), dequantize(std::move(parameters)), sources);
  if (!made)
    return op.emitError("[LLMC1204] ") << llvm::toString(made.takeError());
  OpBuilder builder(op);
  op.replaceAllUsesWith(
      llm::WeightOp::create(builder, op.getLoc(), resultType, (*made)->name()).getResult());
  op.erase();
  return success();
}

/// A matrix made of a kernel of a convolution: its dimensions permuted, then merged.
LogicalResult rearrangeKernel(llm::ReshapeOp op, WeightStore &weights) {
  auto resultType = cast<RankedTensorType>(op.getType());
  Value input = op.getInput();
  auto transpose = input.getDefiningOp<llm::TransposeOp>();
  auto weight = (transpose ? transpose.getInput() : input).getDefiningOp<llm::WeightOp>();
  if (!weight || resultType.getRank() != 2)
    return success();
  auto type = cast<RankedTensorType>(weight.getType());
  const Weight *source = weights.find(weight.getKey());
  if (!source || type.getRank() < 3 ||
      !llvm::all_of(op->getUsers(), [](Operation *user) { return isa<llm::MatmulOp>(user); }))
    return success();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  if (transpose)
    order = llvm::to_vector(transpose.getPermutation());
  llvm::Expected<const Weight *> made = weights.addTransformed(
      (source->name() + ":matrix").str(), rearrange(order, resultType.getShape()), {source});
  if (!made)
    return op.emitError("[LLMC1204] ") << llvm::toString(made.takeError());
  OpBuilder builder(op);
  op.replaceAllUsesWith(
      llm::WeightOp::create(builder, op.getLoc(), resultType, (*made)->name()).getResult());
  op.erase();
  if (transpose && transpose.use_empty())
    transpose.erase();
  return success();
}

} // namespace

LogicalResult resolveImportedWeights(ModuleOp module, WeightStore &weights) {
  SmallVector<llm::DequantizeOp> ops;
  module.walk([&](llm::DequantizeOp op) { ops.push_back(op); });
  for (llm::DequantizeOp op : ops)
    if (failed(resolve(op, weights)))
      return failure();
  SmallVector<llm::ReshapeOp> reshapes;
  module.walk([&](llm::ReshapeOp op) { reshapes.push_back(op); });
  for (llm::ReshapeOp op : reshapes)
    if (failed(rearrangeKernel(op, weights)))
      return failure();
  module.walk([](Operation *op) {
    if (isa<llm::WeightOp, llm::ConstantOp>(op) && op->use_empty())
      op->erase();
  });
  return success();
}

} // namespace llmc
