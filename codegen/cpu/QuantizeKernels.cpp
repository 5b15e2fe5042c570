// SPDX-License-Identifier: Apache-2.0
//
// A group is quantized in registers and written with its scale and sums as one
// record. Behind a norm a worker takes whole rows, otherwise records.
#include "codegen/cpu/QuantizeKernels.h"

#include "codegen/common/ScalarOps.h"
#include "codegen/cpu/RegisterTile.h"
#include "compiler/ir/llm/LlmDialect.h"
#include "compiler/ir/llm/QuantizedRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {
namespace {

/// A norm over the last dimension.
struct Norm {
  Value input, scale, bias, result;
  double epsilon;
  bool centered;
};

struct Quantization {
  QuantizeOp op;
  std::optional<Norm> norm;
  unsigned output;                    ///< number of the kernel's output
  std::optional<unsigned> normOutput; ///< of the norm's result, if that is one
};

bool isF32Input(Value value, std::optional<int64_t> length) {
  auto type = cast<RankedTensorType>(value.getType());
  return isa<BlockArgument>(value) && type.getElementType().isF32() &&
         (!length || (type.getRank() == 1 && isConstant(dimsOf(type)[0], *length)));
}

std::optional<Norm> matchNorm(Operation *op, int64_t length) {
  Norm norm;
  int64_t axis;
  if (auto layer = dyn_cast_or_null<LayerNormOp>(op)) {
    norm = {layer.getInput(),
            layer.getScale(),
            layer.getBias(),
            layer.getResult(),
            layer.getEpsilon().convertToDouble(),
            true};
    axis = layer.getAxis();
  } else if (auto rms = dyn_cast_or_null<RmsNormOp>(op)) {
    norm = {rms.getInput(),
            rms.getScale(),
            Value(),
            rms.getResult(),
            rms.getEpsilon().convertToDouble(),
            false};
    axis = rms.getAxis();
  } else {
    return std::nullopt;
  }
  auto isParameter = [&](Value value) { return !value || isF32Input(value, length); };
  int64_t rank = cast<RankedTensorType>(norm.input.getType()).getRank();
  if (axis != rank - 1 || !isF32Input(norm.input, std::nullopt) || !isParameter(norm.scale) ||
      !isParameter(norm.bias))
    return std::nullopt;
  return norm;
}

std::optional<Quantization> matchQuantization(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto ops = llvm::to_vector(body.getOps<QuantizeOp>());
  if (ops.size() != 1)
    return std::nullopt;
  Quantization found{ops[0], std::nullopt, 0, std::nullopt};
  Value input = found.op.getInput();
  size_t opCount = 1;
  if (!isa<BlockArgument>(input)) {
    found.norm = matchNorm(input.getDefiningOp(), *constantOf(dimsOf(input.getType()).back()));
    if (!found.norm)
      return std::nullopt;
    ++opCount;
  }
  if (llvm::range_size(body.without_terminator()) != opCount)
    return std::nullopt;
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    if (value == found.op.getResult())
      found.output = i;
    else if (found.norm && value == found.norm->result)
      found.normOutput = i;
    else
      return std::nullopt;
  }
  return found;
}

class QuantizeEmitter {
public:
  QuantizeEmitter(KernelEmitter &e, Quantization found)
      : e(e), b(e.b), tile(e), math(e.b), found(found), record{int64_t(found.op.getGroup())} {
    Type type = found.op.getInput().getType();
    depth = *constantOf(dimsOf(type).back());
    rows = e.product(ArrayRef(e.sizes(type)).drop_back());
    result = e.output(found.output);
  }

  void emit();

private:
  /// Record number `number` of the row at `source` goes to `target`.
  void emitRecord(Value source, Value number, Value target);
  void storeRecord(ArrayRef<Value> vectors, Value target);
  void emitNormedRow(Value row);
  /// The sum of `term` over the row at `source`, in four chains.
  Value accumulate(Value source, llvm::function_ref<Value(Value)> term);
  /// Every vector of a row: whole ones in a loop, then the rest.
  void forEachVector(llvm::function_ref<void(Value at, Value mask)> body);
  Value integers(int32_t value) {
    auto type = VectorType::get({lanes()}, b.getI32Type());
    return arith::ConstantOp::create(b, SplatElementsAttr::get(type, b.getI32IntegerAttr(value)));
  }
  Value integer(int32_t value) { return arith::ConstantIntOp::create(b, value, 32); }
  Value real(float value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); }
  int64_t lanes() const { return e.isa.lanes; }

  KernelEmitter &e;
  ImplicitLocOpBuilder &b;
  RegisterTile tile;
  ScalarMath math;
  Quantization found;
  QuantizedRecord record;
  int64_t depth;
  Value rows, result;
};

