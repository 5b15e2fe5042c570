// SPDX-License-Identifier: Apache-2.0
//
// Plain loops for ops that combine many elements: reductions, softmax, norms,
// products, attention, sorting, scattering. Sums run over a whole line in one
// worker, so results do not depend on the number of workers.
#include "codegen/common/ScalarOps.h"
#include "codegen/cpu/GenericKernels.h"
#include "runtime/abi/BundleFormat.h"
#include "runtime/abi/KernelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {
namespace {

using IndexList = KernelEmitter::IndexList;

class StructuredEmitter {
public:
  StructuredEmitter(KernelEmitter &e, ElementEmitter &elements, ArrayRef<Value> pointers,
                    PieceCallback finished)
      : e(e), b(e.b), scalars(e.b), elements(elements), pointers(pointers), finished(finished) {}

  LogicalResult emit(Operation *op) {
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case<ReduceOp, SoftmaxOp, CumsumOp, TopKOp, LayerNormOp, RmsNormOp, MatmulOp, AttentionOp,
              ScatterElementsOp, ScatterNdOp, KvAppendOp>([&](auto typed) { return emitOp(typed); })
        .Case([&](ConvOp conv) { return emitConv(e, elements, conv, pointers[0], finished); })
        .Default([](Operation *) { return failure(); });
  }

private:
  LogicalResult emitOp(ReduceOp op);
  LogicalResult emitOp(SoftmaxOp op);
  LogicalResult emitOp(CumsumOp op);
  LogicalResult emitOp(TopKOp op);
  LogicalResult emitOp(LayerNormOp op) {
    return emitNorm(op.getInput(), op.getScale(), op.getBias(), op.getAxis(),
                    op.getEpsilon().convertToDouble(), /*centered=*/true);
  }
  LogicalResult emitOp(RmsNormOp op) {
    return emitNorm(op.getInput(), op.getScale(), Value(), op.getAxis(),
                    op.getEpsilon().convertToDouble(), /*centered=*/false);
  }
  LogicalResult emitOp(MatmulOp op);
  LogicalResult emitOp(AttentionOp op);
  LogicalResult emitOp(ScatterElementsOp op);
  LogicalResult emitOp(ScatterNdOp op);
  LogicalResult emitOp(KvAppendOp op);
  /// Where the update at `indices` goes in a result of `sizes`; `inside` is set, or and-ed, with
  /// whether its indices lie within.
  using TargetOf =
      llvm::function_ref<IndexList(ArrayRef<Value> indices, ArrayRef<Value> sizes, Value &inside)>;
  void emitScatter(Value input, Value result, Value updates, ScatterReduction reduction,
                   TargetOf target);
  LogicalResult emitNorm(Value input, Value scale, Value bias, int64_t axis, double epsilon,
                         bool centered);

  static RankedTensorType typeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()); }
  static Type elementTypeOf(Value tensor) { return typeOf(tensor).getElementType(); }
  Value zero(Type type) { return arith::ConstantOp::create(b, b.getZeroAttr(type)); }
  /// A float of `type` (computed type), e.g. for initial values.
  Value real(double value, Type type) {
    return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
  }
  /// Sums may be reordered within a line: that is what lets LLVM vectorise them.
  Value sum(Value x, Value y) {
    if (isa<FloatType>(x.getType()))
      return arith::AddFOp::create(b, x, y,
                                   arith::FastMathFlags::reassoc | arith::FastMathFlags::contract);
    return arith::AddIOp::create(b, x, y);
  }
  Value product(Value x, Value y) {
    if (isa<FloatType>(x.getType()))
      return arith::MulFOp::create(b, x, y, arith::FastMathFlags::contract);
    return arith::MulIOp::create(b, x, y);
  }
  Value difference(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  /// The type in which elements of `element` are accumulated.
  Type accumulator(Type element) {
    if (isa<FloatType>(element))
      return element.isF64() ? element : Type(b.getF32Type());
    return signlessType(element);
  }
  Value widened(Value tensor, ArrayRef<Value> indices) {
    return scalars.widen(elements.element(tensor, indices));
  }
  void storeResult(Value tensor, Value value, ArrayRef<Value> indices, unsigned number = 0) {
    Type element = elementTypeOf(tensor);
    if (isa<FloatType>(element))
      value = scalars.narrow(value, element);
    e.store(value, pointers[number], e.linear(indices, e.sizes(tensor.getType())), element);
  }
  /// Nested loops over `extents`, carrying values.
  SmallVector<Value> nest(ArrayRef<Value> extents, ArrayRef<Value> initial,
                          llvm::function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> body);
  /// Every line of `tensor` along `axis`: `body` gets indices whose `axis` entry is to be filled.
  void forEachLine(Value tensor, int64_t axis, llvm::function_ref<void(IndexList &)> body);
  /// Indices of a matmul operand's batch dimensions, given the result's.
  IndexList batchIndices(Value operand, Value result, ArrayRef<Value> indices);
  Value comparison(Value x, Value y, Type element, bool greater);

  KernelEmitter &e;
  ImplicitLocOpBuilder &b;
  ScalarOps scalars;
  ElementEmitter &elements;
  ArrayRef<Value> pointers;
  PieceCallback finished;
};

