// SPDX-License-Identifier: Apache-2.0
//
// One element of each op that has an element form, in terms of its operands'
// elements.
#include "codegen/common/ScalarOps.h"
#include "codegen/cpu/GenericKernels.h"
#include "codegen/cpu/WeightPacking.h"
#include "compiler/ir/llm/QuantizedRows.h"
#include "runtime/abi/KernelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {

using IndexList = KernelEmitter::IndexList;

static Type elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}
static int64_t rankOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getRank(); }

Value ElementEmitter::element(Value tensor, ArrayRef<Value> indices) {
  Value pointer = memory.lookup(tensor);
  if (auto argument = dyn_cast<BlockArgument>(tensor); argument && !pointer)
    pointer = e.pointerOf(argument);
  if (pointer && !packedLayoutOf(tensor.getType()).empty())
    return packedElement(tensor, pointer, indices);
  if (pointer)
    return e.load(pointer, e.linear(indices, e.sizes(tensor.getType())), elementTypeOf(tensor));
  if (Value value = elementOf(tensor.getDefiningOp(), indices))
    return value;
  if (!hasFailed)
    tensor.getDefiningOp()->emitError("[LLMC2001] no CPU code computes '")
        << tensor.getDefiningOp()->getName() << "' with result " << tensor.getType();
  hasFailed = true;
  return arith::ConstantOp::create(e.b, e.b.getZeroAttr(signlessType(elementTypeOf(tensor))));
}

Value ElementEmitter::packedElement(Value tensor, Value pointer, ArrayRef<Value> indices) {
  // Only a product that isn't transposed has its columns in the last dimension.
  bool columnsLast = llvm::any_of(tensor.getUsers(), [](Operation *user) {
    auto matmul = dyn_cast<MatmulOp>(user);
    return matmul && !matmul.getTransposeRhs();
  });
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t depth = type.getDimSize(columnsLast ? 0 : 1);
  Value column = indices[columnsLast ? 1 : 0], k = indices[columnsLast ? 0 : 1];
  if (std::optional<QuantLayout> layout = quantLayoutOf(type))
    return dequantized(*layout, depth, pointer, k, column);
  int64_t pair = type.getElementType().isBF16() ? 2 : 1;
  Value width = e.index(kBlockColumns), block = e.divide(column, width);
  Value line =
      e.add(e.mul(block, e.index(llvm::divideCeil(depth, pair))), e.divide(k, e.index(pair)));
  Value place = e.add(e.mul(line, width), e.rest(column, width));
  Value position = e.add(e.mul(place, e.index(pair)), e.rest(k, e.index(pair)));
  return e.load(pointer, position, type.getElementType());
}

Value ElementEmitter::dequantized(const QuantLayout &layout, int64_t depth, Value pointer, Value k,
                                  Value column) {
  ImplicitLocOpBuilder &b = e.b;
  Type i8 = b.getI8Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  Value width = e.index(kBlockColumns), n = e.rest(column, width);
  Value block =
      e.address(pointer, e.mul(e.divide(column, width), e.index(layout.blockBytes(depth))), i8);
  Value group =
      e.address(block, e.mul(e.divide(k, e.index(layout.group)), e.index(layout.groupBytes())), i8);
  Value behindLines = e.address(group, e.index(layout.lineBytesOfGroup()), i8);
  Value inGroup = e.rest(k, e.index(layout.group));
  auto byteAt = [&](Value from, Value at) -> Value {
    return arith::ExtUIOp::create(b, i32, e.load(from, at, i8));
  };
  auto integer = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, value, 32); };
  int64_t perLine = layout.isInt4() ? 8 : 4;
  Value line = e.mul(e.divide(inGroup, e.index(perLine)), e.index(64));
  Value place = e.add(line, e.add(e.mul(n, e.index(4)), e.rest(inGroup, e.index(4))));
  Value value = byteAt(group, place);
  if (layout.isInt4()) {
    Value upper = e.less(e.index(3), e.rest(inGroup, e.index(8)));
    value = e.select(upper, arith::ShRUIOp::create(b, value, integer(4)),
                     arith::AndIOp::create(b, value, integer(15)));
  }
  Value zero = layout.kind == QuantLayout::Int8 ? integer(128)
               : layout.kind != QuantLayout::Int4ZeroPoints
                   ? integer(8)
                   : byteAt(behindLines, e.add(e.index(32), n));
  value = arith::SubIOp::create(b, value, zero);
  if (layout.kind == QuantLayout::Int4TwoLevel)
    value = arith::MulIOp::create(b, value, byteAt(behindLines, n));
  Value scale;
  if (layout.hasBlockScales())
    scale = e.load(e.address(block, e.index(layout.blockBytes(depth) - 64), i8), n, f32);
  else
    scale = arith::ExtFOp::create(b, f32, e.load(behindLines, n, b.getF16Type()));
  return arith::MulFOp::create(b, arith::SIToFPOp::create(b, f32, value), scale);
}

