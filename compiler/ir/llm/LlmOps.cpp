// SPDX-License-Identifier: Apache-2.0
//
// Verifiers and folds of the `llm` ops, in the order of LlmOps.td.
#include "compiler/ir/llm/LlmDialect.h"

#include "compiler/ir/llm/Dims.h"
#include "compiler/ir/llm/QuantizedRows.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace llmc::llm;

#define GET_OP_CLASSES
#include "compiler/ir/llm/LlmOps.cpp.inc"

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

LogicalResult DequantizeOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  int64_t rank = input.getRank(), axis = getAxis(), block = getBlock();
  if (cast<RankedTensorType>(getType()).getRank() != rank || axis < 0 || axis > rank || block < 0)
    return emitOpError("needs equal ranks, an axis within them and no negative block");
  for (Value parameter : {getScale(), getZero()}) {
    auto type = parameter ? cast<RankedTensorType>(parameter.getType()) : RankedTensorType();
    bool fits = !type || (block > 0 ? type.getRank() == rank && axis < rank
                                    : type.getRank() == 0 || (type.getRank() == 1 && axis < rank));
    if (!fits)
      return emitOpError("has scales or zeros of type ") << type << " for " << input;
  }
  return success();
}

LogicalResult SizesOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (type.getRank() > 1 || !type.getElementType().isInteger())
    return emitOpError("result must be integers of rank 0 or 1, not ") << type;
  if (type.getNumElements() != int64_t(getValues().getExprs().size()))
    return emitOpError("has ") << getValues().getExprs().size() << " sizes for " << type;
  return success();
}

/// How many operands a scalar function takes.
static unsigned arity(ElementKind kind) {
  auto number = static_cast<uint32_t>(kind);
  return number < 40 ? 1 : number < 80 ? 2 : 3;
}

LogicalResult ElementwiseOp::verify() {
  if (getOperands_().size() != arity(getKind()))
    return emitOpError() << stringifyElementKind(getKind()) << " takes " << arity(getKind())
                         << " operands, not " << getOperands_().size();
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  for (Value operand : getOperands_())
    if (cast<RankedTensorType>(operand.getType()).getRank() > rank)
      return emitOpError("operand of type ")
             << operand.getType() << " does not broadcast to " << getType();
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [i, p] : llvm::enumerate(getPermutation()))
    if (int64_t(i) != p)
      return {};
  return getInput();
}

LogicalResult TransposeOp::verify() {
  auto type = cast<RankedTensorType>(getInput().getType());
  SmallVector<bool> seen(type.getRank());
  if (int64_t(getPermutation().size()) != type.getRank())
    return emitOpError("permutation has ")
           << getPermutation().size() << " entries for rank " << type.getRank();
  for (int64_t p : getPermutation()) {
    if (p < 0 || p >= type.getRank() || seen[p])
      return emitOpError("permutation [")
             << getPermutation() << "] is not one of rank " << type.getRank();
    seen[p] = true;
  }
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool whole = getInput().getType() == getType();
  for (int64_t step : getSteps())
    whole &= step == 1;
  return whole ? OpFoldResult(getInput()) : OpFoldResult();
}

LogicalResult SliceOp::verify() {
  int64_t rank = cast<RankedTensorType>(getInput().getType()).getRank();
  if (int64_t(getStarts().getExprs().size()) != rank || int64_t(getSteps().size()) != rank ||
      cast<RankedTensorType>(getType()).getRank() != rank)
    return emitOpError("needs a start, a step and a result dimension for each of ")
           << rank << " dimensions";
  return success();
}

LogicalResult ConcatOp::verify() {
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  if (getInputs().empty() || int64_t(getAxis()) >= rank || int64_t(getAxis()) < 0)
    return emitOpError("needs inputs and an axis within rank ") << rank;
  return success();
}