/// Where element `d` of a token lies in its block, `token` counted within it.
Value kvPlace(KernelEmitter &e, KvType kv, Value head, Value token, Value d) {
  Value tokens = e.index(LLMC_KV_BLOCK_TOKENS), width = e.index(kv.getHeadSize());
  return kv.getColumns() ? e.add(e.mul(e.add(e.mul(head, width), d), tokens), token)
                         : e.add(e.mul(e.add(e.mul(head, tokens), token), width), d);
}

SmallVector<Value>
StructuredEmitter::nest(ArrayRef<Value> extents, ArrayRef<Value> initial,
                        llvm::function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> body) {
  IndexList indices;
  std::function<SmallVector<Value>(ValueRange)> level =
      [&](ValueRange carried) -> SmallVector<Value> {
    if (indices.size() == extents.size())
      return body(indices, carried);
    return e.loop(e.index(0), extents[indices.size()], SmallVector<Value>(carried),
                  [&](Value i, ValueRange inner) {
                    indices.push_back(i);
                    SmallVector<Value> results = level(inner);
                    indices.pop_back();
                    return results;
                  });
  };
  return level(initial);
}

void StructuredEmitter::forEachLine(Value tensor, int64_t axis,
                                    llvm::function_ref<void(IndexList &)> body) {
  IndexList sizes = e.sizes(tensor.getType());
  sizes[axis] = e.index(1);
  e.forEachRow(sizes, [&](ArrayRef<Value> row, Value low, Value high) {
    e.loop(low, high, [&](Value last) {
      IndexList indices(row);
      indices.push_back(last);
      body(indices);
    });
  });
}

Value StructuredEmitter::comparison(Value x, Value y, Type element, bool greater) {
  if (isa<FloatType>(element))
    return arith::CmpFOp::create(b, greater ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT,
                                 x, y);
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  using P = arith::CmpIPredicate;
  return arith::CmpIOp::create(
      b, greater ? (isUnsigned ? P::ugt : P::sgt) : (isUnsigned ? P::ult : P::slt), x, y);
}

