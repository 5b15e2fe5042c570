// SPDX-License-Identifier: Apache-2.0
//
// Direct convolution. A piece of a result row is summed in a buffer; for each
// channel and tap the part of the row that reads inside the input is one loop
// of multiply-adds over neighbouring elements, which LLVM vectorises. Where the
// weight is constant and there is one group, legalizing has made a product of it.
#include "codegen/common/ScalarOps.h"
#include "codegen/cpu/GenericKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {

using IndexList = KernelEmitter::IndexList;

/// x / y rounded up for positive y; 0 for negative x.
static Value divideUp(KernelEmitter &e, Value x, int64_t y) {
  return e.divide(e.add(e.max(x, e.index(0)), e.index(y - 1)), e.index(y));
}

LogicalResult emitConv(KernelEmitter &e, ElementEmitter &elements, ConvOp op, Value pointer,
                       PieceCallback finished) {
  ImplicitLocOpBuilder &b = e.b;
  ScalarOps scalars(b);
  Value input = op.getInput(), weight = op.getWeight(), result = op.getResult();
  Type element = cast<RankedTensorType>(result.getType()).getElementType();
  Type type = isa<FloatType>(element) ? (element.isF64() ? element : Type(b.getF32Type()))
                                      : signlessType(element);
  IndexList sizes = e.sizes(result.getType()), inputSizes = e.sizes(input.getType()),
            weightSizes = e.sizes(weight.getType());
  size_t spatial = sizes.size() - 2;
  Value channels = weightSizes[1], none = e.index(0);
  Value perGroup = e.divide(sizes[1], e.index(op.getGroups()));
  Value buffer = e.slot(type, KernelEmitter::kPiece);
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));

  e.forEachRow(sizes, [&](ArrayRef<Value> row, Value low, Value high) {
    e.loop(low, high, [&](Value i) { e.store(zero, buffer, e.sub(i, low), type); });
    Value first = e.mul(e.divide(row[1], e.max(perGroup, e.index(1))), channels);
    e.loop(none, channels, [&](Value c) {
      IndexList from{row[0], e.add(first, c)}, tap{row[1], c};
      // Taps of the outer dimensions, those outside of the input left out.
      std::function<void(size_t)> level = [&](size_t d) {
        int64_t stride = op.getStrides()[d], dilation = op.getDilations()[d];
        Value pad = e.size(op.getLow().getExprs()[d]);
        e.loop(none, weightSizes[2 + d], [&](Value k) {
          Value shift = e.sub(e.mul(k, e.index(dilation)), pad);
          tap.push_back(k);
          if (d + 1 < spatial) {
            Value at = e.add(e.mul(row[2 + d], e.index(stride)), shift);
            Value inside =
                arith::CmpIOp::create(b, arith::CmpIPredicate::ult, at, inputSizes[2 + d]);
            from.push_back(at);
            e.when(inside, [&] { level(d + 1); });
            from.pop_back();
          } else {
            Value begin = e.max(low, divideUp(e, e.sub(none, shift), stride));
            Value end = e.min(high, divideUp(e, e.sub(inputSizes[2 + d], shift), stride));
            Value w = scalars.widen(elements.element(weight, tap));
            e.loop(begin, end, [&](Value i) {
              from.push_back(e.add(e.mul(i, e.index(stride)), shift));
              Value x = scalars.widen(elements.element(input, from));
              from.pop_back();
              Value place = e.sub(i, low), so = e.load(buffer, place, type);
              Value next =
                  isa<FloatType>(type)
                      ? Value(math::FmaOp::create(b, w, x, so))
                      : Value(arith::AddIOp::create(b, so, Value(arith::MulIOp::create(b, w, x))));
              e.store(next, buffer, place, type);
            });
          }
          tap.pop_back();
        });
      };
      level(0);
    });
    e.loop(low, high, [&](Value i) {
      IndexList indices(row);
      indices.push_back(i);
      Value value = e.load(buffer, e.sub(i, low), type);
      if (isa<FloatType>(element))
        value = scalars.narrow(value, element);
      e.store(value, pointer, e.linear(indices, sizes), element);
    });
    finished(row, low, high);
  });
  return success();
}

} // namespace llmc::cpu