void QuantizeEmitter::storeRecord(ArrayRef<Value> vectors, Value target) {
  Type i8 = b.getI8Type(), i16 = b.getI16Type(), i32 = b.getI32Type(), f32 = b.getF32Type();
  auto bitsType = VectorType::get({lanes()}, i32);
  Value most;
  for (Value x : vectors) {
    Value size =
        arith::AndIOp::create(b, arith::BitcastOp::create(b, bitsType, x), integers(0x7FFFFFFF));
    most = most ? Value(arith::MaxUIOp::create(b, most, size)) : size;
  }
  // As bits, infinity and NaN are above all numbers.
  Value mostBits = vector::ReductionOp::create(b, vector::CombiningKind::MAXUI, most);
  using P = arith::CmpIPredicate;
  Value strange = arith::CmpIOp::create(b, P::uge, mostBits, integer(0x7F800000));
  Value size = arith::BitcastOp::create(b, f32, mostBits);
  // The reciprocal of what is smaller would overflow.
  Value tiny = arith::CmpIOp::create(b, P::ult, mostBits, integer(0x0D800000)); // 2^-100
  Value none = arith::OrIOp::create(b, strange, tiny);
  Value inverse = e.select(none, real(0), arith::DivFOp::create(b, real(127), size));
  Value scale = e.select(tiny, real(0), arith::DivFOp::create(b, size, real(127)));
  scale = e.select(strange, real(std::numeric_limits<float>::quiet_NaN()), scale);
  Value factor = tile.broadcast(inverse);
  Value kept = tile.broadcast(e.select(none, integer(0), integer(-1)));
  Value sum;
  for (auto [i, x] : llvm::enumerate(vectors)) {
    // NaN must not reach the conversion, which has no value for it.
    Value clean = arith::AndIOp::create(b, arith::BitcastOp::create(b, bitsType, x), kept);
    Value steps =
        arith::MulFOp::create(b, arith::BitcastOp::create(b, tile.vectorType(), clean), factor);
    Value whole = arith::FPToSIOp::create(b, bitsType, math::RoundEvenOp::create(b, steps));
    sum = sum ? Value(arith::AddIOp::create(b, sum, whole)) : whole;
    Value bytes = arith::TruncIOp::create(b, VectorType::get({lanes()}, i8), whole);
    e.storeVector(bytes, target, e.index(int64_t(i) * lanes()), i8);
  }
  SmallVector<int32_t> low;
  for (int64_t i = 0; i < lanes(); ++i)
    low.push_back(i % 4 < 2 ? -1 : 0);
  Value lowMask = arith::ConstantOp::create(b, b.getI32VectorAttr(low));
  auto total = [&](Value x) -> Value {
    return vector::ReductionOp::create(b, vector::CombiningKind::ADD, x);
  };
  Value all = total(sum), lower = total(arith::AndIOp::create(b, sum, lowMask));
  auto start = [&](Value x) -> Value {
    return arith::TruncIOp::create(b, i16, arith::MulIOp::create(b, x, integer(-8)));
  };
  Value base = e.address(target, e.index(record.scaleOffset()), i8);
  e.store(scale, base, e.index(0), f32);
  e.store(start(lower), base, e.index(2), i16);
  e.store(start(arith::SubIOp::create(b, all, lower)), base, e.index(3), i16);
  e.store(all, base, e.index(2), i32);
  e.store(integer(0), base, e.index(3), i32);
}

void QuantizeEmitter::emitRecord(Value source, Value number, Value target) {
  Value first = e.mul(number, e.index(record.group));
  auto vectorsUpTo = [&](int64_t count) {
    Values vectors;
    for (int64_t i = 0; i < record.group; i += lanes())
      vectors.push_back(i >= count
                            ? tile.zero()
                            : tile.load(source, e.add(first, e.index(i)), tile.maskOf(count - i)));
    return vectors;
  };
  int64_t whole = depth / record.group, rest = depth % record.group;
  e.when(e.less(number, e.index(whole)), [&] { storeRecord(vectorsUpTo(record.group), target); });
  if (rest)
    e.when(e.equal(number, e.index(whole)), [&] { storeRecord(vectorsUpTo(rest), target); });
  int64_t used = whole + (rest ? 1 : 0);
  if (used < record.recordsOf(depth))
    e.when(e.less(e.index(used - 1), number), [&] {
      for (int64_t i = 0; i < record.bytes() / 4; i += 4)
        e.storeVector(arith::ConstantOp::create(b, b.getI32VectorAttr({0, 0, 0, 0})), target,
                      e.index(i), b.getI32Type());
    });
}

void QuantizeEmitter::forEachVector(llvm::function_ref<void(Value, Value)> body) {
  int64_t whole = depth / lanes() * lanes();
  if (whole)
    e.loop(e.index(0), e.index(whole), [&](Value at) { body(at, {}); }, lanes());
  if (whole < depth)
    body(e.index(whole), tile.maskOf(depth - whole));
}