LogicalResult StructuredEmitter::emitOp(ReduceOp op) {
  ReduceKind kind = op.getKind();
  Value input = op.getInput(), result = op.getResult();
  Type element = elementTypeOf(input), type = accumulator(element);
  bool floating = isa<FloatType>(type),
       isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  bool arg = kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
  bool largest =
      kind == ReduceKind::Max || kind == ReduceKind::ArgMax || kind == ReduceKind::LogSumExp;
  IndexList inputSizes = e.sizes(input.getType()), extents;
  for (int64_t axis : op.getAxes())
    extents.push_back(inputSizes[axis]);

  auto extreme = [&](bool lowest) -> Value {
    if (floating)
      return real(lowest ? -std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::infinity(),
                  type);
    unsigned width = type.getIntOrFloatBitWidth();
    APInt value =
        isUnsigned ? (lowest ? APInt::getZero(width) : APInt::getMaxValue(width))
                   : (lowest ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width));
    return arith::ConstantOp::create(b, IntegerAttr::get(type, value));
  };
  auto maximum = [&](Value x, Value y, bool greatest) -> Value {
    if (floating)
      return greatest ? Value(arith::MaximumFOp::create(b, x, y))
                      : Value(arith::MinimumFOp::create(b, x, y));
    return e.select(comparison(x, y, element, greatest), x, y);
  };

  e.forEachRow(e.sizes(result.getType()), [&](ArrayRef<Value> row, Value low, Value high) {
    e.loop(low, high, [&](Value last) {
      IndexList indices(row);
      if (typeOf(result).getRank() > 0)
        indices.push_back(last);
      auto at = [&](ArrayRef<Value> reduced) {
        IndexList inner(indices);
        for (auto [axis, i] : llvm::zip_equal(op.getAxes(), reduced))
          inner[axis] = i;
        return widened(input, inner);
      };
      auto fold = [&](Value initial, llvm::function_ref<Value(Value, Value)> step) {
        return nest(extents, {initial}, [&](ArrayRef<Value> reduced, ValueRange carried) {
          return SmallVector<Value>{step(carried[0], at(reduced))};
        })[0];
      };
      if (arg) {
        // NaN beats everything, as numpy has it; the first wins, or the last if asked.
        SmallVector<Value> best =
            nest(extents, {extreme(largest), e.index(0)},
                 [&](ArrayRef<Value> reduced, ValueRange carried) {
                   Value x = at(reduced), better = comparison(x, carried[0], element, largest);
                   if (op.getLastIndex())
                     better = e.negate(comparison(carried[0], x, element, largest));
                   if (floating) {
                     Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
                     Value wasNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, carried[0],
                                                          carried[0]);
                     Value nanWins = op.getLastIndex() ? isNan : e.both(isNan, e.negate(wasNan));
                     better = arith::OrIOp::create(b, e.both(better, e.negate(wasNan)), nanWins);
                   }
                   Value first = e.equal(reduced[0], e.index(0));
                   better = arith::OrIOp::create(b, better, first);
                   return SmallVector<Value>{e.select(better, x, carried[0]),
                                             e.select(better, reduced[0], carried[1])};
                 });
        storeResult(result, best[1], indices);
        return;
      }
      Value value;
      switch (kind) {
      case ReduceKind::Sum:
      case ReduceKind::Mean:
      case ReduceKind::LogSum:
        value = fold(zero(type), [&](Value acc, Value x) { return sum(acc, x); });
        break;
      case ReduceKind::L1:
        value = fold(zero(type), [&](Value acc, Value x) {
          return sum(acc, floating     ? scalars.math.abs(x)
                          : isUnsigned ? x
                                       : Value(math::AbsIOp::create(b, x)));
        });
        break;
      case ReduceKind::L2:
      case ReduceKind::SumSquare:
        value = fold(zero(type), [&](Value acc, Value x) { return sum(acc, product(x, x)); });
        break;
      case ReduceKind::Prod:
        value = fold(floating ? real(1.0, type)
                              : Value(arith::ConstantOp::create(b, b.getIntegerAttr(type, 1))),
                     [&](Value acc, Value x) { return product(acc, x); });
        break;
      case ReduceKind::Max:
      case ReduceKind::Min:
        value =
            fold(extreme(largest), [&](Value acc, Value x) { return maximum(acc, x, largest); });
        break;
      case ReduceKind::LogSumExp: {
        Value top = fold(extreme(true), [&](Value acc, Value x) { return maximum(acc, x, true); });
        // An infinite maximum would give inf - inf.
        Value finite = arith::CmpFOp::create(b, arith::CmpFPredicate::ONE, scalars.math.abs(top),
                                             real(std::numeric_limits<double>::infinity(), type));
        Value shift = e.select(finite, top, real(0.0, type));
        value = fold(zero(type), [&](Value acc, Value x) {
          return sum(acc, scalars.math.exp(difference(x, shift)));
        });
        value = arith::AddFOp::create(b, scalars.math.log(value), shift);
        break;
      }
      case ReduceKind::ArgMax:
      case ReduceKind::ArgMin:
        break;
      }
      if (kind == ReduceKind::Mean) {
        Value count = scalars.cast(e.product(extents), b.getI64Type(), type);
        if (floating)
          value = arith::DivFOp::create(b, value, count);
        else {
          ScalarOps checked(b, [&](Value none) { e.fail(none, LLMC_KERNEL_DIVISION_BY_ZERO); });
          value = checked.apply(ElementKind::Div, {value, count}, element, element);
        }
      }
      if ((kind == ReduceKind::L2 || kind == ReduceKind::LogSum) && !floating) {
        Value wide = scalars.cast(value, element, b.getF64Type());
        wide = kind == ReduceKind::L2 ? scalars.math.sqrt(wide) : scalars.math.log(wide);
        value = scalars.cast(wide, b.getF64Type(), element);
      } else if (kind == ReduceKind::L2) {
        value = scalars.math.sqrt(value);
      } else if (kind == ReduceKind::LogSum) {
        value = scalars.math.log(value);
      }
      storeResult(result, value, indices);
    });
    finished(row, low, high);
  });
  return success();
}