Value ElementEmitter::quantizedElement(Value tensor, ArrayRef<Value> indices, int64_t group) {
  ImplicitLocOpBuilder &b = e.b;
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  QuantizedRecord record{group};
  IndexList first(indices);
  first.back() = e.index(0);
  Value row = e.linear(first, e.sizes(tensor.getType()));
  Value number = e.divide(indices.back(), e.index(group));
  Value start = e.address(e.pointerOf(cast<BlockArgument>(tensor)),
                          e.add(row, e.mul(number, e.index(record.bytes()))), i8);
  Value value = e.load(start, e.rest(indices.back(), e.index(group)), i8);
  Value scale = e.load(e.address(start, e.index(record.scaleOffset()), i8), e.index(0), f32);
  return arith::MulFOp::create(b, arith::SIToFPOp::create(b, f32, value), scale);
}

IndexList ElementEmitter::broadcastIndices(Type type, Type resultType, ArrayRef<Value> indices) {
  SmallVector<AffineExpr> dims = dimsOf(type), resultDims = dimsOf(resultType);
  size_t skipped = resultDims.size() - dims.size();
  IndexList list;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    Value position = indices[skipped + i];
    if (isConstant(dim, 1))
      list.push_back(e.index(0));
    else if (dim == resultDims[skipped + i])
      list.push_back(position);
    else // Known at run time only: size 1 repeats.
      list.push_back(e.select(e.equal(e.size(dim), e.index(1)), e.index(0), position));
  }
  return list;
}

Value ElementEmitter::ofElementwise(ElementwiseOp op, ArrayRef<Value> indices) {
  SmallVector<Value, 3> operands;
  for (Value operand : op.getOperands_())
    operands.push_back(
        element(operand, broadcastIndices(operand.getType(), op.getType(), indices)));
  Value data = op.getOperands_()[op.getKind() == ElementKind::Select ? 1 : 0];
  ScalarOps scalars(e.b, [&](Value zero) { e.fail(zero, LLMC_KERNEL_DIVISION_BY_ZERO); });
  return scalars.apply(op.getKind(), operands, elementTypeOf(data), elementTypeOf(op.getResult()));
}

Value ElementEmitter::guarded(Value inside, Value tensor, ArrayRef<Value> indices) {
  Type type = signlessType(elementTypeOf(tensor));
  return e.choose(
      inside, type, [&] { return element(tensor, indices); },
      [&]() -> Value { return arith::ConstantOp::create(e.b, e.b.getZeroAttr(type)); });
}

Value ElementEmitter::checkedIndex(Value position, Value size, Value &inside) {
  if (position.getType() != e.b.getI64Type())
    position = arith::ExtSIOp::create(e.b, e.b.getI64Type(), position);
  Value wrapped = e.select(e.less(position, e.index(0)), e.add(position, size), position);
  Value valid = arith::CmpIOp::create(e.b, arith::CmpIPredicate::ult, wrapped, size);
  e.fail(e.negate(valid), LLMC_KERNEL_INDEX_OUT_OF_RANGE);
  inside = inside ? e.both(inside, valid) : valid;
  return wrapped;
}

Value ElementEmitter::ofConcat(ConcatOp op, ArrayRef<Value> indices) {
  int64_t axis = op.getAxis();
  Type type = signlessType(elementTypeOf(op.getResult()));
  std::function<Value(unsigned, Value)> part = [&](unsigned i, Value position) -> Value {
    Value input = op.getInputs()[i];
    IndexList inner(indices);
    inner[axis] = position;
    if (i + 1 == op.getInputs().size())
      return element(input, inner);
    Value length = e.size(dimsOf(input.getType())[axis]);
    return e.choose(
        e.less(position, length), type, [&] { return element(input, inner); },
        [&] { return part(i + 1, e.sub(position, length)); });
  };
  return part(0, indices[axis]);
}