LogicalResult MatmulOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType()),
       rhs = cast<RankedTensorType>(getRhs().getType());
  if (lhs.getRank() < 2 || rhs.getRank() < 2)
    return emitOpError("operands must have at least two dimensions");
  AffineExpr k = dimsOf(lhs).back();
  AffineExpr other = dimsOf(rhs)[rhs.getRank() - (getTransposeRhs() ? 1 : 2)];
  if (std::optional<int64_t> group = getQuantized()) {
    std::optional<int64_t> depth = constantOf(other);
    if (!QuantizedRecord::isGroup(*group) || rhs.getRank() != 2 || !depth)
      return emitOpError("takes a quantized left side with groups of 32 or 64, and a right side "
                         "of rank 2 and known depth");
    int64_t bytes = QuantizedRecord{*group}.rowBytes(*depth);
    if (!lhs.getElementType().isUnsignedInteger(8) || !isConstant(k, bytes))
      return emitOpError("needs ") << bytes << " bytes (ui8) a row on its left side, not " << lhs;
    return success();
  }
  if (k != other)
    return emitOpError("contracts different sizes of ") << lhs << " and " << rhs;
  return success();
}

LogicalResult QuantizeOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType()),
       result = cast<RankedTensorType>(getResult().getType());
  SmallVector<AffineExpr> dims = dimsOf(input), resultDims = dimsOf(result);
  int64_t group = getGroup();
  if (!QuantizedRecord::isGroup(group))
    return emitOpError("has groups of 32 or 64, not ") << group;
  std::optional<int64_t> depth = dims.empty() ? std::nullopt : constantOf(dims.back());
  if (!input.getElementType().isF32() || !depth)
    return emitOpError("needs f32 and a known last dimension, not ") << input;
  int64_t bytes = QuantizedRecord{group}.rowBytes(*depth);
  if (!result.getElementType().isUnsignedInteger(8) || resultDims.size() != dims.size() ||
      !isConstant(resultDims.back(), bytes) ||
      ArrayRef(resultDims).drop_back() != ArrayRef(dims).drop_back())
    return emitOpError("gives ") << bytes << " bytes (ui8) a row, not " << result;
  return success();
}

LogicalResult ConvOp::verify() {
  int64_t rank = cast<RankedTensorType>(getInput().getType()).getRank();
  bool fits = rank > 2 && cast<RankedTensorType>(getWeight().getType()).getRank() == rank &&
              cast<RankedTensorType>(getType()).getRank() == rank &&
              int64_t(getStrides().size()) == rank - 2 &&
              int64_t(getDilations().size()) == rank - 2 &&
              int64_t(getLow().getExprs().size()) == rank - 2 && getGroups() > 0;
  if (!fits || llm::constantOf(dimsOf(getWeight().getType())[0]).value_or(getGroups()) %
                       int64_t(getGroups()) !=
                   0)
    return emitOpError("needs equal ranks above 2, numbers for each of the last dimensions, and "
                       "groups that divide the outputs");
  for (auto [stride, dilation] : llvm::zip_equal(getStrides(), getDilations()))
    if (stride < 1 || dilation < 1)
      return emitOpError("needs positive strides and dilations");
  return success();
}

LogicalResult ReduceOp::verify() {
  int64_t rank = cast<RankedTensorType>(getInput().getType()).getRank();
  for (int64_t axis : getAxes())
    if (axis < 0 || axis >= rank)
      return emitOpError("axis ") << axis << " is outside rank " << rank;
  bool arg = getKind() == ReduceKind::ArgMax || getKind() == ReduceKind::ArgMin;
  if (arg && getAxes().size() != 1)
    return emitOpError("reduces one axis to an index, not ") << getAxes().size();
  return success();
}

LogicalResult AttentionOp::verify() {
  if (getKeys() && getKeys()->getExprs().size() != 1)
    return emitOpError("`keys` is one size");
  if (getCausalOffset() && getCausalOffset()->getExprs().size() != 1)
    return emitOpError("`causal` is one size");
  if (isa<KvType>(getKey().getType()) != isa<KvType>(getValue().getType()))
    return emitOpError("key and value must both be caches or both be tensors");
  if (isa<KvType>(getKey().getType()) && !getKeys())
    return emitOpError("needs `keys` with caches");
  return success();
}