LogicalResult StructuredEmitter::emitOp(SoftmaxOp op) {
  Value input = op.getInput(), result = op.getResult();
  int64_t axis = op.getAxis(), rank = typeOf(result).getRank();
  Type element = elementTypeOf(result), type = accumulator(element);
  Value length = e.sizes(input.getType())[axis], none = e.index(0);
  bool inPlace = element == type && !op.getLog();
  forEachLine(result, axis, [&](IndexList &indices) {
    auto at = [&](Value i) {
      indices[axis] = i;
      return widened(input, indices);
    };
    Value lowest = real(-std::numeric_limits<double>::infinity(), type);
    Value top = e.loop(none, length, {lowest}, [&](Value i, ValueRange carried) {
      return SmallVector<Value>{arith::MaximumFOp::create(b, carried[0], at(i))};
    })[0];
    Value total = e.loop(none, length, {real(0.0, type)}, [&](Value i, ValueRange carried) {
      Value exponential = scalars.math.exp(difference(at(i), top));
      if (inPlace)
        storeResult(result, exponential, indices);
      return SmallVector<Value>{sum(carried[0], exponential)};
    })[0];
    Value logTotal = op.getLog() ? scalars.math.log(total) : Value();
    Value inverse = arith::DivFOp::create(b, real(1.0, type), total);
    e.loop(none, length, [&](Value i) {
      indices[axis] = i;
      Value value;
      if (op.getLog())
        value = difference(difference(at(i), top), logTotal);
      else if (inPlace)
        value = product(e.load(pointers[0], e.linear(indices, e.sizes(result.getType())), element),
                        inverse);
      else
        value = product(scalars.math.exp(difference(at(i), top)), inverse);
      storeResult(result, value, indices);
      if (axis != rank - 1)
        finished(ArrayRef(indices).drop_back(), indices.back(), e.add(indices.back(), e.index(1)));
    });
    if (axis == rank - 1)
      finished(ArrayRef(indices).drop_back(), none, length);
  });
  return success();
}

LogicalResult StructuredEmitter::emitOp(CumsumOp op) {
  Value input = op.getInput(), result = op.getResult();
  int64_t axis = op.getAxis();
  Value length = e.sizes(input.getType())[axis];
  Type element = elementTypeOf(input), type = accumulator(element);
  forEachLine(result, axis, [&](IndexList &indices) {
    e.loop(e.index(0), length, {zero(type)}, [&](Value step, ValueRange carried) {
      indices[axis] = op.getReverse() ? e.sub(e.sub(length, e.index(1)), step) : step;
      Value x = widened(input, indices);
      Value next = isa<FloatType>(type) ? Value(arith::AddFOp::create(b, carried[0], x))
                                        : sum(carried[0], x);
      storeResult(result, op.getExclusive() ? carried[0] : next, indices);
      return SmallVector<Value>{next};
    });
  });
  return success();
}

LogicalResult StructuredEmitter::emitOp(TopKOp op) {
  Value input = op.getInput(), values = op.getValues(), places = op.getIndices();
  int64_t axis = op.getAxis();
  bool largest = !op.getSmallest();
  Type element = elementTypeOf(input), type = accumulator(element);
  Value length = e.sizes(input.getType())[axis], count = e.sizes(values.getType())[axis];
  forEachLine(values, axis, [&](IndexList &indices) {
    auto at = [&](Value i) {
      indices[axis] = i;
      return widened(input, indices);
    };
    // The k-th is the best of those that come after the one before: (value, index) is an order.
    e.loop(e.index(0), count, {zero(type), e.index(-1)}, [&](Value k, ValueRange last) {
      SmallVector<Value> best =
          e.loop(e.index(0), length, {zero(type), e.index(-1)}, [&](Value i, ValueRange carried) {
            Value x = at(i);
            Value isFirst = e.less(last[1], e.index(0));
            Value beyond = comparison(last[0], x, element, largest);
            Value tie = e.both(
                e.negate(arith::OrIOp::create(b, beyond, comparison(x, last[0], element, largest))),
                e.less(last[1], i));
            Value eligible =
                arith::OrIOp::create(b, isFirst, Value(arith::OrIOp::create(b, beyond, tie)));
            Value better = arith::OrIOp::create(b, e.less(carried[1], e.index(0)),
                                                comparison(x, carried[0], element, largest));
            Value take = e.both(eligible, better);
            return SmallVector<Value>{e.select(take, x, carried[0]), e.select(take, i, carried[1])};
          });
      indices[axis] = k;
      storeResult(values, best[0], indices, 0);
      storeResult(places, best[1], indices, 1);
      return best;
    });
  });
  return success();
}

