// SPDX-License-Identifier: Apache-2.0
//
// Order matters for register pressure only: the operand with fewer values at a
// time is kept, the other is loaded where it is used.
#include "codegen/cpu/RegisterTile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::cpu {

Value RegisterTile::splat(double value) {
  return arith::ConstantOp::create(
      b, SplatElementsAttr::get(vectorType(), b.getF32FloatAttr(float(value))));
}

Value RegisterTile::broadcast(Value scalar) {
  auto type = VectorType::get({int64_t(e.isa.lanes)}, scalar.getType());
  return vector::BroadcastOp::create(b, type, scalar);
}

Value RegisterTile::lanes() {
  SmallVector<int32_t> numbers;
  for (unsigned i = 0; i < e.isa.lanes; ++i)
    numbers.push_back(int32_t(i));
  return arith::ConstantOp::create(b, b.getI32VectorAttr(numbers));
}

Value RegisterTile::maskOf(int64_t count) {
  if (count >= int64_t(e.isa.lanes))
    return {};
  SmallVector<bool> bits;
  for (unsigned i = 0; i < e.isa.lanes; ++i)
    bits.push_back(int64_t(i) < count);
  auto type = VectorType::get({int64_t(e.isa.lanes)}, b.getI1Type());
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, bits));
}

Value RegisterTile::load(Value pointer, Value index, Value mask) {
  if (!mask)
    return e.loadVector(pointer, index, b.getF32Type(), e.isa.lanes);
  Value address = e.address(pointer, index, b.getF32Type());
  return LLVM::MaskedLoadOp::create(b, vectorType(), address, mask, zero(), b.getI32IntegerAttr(4));
}

void RegisterTile::store(Value vector, Value pointer, Value index, Value mask) {
  if (!mask)
    return e.storeVector(vector, pointer, index, b.getF32Type());
  Value address = e.address(pointer, index, b.getF32Type());
  LLVM::MaskedStoreOp::create(b, vector, address, mask, b.getI32IntegerAttr(4));
}

void RegisterTile::step(const TileRows &rows, Value k, ArrayRef<Value> vectors, Values &sums) {
  size_t width = vectors.size();
  auto factor = [&](size_t r) { return broadcast(e.load(rows.rows[r], k, b.getF32Type())); };
  auto add = [&](size_t r, size_t v, Value x) {
    Value &sum = sums[r * width + v];
    sum = math::FmaOp::create(b, x, vectors[v], sum);
  };
  if (width <= rows.rows.size()) {
    for (size_t r = 0; r < rows.rows.size(); ++r) {
      Value x = factor(r);
      for (size_t v = 0; v < width; ++v)
        add(r, v, x);
    }
    return;
  }
  Values factors;
  for (size_t r = 0; r < rows.rows.size(); ++r)
    factors.push_back(factor(r));
  for (size_t v = 0; v < width; ++v)
    for (size_t r = 0; r < rows.rows.size(); ++r)
      add(r, v, factors[r]);
}

Values RegisterTile::multiply(const TileRows &rows, const TileColumns &columns, Value low,
                              Value high, Values sums, bool oddEnd) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  bool pairs = columns.form == TileColumns::Bf16Pairs;
  unsigned lanes = e.isa.lanes;
  auto lineOf = [&](Value k) { return pairs ? e.divide(k, e.index(2)) : k; };
  auto prefetch = [&](Value at) {
    for (Value group : columns.groups)
      LLVM::Prefetch::create(
          b, e.address(e.address(group, at, f32), e.index(columns.prefetch), b.getI8Type()),
          /*rw=*/0, /*hint=*/3, /*cache=*/1);
  };
  auto words = [&](Value line) {
    Values all;
    for (Value group : columns.groups)
      for (unsigned v = 0; v < columns.perGroup; ++v) {
        Value at = e.add(e.mul(line, e.index(pairs ? 16 : columns.stride)), e.index(v * lanes));
        all.push_back(e.loadVector(group, at, pairs ? i32 : f32, lanes));
      }
    return all;
  };
  auto constant = [&](int32_t value) -> Value {
    auto type = VectorType::get({int64_t(lanes)}, i32);
    return arith::ConstantOp::create(b, SplatElementsAttr::get(type, b.getI32IntegerAttr(value)));
  };
  auto half = [&](ArrayRef<Value> words, bool second) {
    Values halves;
    for (Value word : words) {
      Value bits = second ? Value(arith::AndIOp::create(b, word, constant(int32_t(0xFFFF0000))))
                          : Value(arith::ShLIOp::create(b, word, constant(16)));
      halves.push_back(arith::BitcastOp::create(b, vectorType(), bits));
    }
    return halves;
  };
  auto loop =
      e.loop(lineOf(low), lineOf(high), ArrayRef<Value>(sums), [&](Value line, ValueRange carried) {
        Values inner(carried.begin(), carried.end());
        if (columns.prefetch)
          prefetch(e.mul(line, e.index(pairs ? 16 : columns.stride)));
        Values loaded = words(line);
        if (!pairs) {
          step(rows, line, loaded, inner);
        } else {
          Value k = e.mul(line, e.index(2));
          step(rows, k, half(loaded, false), inner);
          step(rows, e.add(k, e.index(1)), half(loaded, true), inner);
        }
        return inner;
      });
  sums.assign(loop.begin(), loop.end());
  if (pairs && oddEnd) {
    Value k = e.sub(high, e.index(1));
    step(rows, k, half(words(lineOf(k)), false), sums);
  }
  return sums;
}

void RegisterTile::forEachRows(Value low, Value high, ArrayRef<unsigned> heights,
                               llvm::function_ref<void(Value, unsigned)> body) {
  for (unsigned height : heights) {
    Value step = e.index(height);
    Value end = height == 1 ? high : e.add(low, e.mul(e.divide(e.sub(high, low), step), step));
    e.loop(low, end, [&](Value row) { body(row, height); }, height);
    low = end;
  }
}

} // namespace llmc::cpu