Value QuantizeEmitter::accumulate(Value source, llvm::function_ref<Value(Value)> term) {
  constexpr int64_t kChains = 4;
  Values sums(kChains, tile.zero());
  int64_t step = kChains * lanes(), whole = depth / step * step;
  auto add = [&](Value &sum, Value at, Value mask) {
    Value x = term(tile.load(source, at, mask));
    if (mask)
      x = arith::SelectOp::create(b, mask, x, tile.zero());
    sum = arith::AddFOp::create(b, sum, x, arith::FastMathFlags::contract);
  };
  if (whole)
    sums = e.loop(
        e.index(0), e.index(whole), sums,
        [&](Value at, ValueRange carried) {
          Values next(carried.begin(), carried.end());
          for (int64_t i = 0; i < kChains; ++i)
            add(next[i], e.add(at, e.index(i * lanes())), {});
          return next;
        },
        step);
  for (int64_t at = whole, i = 0; at < depth; at += lanes(), ++i)
    add(sums[i], e.index(at), tile.maskOf(depth - at));
  Value pairs = arith::AddFOp::create(b, arith::AddFOp::create(b, sums[0], sums[1]),
                                      arith::AddFOp::create(b, sums[2], sums[3]));
  return vector::ReductionOp::create(b, vector::CombiningKind::ADD, pairs,
                                     arith::FastMathFlags::reassoc);
}

void QuantizeEmitter::emitNormedRow(Value row) {
  Norm &norm = *found.norm;
  Type f32 = b.getF32Type();
  Value start = e.mul(row, e.index(depth));
  Value source = e.address(e.pointerOf(cast<BlockArgument>(norm.input)), start, f32);
  Value target = found.normOutput ? e.address(e.output(*found.normOutput), start, f32) : e.scratch;
  Value count = real(float(depth)), mean = tile.zero();
  if (norm.centered) {
    Value sum = accumulate(source, [](Value x) { return x; });
    mean = tile.broadcast(arith::DivFOp::create(b, sum, count));
  }
  auto centered = [&](Value x) -> Value {
    return norm.centered ? Value(arith::SubFOp::create(b, x, mean)) : x;
  };
  Value squares = accumulate(source, [&](Value x) -> Value {
    Value distance = centered(x);
    return arith::MulFOp::create(b, distance, distance, arith::FastMathFlags::contract);
  });
  Value variance = arith::DivFOp::create(b, squares, count);
  Value root = math.sqrt(arith::AddFOp::create(b, variance, real(float(norm.epsilon))));
  Value factor = tile.broadcast(arith::DivFOp::create(b, real(1), root));
  auto parameter = [&](Value value, Value at, Value mask) {
    return tile.load(e.pointerOf(cast<BlockArgument>(value)), at, mask);
  };
  forEachVector([&](Value at, Value mask) {
    Value x = centered(tile.load(source, at, mask));
    x = arith::MulFOp::create(b, x, factor);
    if (norm.scale)
      x = arith::MulFOp::create(b, x, parameter(norm.scale, at, mask));
    if (norm.bias)
      x = arith::AddFOp::create(b, x, parameter(norm.bias, at, mask));
    tile.store(x, target, at, mask);
  });
  Value records = e.address(result, e.mul(row, e.index(record.rowBytes(depth))), b.getI8Type());
  e.loop(e.index(0), e.index(record.recordsOf(depth)), [&](Value number) {
    emitRecord(target, number,
               e.address(records, e.mul(number, e.index(record.bytes())), b.getI8Type()));
  });
}

void QuantizeEmitter::emit() {
  if (found.norm) {
    if (!found.normOutput)
      e.scratchBytes = uint64_t(depth) * 4;
    e.partition(rows, [&](Value low, Value high) {
      e.loop(low, high, [&](Value row) { emitNormedRow(row); });
    });
    return;
  }
  Value source = e.pointerOf(cast<BlockArgument>(found.op.getInput()));
  Value perRow = e.index(record.recordsOf(depth));
  e.partition(e.mul(rows, perRow), [&](Value low, Value high) {
    e.loop(low, high, [&](Value task) {
      Value row = e.divide(task, perRow), number = e.rest(task, perRow);
      Value from = e.address(source, e.mul(row, e.index(depth)), b.getF32Type());
      emitRecord(from, number,
                 e.address(result, e.mul(task, e.index(record.bytes())), b.getI8Type()));
    });
  });
}

} // namespace

bool isQuantize(rt::KernelOp kernel) { return matchQuantization(kernel).has_value(); }

void emitQuantize(KernelEmitter &emitter) {
  Quantization found = *matchQuantization(emitter.kernel);
  QuantizeEmitter(emitter, found).emit();
}

} // namespace llmc::cpu