LogicalResult StructuredEmitter::emitNorm(Value input, Value scale, Value bias, int64_t axis,
                                          double epsilon, bool centered) {
  Type resultType = input.getType();
  Type type = accumulator(elementTypeOf(input));
  IndexList sizes = e.sizes(input.getType());
  ArrayRef<Value> inner = ArrayRef(sizes).drop_front(axis);
  Value length = e.product(inner), none = e.index(0);
  Value count = scalars.cast(length, b.getI64Type(), type);
  IndexList rows(ArrayRef(sizes).take_front(axis));
  rows.push_back(e.index(1)); // a row of one: the normalised part is handled whole
  e.forEachRow(rows, [&](ArrayRef<Value> row, Value low, Value high) {
    e.loop(low, high, [&](Value) {
      auto indicesOf = [&](Value i) {
        IndexList indices(row);
        llvm::append_range(indices, e.delinear(i, inner));
        return indices;
      };
      auto reduce = [&](llvm::function_ref<Value(Value)> term) {
        Value total = e.loop(none, length, {real(0.0, type)}, [&](Value i, ValueRange carried) {
          return SmallVector<Value>{sum(carried[0], term(widened(input, indicesOf(i))))};
        })[0];
        return Value(arith::DivFOp::create(b, total, count));
      };
      Value mean = centered ? reduce([](Value x) { return x; }) : real(0.0, type);
      Value variance = reduce([&](Value x) {
        Value distance = centered ? difference(x, mean) : x;
        return product(distance, distance);
      });
      Value root = scalars.math.sqrt(arith::AddFOp::create(b, variance, real(epsilon, type)));
      Value factor = arith::DivFOp::create(b, real(1.0, type), root);
      e.loop(none, length, [&](Value i) {
        IndexList indices = indicesOf(i);
        Value x = widened(input, indices);
        x = product(centered ? difference(x, mean) : x, factor);
        auto parameter = [&](Value tensor) {
          return scalars.cast(
              widened(tensor, elements.broadcastIndices(tensor.getType(), resultType, indices)),
              elementTypeOf(tensor).isF64() ? Type(b.getF64Type()) : Type(b.getF32Type()), type);
        };
        if (scale)
          x = product(x, parameter(scale));
        if (bias)
          x = arith::AddFOp::create(b, x, parameter(bias));
        storeResult(input, x, indices);
      });
      nest(inner.drop_back(), {}, [&](ArrayRef<Value> outer, ValueRange) {
        IndexList prefix(row);
        llvm::append_range(prefix, outer);
        finished(prefix, none, inner.back());
        return SmallVector<Value>{};
      });
    });
  });
  return success();
}

IndexList StructuredEmitter::batchIndices(Value operand, Value result, ArrayRef<Value> indices) {
  int64_t rank = typeOf(operand).getRank(), skipped = typeOf(result).getRank() - rank;
  SmallVector<AffineExpr> dims = dimsOf(operand.getType()), resultDims = dimsOf(result.getType());
  IndexList list;
  for (int64_t i = 0; i + 2 < rank; ++i) {
    Value position = indices[skipped + i];
    if (isConstant(dims[i], 1))
      position = e.index(0);
    else if (dims[i] != resultDims[skipped + i])
      position = e.select(e.equal(e.size(dims[i]), e.index(1)), e.index(0), position);
    list.push_back(position);
  }
  return list;
}

