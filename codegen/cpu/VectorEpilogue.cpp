// SPDX-License-Identifier: Apache-2.0
//
// Broadcasting is right-aligned at every op, so an operand's dimensions can be
// compared with the final result's directly.
#include "codegen/cpu/VectorEpilogue.h"

#include "codegen/common/ScalarOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {

static bool hasVectorForm(ElementKind kind) {
  switch (kind) {
  case ElementKind::Abs:
  case ElementKind::Neg:
  case ElementKind::Exp:
  case ElementKind::Sqrt:
  case ElementKind::Rsqrt:
  case ElementKind::Reciprocal:
  case ElementKind::Tanh:
  case ElementKind::Sigmoid:
  case ElementKind::Erf:
  case ElementKind::Relu:
  case ElementKind::Gelu:
  case ElementKind::GeluTanh:
  case ElementKind::Silu:
  case ElementKind::Add:
  case ElementKind::Sub:
  case ElementKind::Mul:
  case ElementKind::Div:
  case ElementKind::Min:
  case ElementKind::Max:
    return true;
  default:
    return false;
  }
}

VectorEpilogue::Access VectorEpilogue::accessOf(Value operand) const {
  SmallVector<AffineExpr> dims = dimsOf(operand.getType()), result = dimsOf(value.getType());
  if (dims.size() > result.size())
    return Access::None;
  ArrayRef<AffineExpr> aligned = ArrayRef(result).take_back(dims.size());
  auto allOnes = [](ArrayRef<AffineExpr> list) {
    return llvm::all_of(list, [](AffineExpr dim) { return isConstant(dim, 1); });
  };
  if (allOnes(dims))
    return Access::Scalar;
  bool lastEqual = dims.back() == aligned.back();
  ArrayRef<AffineExpr> outer = ArrayRef(dims).drop_back();
  if (lastEqual && allOnes(outer))
    return Access::Row;
  bool outerEqual =
      outer == aligned.drop_back() && allOnes(ArrayRef(result).drop_back(dims.size()));
  if (!outerEqual)
    return Access::None;
  return lastEqual ? Access::Full : isConstant(dims.back(), 1) ? Access::Column : Access::None;
}

bool VectorEpilogue::supports(Value x) const {
  if (root && x == root)
    return true;
  auto type = cast<RankedTensorType>(x.getType());
  if (!type.getElementType().isF32())
    return false;
  if (isa<BlockArgument>(x))
    return !isa_and_nonnull<StringAttr>(type.getEncoding()) && accessOf(x) != Access::None;
  if (auto constant = x.getDefiningOp<ConstantOp>()) {
    auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
    return values && values.isSplat();
  }
  auto op = x.getDefiningOp<ElementwiseOp>();
  return op && hasVectorForm(op.getKind()) &&
         llvm::all_of(op.getOperands_(), [&](Value operand) { return supports(operand); });
}

Value VectorEpilogue::apply(Value x, Value row, Value column, Value mask) {
  llvm::DenseMap<Value, Value> known;
  if (root)
    known[root] = x;
  return evaluate(value, row, column, mask, known);
}

Value VectorEpilogue::evaluate(Value x, Value row, Value column, Value mask,
                               llvm::DenseMap<Value, Value> &known) {
  if (Value done = known.lookup(x))
    return done;
  Value result;
  if (auto argument = dyn_cast<BlockArgument>(x)) {
    Value pointer = e.pointerOf(argument);
    Type f32 = e.b.getF32Type();
    switch (accessOf(x)) {
    case Access::Full: {
      Value width = e.size(dimsOf(value.getType()).back());
      result = tile.load(pointer, e.add(e.mul(row, width), column), mask);
      break;
    }
    case Access::Row:
      result = tile.load(pointer, column, mask);
      break;
    case Access::Column:
      result = tile.broadcast(e.load(pointer, row, f32));
      break;
    default:
      result = tile.broadcast(e.load(pointer, e.index(0), f32));
      break;
    }
  } else if (auto constant = x.getDefiningOp<ConstantOp>()) {
    auto values = cast<DenseElementsAttr>(constant.getValue());
    result = tile.splat(values.getSplatValue<FloatAttr>().getValueAsDouble());
  } else {
    auto op = x.getDefiningOp<ElementwiseOp>();
    SmallVector<Value, 3> operands;
    for (Value operand : op.getOperands_())
      operands.push_back(evaluate(operand, row, column, mask, known));
    result = ScalarOps(e.b).applyFloat(op.getKind(), operands);
  }
  known[x] = result;
  return result;
}

} // namespace llmc::cpu