Value ElementEmitter::ofPad(PadOp op, ArrayRef<Value> indices) {
  IndexList inner;
  Value inside;
  for (auto [i, dim] : llvm::enumerate(dimsOf(op.getInput().getType()))) {
    Value size = e.size(dim), position = e.sub(indices[i], e.size(op.getLow().getExprs()[i]));
    Value last = e.sub(size, e.index(1));
    switch (op.getMode()) {
    case PadMode::Constant: {
      Value valid = arith::CmpIOp::create(e.b, arith::CmpIPredicate::ult, position, size);
      inside = inside ? e.both(inside, valid) : valid;
      break;
    }
    case PadMode::Edge:
      position = e.max(e.index(0), e.min(position, last));
      break;
    case PadMode::Wrap: {
      Value rest = arith::RemSIOp::create(e.b, position, e.max(size, e.index(1)));
      position = e.select(e.less(rest, e.index(0)), e.add(rest, size), rest);
      break;
    }
    case PadMode::Reflect: {
      // A period of 2 (size - 1) positions: up, then down without repeating the ends.
      Value period = e.max(e.mul(last, e.index(2)), e.index(1));
      Value rest = arith::RemSIOp::create(e.b, position, period);
      rest = e.select(e.less(rest, e.index(0)), e.add(rest, period), rest);
      position = e.select(e.less(last, rest), e.sub(period, rest), rest);
      break;
    }
    }
    inner.push_back(position);
  }
  if (!inside)
    return element(op.getInput(), inner);
  Type type = signlessType(elementTypeOf(op.getResult()));
  return e.choose(
      inside, type, [&] { return element(op.getInput(), inner); },
      [&]() -> Value {
        if (!op.getValue())
          return arith::ConstantOp::create(e.b, e.b.getZeroAttr(type));
        return element(op.getValue(), IndexList(rankOf(op.getValue()), e.index(0)));
      });
}

Value ElementEmitter::ofTrilu(TriluOp op, ArrayRef<Value> indices) {
  Value distance = e.sub(indices.back(), indices[indices.size() - 2]);
  Value diagonal = e.index(op.getDiagonal());
  Value cut = op.getUpper() ? e.less(distance, diagonal) : e.less(diagonal, distance);
  Value zero =
      arith::ConstantOp::create(e.b, e.b.getZeroAttr(signlessType(elementTypeOf(op.getResult()))));
  return e.select(cut, zero, element(op.getInput(), indices));
}

Value ElementEmitter::ofGather(GatherOp op, ArrayRef<Value> indices) {
  int64_t axis = op.getAxis(), indexRank = rankOf(op.getIndices());
  Value inside;
  Value chosen = element(op.getIndices(), indices.slice(axis, indexRank));
  IndexList inner(indices.take_front(axis));
  inner.push_back(checkedIndex(chosen, e.size(dimsOf(op.getInput().getType())[axis]), inside));
  llvm::append_range(inner, indices.drop_front(axis + indexRank));
  return guarded(inside, op.getInput(), inner);
}

Value ElementEmitter::ofGatherElements(GatherElementsOp op, ArrayRef<Value> indices) {
  Value inside;
  IndexList inner(indices);
  Value size = e.size(dimsOf(op.getInput().getType())[op.getAxis()]);
  inner[op.getAxis()] = checkedIndex(element(op.getIndices(), indices), size, inside);
  return guarded(inside, op.getInput(), inner);
}

Value ElementEmitter::ofGatherNd(GatherNdOp op, ArrayRef<Value> indices) {
  int64_t batch = op.getBatchDims(), indexRank = rankOf(op.getIndices());
  int64_t tuple = cast<RankedTensorType>(op.getIndices().getType()).getShape().back();
  SmallVector<AffineExpr> dims = dimsOf(op.getInput().getType());
  IndexList inner(indices.take_front(batch));
  Value inside;
  for (int64_t i = 0; i < tuple; ++i) {
    IndexList where(indices.take_front(indexRank - 1));
    where.push_back(e.index(i));
    inner.push_back(checkedIndex(element(op.getIndices(), where), e.size(dims[batch + i]), inside));
  }
  llvm::append_range(inner, indices.drop_front(indexRank - 1));
  return inside ? guarded(inside, op.getInput(), inner) : element(op.getInput(), inner);
}