LogicalResult StructuredEmitter::emitOp(MatmulOp op) {
  Value lhs = op.getLhs(), rhs = op.getRhs(), result = op.getResult();
  Type element = elementTypeOf(result), type = accumulator(element);
  Value depth = e.sizes(lhs.getType()).back(), none = e.index(0);
  if (op.getQuantized())
    depth = e.index(typeOf(rhs).getDimSize(op.getTransposeRhs() ? 1 : 0));
  IndexList resultSizes = e.sizes(result.getType());
  e.forEachRow(resultSizes, [&](ArrayRef<Value> row, Value low, Value high) {
    IndexList left = batchIndices(lhs, result, row), right = batchIndices(rhs, result, row);
    left.append({row.back(), Value()});
    right.append({Value(), Value()});
    auto leftAt = [&](Value k) {
      left.back() = k;
      return op.getQuantized() ? elements.quantizedElement(lhs, left, *op.getQuantized())
                               : widened(lhs, left);
    };
    auto rightAt = [&](Value k, Value n) {
      right[right.size() - 2] = op.getTransposeRhs() ? n : k;
      right[right.size() - 1] = op.getTransposeRhs() ? k : n;
      return widened(rhs, right);
    };
    if (signlessType(element) == type && !op.getTransposeRhs()) {
      // Rows of the right side are contiguous: accumulate a piece of the result in memory.
      Value start = e.linear(ArrayRef(row), ArrayRef(resultSizes).drop_back());
      start = e.mul(start, resultSizes.back());
      e.loop(low, high,
             [&](Value n) { e.store(zero(type), pointers[0], e.add(start, n), element); });
      e.loop(none, depth, [&](Value k) {
        Value x = leftAt(k);
        e.loop(low, high, [&](Value n) {
          Value position = e.add(start, n);
          Value so = e.load(pointers[0], position, element);
          Value y = rightAt(k, n);
          Value next = isa<FloatType>(type) ? Value(math::FmaOp::create(b, x, y, so))
                                            : sum(so, product(x, y));
          e.store(next, pointers[0], position, element);
        });
      });
    } else {
      e.loop(low, high, [&](Value n) {
        Value total = e.loop(none, depth, {zero(type)}, [&](Value k, ValueRange carried) {
          return SmallVector<Value>{sum(carried[0], product(leftAt(k), rightAt(k, n)))};
        })[0];
        IndexList indices(row);
        indices.push_back(n);
        storeResult(result, total, indices);
      });
    }
    finished(row, low, high);
  });
  return success();
}

