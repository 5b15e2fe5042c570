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
  Value at = rows.step == 1 ? k : e.mul(k, e.index(rows.step));
  auto factor = [&](size_t r) { return broadcast(e.load(rows.rows[r], at, b.getF32Type())); };
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
          b,
          e.address(e.address(group, at, columns.element ? columns.element : f32),
                    e.index(columns.prefetch), b.getI8Type()),
          /*rw=*/0, /*hint=*/3, /*cache=*/1);
  };
  size_t width = columns.groups.size() * columns.perGroup;
  auto wordAt = [&](Value line, size_t v) {
    Value group = columns.groups[v / columns.perGroup];
    Value at = e.add(e.mul(line, e.index(pairs ? 16 : columns.stride)),
                     e.index(int64_t(v % columns.perGroup) * lanes));
    return pairs ? e.loadVector(group, at, i32, lanes)
                 : loadAs(columns.element ? columns.element : f32, group, at, lanes);
  };
  auto words = [&](Value line) {
    Values all;
    for (size_t v = 0; v < width; ++v)
      all.push_back(wordAt(line, v));
    return all;
  };
  auto half = [&](ArrayRef<Value> words, bool odd) {
    Values halves;
    for (Value word : words)
      halves.push_back(widenPairs(word, odd));
    return halves;
  };
  // Word by word for few rows, whose factors fit beside the sums: each word is loaded where it is
  // used, so that few live at a time.
  bool wordByWord = rows.rows.size() <= 2 && rows.rows.size() < width;
  auto byWords = [&](Value line, Values &inner) {
    Value k = pairs ? e.mul(line, e.index(2)) : line;
    Values first, second; // of a pair of k
    for (Value row : rows.rows) {
      auto factor = [&](Value at) {
        return broadcast(e.load(row, rows.step == 1 ? at : e.mul(at, e.index(rows.step)), f32));
      };
      first.push_back(factor(k));
      if (pairs)
        second.push_back(factor(e.add(k, e.index(1))));
    }
    for (size_t v = 0; v < width; ++v) {
      Value word = wordAt(line, v);
      for (size_t r = 0; r < rows.rows.size(); ++r) {
        Value &sum = inner[r * width + v];
        sum = math::FmaOp::create(b, first[r], pairs ? widenPairs(word, false) : word, sum);
        if (pairs)
          sum = math::FmaOp::create(b, second[r], widenPairs(word, true), sum);
      }
    }
  };
  auto loop =
      e.loop(lineOf(low), lineOf(high), ArrayRef<Value>(sums), [&](Value line, ValueRange carried) {
        Values inner(carried.begin(), carried.end());
        if (columns.prefetch)
          prefetch(e.mul(line, e.index(pairs ? 16 : columns.stride)));
        if (wordByWord) {
          byWords(line, inner);
          return inner;
        }
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

Value RegisterTile::loadAs(Type element, Value pointer, Value index, unsigned count) {
  auto f32s = VectorType::get({int64_t(count)}, b.getF32Type());
  if (element.isF32())
    return e.loadVector(pointer, index, element, count);
  if (element.isF16())
    return arith::ExtFOp::create(b, f32s, e.loadVector(pointer, index, element, count));
  auto words = VectorType::get({int64_t(count)}, b.getI32Type());
  Value bits =
      arith::ExtUIOp::create(b, words, e.loadVector(pointer, index, b.getI16Type(), count));
  Value shift =
      arith::ConstantOp::create(b, SplatElementsAttr::get(words, b.getI32IntegerAttr(16)));
  return arith::BitcastOp::create(b, f32s, Value(arith::ShLIOp::create(b, bits, shift)));
}

Value RegisterTile::widenPairs(Value words, bool odd) {
  auto type = cast<VectorType>(words.getType());
  auto constant = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, SplatElementsAttr::get(type, b.getI32IntegerAttr(value)));
  };
  Value bits = odd ? Value(arith::AndIOp::create(b, words, constant(int32_t(0xFFFF0000))))
                   : Value(arith::ShLIOp::create(b, words, constant(16)));
  return arith::BitcastOp::create(b, vectorType(), bits);
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