Value ElementEmitter::ofRope(RopeOp op, ArrayRef<Value> indices) {
  Type type = elementTypeOf(op.getResult());
  Value half = e.size(dimsOf(op.getCos().getType()).back()), last = indices.back();
  IndexList other(indices), angle(indices);
  Value first; // whether this is the first of its pair
  if (op.getInterleaved()) {
    first = e.equal(e.rest(last, e.index(2)), e.index(0));
    angle.back() = e.divide(last, e.index(2));
    other.back() = e.select(first, e.add(last, e.index(1)), e.sub(last, e.index(1)));
  } else {
    first = e.less(last, half);
    angle.back() = e.select(first, last, e.sub(last, half));
    other.back() = e.select(first, e.add(last, half), e.sub(last, half));
  }
  ScalarOps scalars(e.b);
  // A table's last dimension counts pairs; the others broadcast against the input's.
  auto table = [&](Value tensor) {
    SmallVector<AffineExpr> inputDims = dimsOf(op.getType()), dims = dimsOf(tensor.getType());
    inputDims.back() = dims.back();
    Type broadcastTo = tensorOf(inputDims, type);
    return scalars.widen(element(tensor, broadcastIndices(tensor.getType(), broadcastTo, angle)));
  };
  return e.choose(
      e.less(last, e.mul(half, e.index(2))), signlessType(type),
      [&]() -> Value {
        Value x = scalars.widen(element(op.getInput(), indices));
        Value y = scalars.widen(element(op.getInput(), other));
        Value sine = table(op.getSin()), cosine = table(op.getCos());
        Value negative = arith::NegFOp::create(e.b, sine);
        Value turned = arith::MulFOp::create(e.b, y, e.select(first, negative, sine));
        Value kept = arith::MulFOp::create(e.b, x, cosine);
        return scalars.narrow(arith::AddFOp::create(e.b, kept, turned), type);
      },
      [&] { return element(op.getInput(), indices); });
}

Value ElementEmitter::ofDequantize(DequantizeOp op, ArrayRef<Value> indices) {
  ScalarOps scalars(e.b);
  Type from = elementTypeOf(op.getInput()), to = elementTypeOf(op.getResult());
  Type i32 = e.b.getI32Type(), f32 = e.b.getF32Type();
  int64_t block = op.getBlock();
  auto parameter = [&](Value tensor) {
    IndexList where;
    if (block > 0) {
      where.assign(indices.begin(), indices.end());
      where[op.getAxis()] = e.divide(where[op.getAxis()], e.index(block));
    } else if (rankOf(tensor) == 1) {
      where.push_back(indices[op.getAxis()]);
    }
    return element(tensor, where);
  };
  Value value = element(op.getInput(), indices);
  if (isa<FloatType>(from) || (op.getZero() && isa<FloatType>(elementTypeOf(op.getZero())))) {
    value = scalars.cast(value, from, f32);
    if (op.getZero())
      value = arith::SubFOp::create(
          e.b, value, scalars.cast(parameter(op.getZero()), elementTypeOf(op.getZero()), f32));
  } else {
    value = scalars.cast(value, from, i32);
    if (op.getZero())
      value = arith::SubIOp::create(
          e.b, value, scalars.cast(parameter(op.getZero()), elementTypeOf(op.getZero()), i32));
    if (!op.getScale())
      return value;
    value = scalars.cast(value, i32, f32);
  }
  Value scale = scalars.cast(parameter(op.getScale()), elementTypeOf(op.getScale()), f32);
  return scalars.narrow(arith::MulFOp::create(e.b, value, scale), to);
}

Value ElementEmitter::ofKvConcat(KvConcatOp op, ArrayRef<Value> indices) {
  Value room = e.size(dimsOf(op.getPast().getType())[2]),
        tokens = e.size(dimsOf(op.getFresh().getType())[2]), token = indices[2];
  Value length = ScalarOps(e.b).cast(element(op.getLengths(), {indices[0], e.index(0)}),
                                     elementTypeOf(op.getLengths()), e.b.getI64Type());
  length = e.max(e.index(0), e.min(length, room));
  Value place = e.sub(token, length);
  Value isFresh = arith::CmpIOp::create(e.b, arith::CmpIPredicate::ult, place, tokens);
  IndexList at(indices);
  at[2] = place;
  Type type = signlessType(elementTypeOf(op.getResult()));
  return e.choose(
      isFresh, type, [&] { return element(op.getFresh(), at); },
      [&] { return guarded(e.less(token, room), op.getPast(), indices); });
}