LogicalResult StructuredEmitter::emitOp(AttentionOp op) {
  Value query = op.getQuery(), key = op.getKey(), value = op.getValue(), result = op.getResult();
  Type element = elementTypeOf(result), type = accumulator(element);
  bool cached = isa<KvType>(key.getType()), headsLast = op.getHeadsLast();
  int64_t headDim = headsLast ? 2 : 1, queryDim = headsLast ? 1 : 2;
  IndexList querySizes = e.sizes(query.getType()), resultSizes = e.sizes(result.getType());
  Value width = querySizes[3], valueWidth = resultSizes[3], none = e.index(0);
  Value keyCount = cached ? e.size(op.getKeys()->getExprs()[0]) : e.sizes(key.getType())[2];
  Value kvHeads =
      cached ? e.index(cast<KvType>(key.getType()).getHeads()) : e.sizes(key.getType())[1];
  Value group = e.divide(querySizes[headDim], e.max(kvHeads, e.index(1)));

  // Accumulate in the result where its type allows, else in a row on the stack.
  std::optional<int64_t> staticWidth = constantOf(dimsOf(result.getType())[3]);
  if (element != type && !staticWidth)
    return op.emitError("[LLMC2004] attention on ") << element << " needs a constant head size";
  Value own = element == type ? Value() : e.slot(type, std::max<int64_t>(*staticWidth, 1));
  Value maximumSlot = e.slot(type), totalSlot = e.slot(type);

  auto cacheElement = [&](Value cache, Value head, Value token, Value d) {
    auto kv = cast<KvType>(cache.getType());
    Value tokens = e.index(LLMC_KV_BLOCK_TOKENS);
    Type pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value block = e.load(e.pointerOf(cast<BlockArgument>(cache)), e.divide(token, tokens), pointer);
    Value place = kvPlace(e, kv, head, e.rest(token, tokens), d);
    return scalars.widen(e.load(block, place, kv.getElementType()));
  };

  e.forEachRow(
      resultSizes,
      [&](ArrayRef<Value> row, Value low, Value high) {
        Value batch = row[0], head = row[headDim], q = row[queryDim];
        Value kvHead = e.divide(head, e.max(group, e.index(1)));
        Value base = element == type
                         ? e.mul(e.linear(row, ArrayRef(resultSizes).drop_back()), valueWidth)
                         : none;
        Value memory = element == type ? pointers[0] : own;
        auto at = [&](Value d) { return e.add(base, d); };
        e.loop(none, valueWidth, [&](Value d) { e.store(real(0.0, type), memory, at(d), type); });
        double minusInfinity = -std::numeric_limits<double>::infinity();
        e.store(real(minusInfinity, type), maximumSlot, none, type);
        e.store(real(0.0, type), totalSlot, none, type);

        Value first = none, end = keyCount;
        if (op.getCausalOffset()) {
          Value last = e.add(q, e.size(op.getCausalOffset()->getExprs()[0]));
          end = e.max(none, e.min(end, e.add(last, e.index(1))));
          if (op.getWindow())
            first = e.max(none, e.sub(e.add(last, e.index(1)), e.index(*op.getWindow())));
        }
        e.loop(first, end, [&](Value j) {
          IndexList queryIndices(row);
          queryIndices.push_back(Value());
          Value score = e.loop(none, width, {real(0.0, type)}, [&](Value d, ValueRange carried) {
            queryIndices.back() = d;
            Value x = widened(query, queryIndices);
            Value y =
                cached ? cacheElement(key, kvHead, j, d) : widened(key, {batch, kvHead, j, d});
            return SmallVector<Value>{sum(carried[0], product(x, y))};
          })[0];
          score = product(score, real(op.getScale().convertToDouble(), type));
          if (op.getSoftcap()) {
            Value cap = real(op.getSoftcap()->convertToDouble(), type);
            score = product(cap, scalars.math.tanh(arith::DivFOp::create(b, score, cap)));
          }
          if (Value mask = op.getMask()) {
            // Scores have the shape (batch, heads, queries, keys).
            SmallVector<AffineExpr> queryDims = dimsOf(query.getType());
            AffineExpr keys = cached ? op.getKeys()->getExprs()[0] : dimsOf(key.getType())[2];
            Type scores =
                tensorOf({queryDims[0], queryDims[headDim], queryDims[queryDim], keys}, element);
            IndexList where =
                elements.broadcastIndices(mask.getType(), scores, {batch, head, q, j});
            Value x = widened(mask, where);
            if (isa<FloatType>(elementTypeOf(mask)))
              score = arith::AddFOp::create(b, score, scalars.cast(x, x.getType(), type));
            else
              score = e.select(x, score, real(minusInfinity, type));
          }
          Value visible =
              arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, score, real(minusInfinity, type));
          e.when(visible, [&] {
            Value before = e.load(maximumSlot, none, type), total = e.load(totalSlot, none, type);
            Value now = arith::MaximumFOp::create(b, before, score);
            Value shrink = scalars.math.exp(difference(before, now));
            Value weight = scalars.math.exp(difference(score, now));
            e.store(now, maximumSlot, none, type);
            e.store(math::FmaOp::create(b, total, shrink, weight), totalSlot, none, type);
            e.loop(none, valueWidth, [&](Value d) {
              Value so = product(e.load(memory, at(d), type), shrink);
              Value x = cached ? cacheElement(value, kvHead, j, d)
                               : widened(value, {batch, kvHead, j, d});
              e.store(math::FmaOp::create(b, weight, x, so), memory, at(d), type);
            });
          });
        });
        Value total = e.load(totalSlot, none, type);
        Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, total, real(0.0, type));
        Value inverse =
            arith::DivFOp::create(b, real(1.0, type), e.select(empty, real(1.0, type), total));
        e.loop(none, valueWidth, [&](Value d) {
          IndexList indices(row);
          indices.push_back(d);
          storeResult(result, product(e.load(memory, at(d), type), inverse), indices);
        });
        finished(row, low, high);
      },
      /*wholeRows=*/true);
  return success();
}