Value ElementEmitter::elementOf(Operation *op, ArrayRef<Value> indices) {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](ConstantOp constant) -> Value {
        auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!values || !values.isSplat())
          return {};
        Attribute value = values.getSplatValue<Attribute>();
        Type type = signlessType(values.getElementType());
        if (auto integer = dyn_cast<IntegerAttr>(value)) {
          bool isUnsigned = integer.getType().isUnsignedInteger() || type.isInteger(1);
          unsigned width = type.getIntOrFloatBitWidth();
          value = IntegerAttr::get(type, isUnsigned ? integer.getValue().zextOrTrunc(width)
                                                    : integer.getValue().sextOrTrunc(width));
        } else if (isa<IntegerType>(type)) {
          value = IntegerAttr::get(
              type, cast<FloatAttr>(value).getValue().bitcastToAPInt().zextOrTrunc(8));
        }
        return arith::ConstantOp::create(e.b, cast<TypedAttr>(value));
      })
      .Case([&](SizesOp sizes) {
        ArrayRef<AffineExpr> exprs = sizes.getValues().getExprs();
        Value value = e.size(exprs.front());
        for (auto [i, expr] : llvm::enumerate(exprs.drop_front()))
          value = e.select(e.equal(indices[0], e.index(i + 1)), e.size(expr), value);
        return ScalarOps(e.b).cast(value, e.b.getI64Type(), elementTypeOf(sizes.getResult()));
      })
      .Case([&](IotaOp iota) {
        Value steps = e.mul(indices[0], e.index(iota.getStep()));
        Value value = e.add(e.size(iota.getStart().getExprs()[0]), steps);
        return ScalarOps(e.b).cast(value, e.b.getI64Type(), elementTypeOf(iota.getResult()));
      })
      .Case([&](ElementwiseOp elementwise) { return ofElementwise(elementwise, indices); })
      .Case([&](ReshapeOp reshape) {
        Value position = e.linear(indices, e.sizes(reshape.getType()));
        return element(reshape.getInput(),
                       e.delinear(position, e.sizes(reshape.getInput().getType())));
      })
      .Case([&](BroadcastOp broadcast) {
        Type from = broadcast.getInput().getType();
        return element(broadcast.getInput(), broadcastIndices(from, broadcast.getType(), indices));
      })
      .Case([&](TileOp tile) {
        IndexList inner;
        for (auto [i, dim] : llvm::zip_equal(indices, dimsOf(tile.getInput().getType())))
          inner.push_back(e.rest(i, e.size(dim)));
        return element(tile.getInput(), inner);
      })
      .Case([&](TransposeOp transpose) {
        IndexList inner(indices);
        for (auto [i, p] : llvm::enumerate(transpose.getPermutation()))
          inner[p] = indices[i];
        return element(transpose.getInput(), inner);
      })
      .Case([&](SliceOp slice) {
        IndexList inner;
        for (auto [i, start, step] :
             llvm::zip_equal(indices, slice.getStarts().getExprs(), slice.getSteps()))
          inner.push_back(e.add(e.size(start), step == 1 ? i : e.mul(i, e.index(step))));
        return element(slice.getInput(), inner);
      })
      .Case([&](ConcatOp concat) { return ofConcat(concat, indices); })
      .Case([&](PadOp pad) { return ofPad(pad, indices); })
      .Case([&](TriluOp trilu) { return ofTrilu(trilu, indices); })
      .Case([&](GatherOp gather) { return ofGather(gather, indices); })
      .Case([&](GatherElementsOp gather) { return ofGatherElements(gather, indices); })
      .Case([&](GatherNdOp gather) { return ofGatherNd(gather, indices); })
      .Case([&](RopeOp rope) { return ofRope(rope, indices); })
      .Case([&](DequantizeOp dequantize) { return ofDequantize(dequantize, indices); })
      .Case([&](KvConcatOp concat) { return ofKvConcat(concat, indices); })
      .Default([](Operation *) { return Value(); });
}

} // namespace llmc::cpu