void StructuredEmitter::emitScatter(Value input, Value result, Value updates,
                                    ScatterReduction reduction, TargetOf target) {
  Type element = elementTypeOf(result);
  IndexList sizes = e.sizes(result.getType());
  // Updates may hit one element many times, in order: one worker does everything.
  e.when(e.equal(e.worker, e.index(0)), [&] {
    nest(sizes, {}, [&](ArrayRef<Value> indices, ValueRange) {
      e.store(elements.element(input, indices), pointers[0], e.linear(indices, sizes), element);
      return SmallVector<Value>{};
    });
    nest(e.sizes(updates.getType()), {}, [&](ArrayRef<Value> indices, ValueRange) {
      Value inside;
      IndexList where = target(indices, sizes, inside);
      auto apply = [&] {
        Value position = e.linear(where, sizes), update = elements.element(updates, indices);
        if (reduction != ScatterReduction::None) {
          static constexpr ElementKind kKinds[] = {ElementKind::Add, ElementKind::Add,
                                                   ElementKind::Mul, ElementKind::Max,
                                                   ElementKind::Min};
          update =
              scalars.apply(kKinds[unsigned(reduction)],
                            {e.load(pointers[0], position, element), update}, element, element);
        }
        e.store(update, pointers[0], position, element);
      };
      // An empty index tuple names the whole input: nothing to be outside of.
      if (inside)
        e.when(inside, apply);
      else
        apply();
      return SmallVector<Value>{};
    });
  });
}

LogicalResult StructuredEmitter::emitOp(ScatterElementsOp op) {
  emitScatter(op.getInput(), op.getResult(), op.getUpdates(), op.getReduction(),
              [&](ArrayRef<Value> indices, ArrayRef<Value> sizes, Value &inside) {
                IndexList where(indices);
                Value chosen = elements.element(op.getIndices(), indices);
                where[op.getAxis()] = elements.checkedIndex(chosen, sizes[op.getAxis()], inside);
                return where;
              });
  return success();
}

LogicalResult StructuredEmitter::emitOp(ScatterNdOp op) {
  Value places = op.getIndices();
  int64_t indexRank = typeOf(places).getRank(), tuple = typeOf(places).getShape().back();
  if (ShapedType::isDynamic(tuple))
    return op.emitError("[LLMC2005] index tuples need a constant length, found ")
           << places.getType();
  emitScatter(op.getInput(), op.getResult(), op.getUpdates(), op.getReduction(),
              [&](ArrayRef<Value> indices, ArrayRef<Value> sizes, Value &inside) {
                IndexList where;
                for (int64_t i = 0; i < tuple; ++i) {
                  IndexList from(indices.take_front(indexRank - 1));
                  from.push_back(e.index(i));
                  Value chosen = elements.element(places, from);
                  where.push_back(elements.checkedIndex(chosen, sizes[i], inside));
                }
                llvm::append_range(where, indices.drop_front(indexRank - 1));
                return where;
              });
  return success();
}

LogicalResult StructuredEmitter::emitOp(KvAppendOp op) {
  auto kv = cast<KvType>(op.getCache().getType());
  Value input = op.getInput(), tokens = e.index(LLMC_KV_BLOCK_TOKENS);
  Value blocks = e.pointerOf(cast<BlockArgument>(op.getCache()));
  Value past = e.size(op.getPast().getExprs()[0]);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  IndexList sizes = e.sizes(input.getType());
  e.forEachRow(
      sizes,
      [&](ArrayRef<Value> row, Value low, Value high) {
        Value head = row[op.getHeadsLast() ? 2 : 1],
              token = e.add(past, row[op.getHeadsLast() ? 1 : 2]);
        Value block = e.load(blocks, e.divide(token, tokens), pointer);
        Value inside = e.rest(token, tokens);
        e.loop(low, high, [&](Value d) {
          IndexList indices(row);
          indices.push_back(d);
          Value x = elements.element(input, indices);
          e.store(scalars.cast(x, elementTypeOf(input), kv.getElementType()), block,
                  kvPlace(e, kv, head, inside, d), kv.getElementType());
        });
      },
      /*wholeRows=*/true);
  return success();
}

} // namespace

bool isStructured(Operation *op) {
  return isa<ConvOp, ReduceOp, SoftmaxOp, CumsumOp, TopKOp, LayerNormOp, RmsNormOp, MatmulOp,
             AttentionOp, ScatterElementsOp, ScatterNdOp, KvAppendOp>(op);
}

LogicalResult emitStructured(KernelEmitter &emitter, ElementEmitter &elements, Operation *op,
                             ArrayRef<Value> pointers, PieceCallback finished) {
  return StructuredEmitter(emitter, elements, pointers, finished).emit(op);
}

} // namespace llmc::cpu
