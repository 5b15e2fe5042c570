// SPDX-License-Identifier: Apache-2.0
//
// A task is one key head and up to kTileRows rows, a row being one query of one
// head of the group. For each chunk of keys (a block of the cache): scores,
// running softmax, weighted sum of values. Where keys lie as columns, scores
// are a register-tiled product; else they are dot products for few rows, and
// for many the keys are transposed once. Tasks depend on shapes only.
#include "codegen/cpu/AttentionKernels.h"

#include "codegen/common/ScalarOps.h"
#include "codegen/cpu/GenericKernels.h"
#include "codegen/cpu/RegisterTile.h"
#include "runtime/abi/BundleFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {
namespace {

constexpr int64_t kChunk = LLMC_KV_BLOCK_TOKENS;
constexpr int64_t kTileRows = 48;
/// From so many rows on, transposing the keys pays.
constexpr int64_t kTransposeRows = 6;
constexpr unsigned kHeights[] = {6, 4, 2, 1};

std::optional<int64_t> sizeOf(Value tensor, unsigned dim) {
  return constantOf(dimsOf(tensor.getType())[dim]);
}

/// Keys and values in a cache may be narrower.
bool isReadableMemory(Value value) {
  if (!isa<BlockArgument>(value))
    return false;
  if (auto kv = dyn_cast<KvType>(value.getType())) {
    Type element = kv.getElementType();
    return element.isF32() || element.isF16() || element.isBF16();
  }
  return cast<RankedTensorType>(value.getType()).getElementType().isF32();
}

AttentionOp matchAttention(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  if (body.getTerminator()->getNumOperands() != 1)
    return {};
  auto op = body.getTerminator()->getOperand(0).getDefiningOp<AttentionOp>();
  if (!op || !isReadableMemory(op.getQuery()) || !isReadableMemory(op.getKey()) ||
      !isReadableMemory(op.getValue()) ||
      !cast<RankedTensorType>(op.getType()).getElementType().isF32())
    return {};
  auto keyCache = dyn_cast<KvType>(op.getKey().getType()),
       valueCache = dyn_cast<KvType>(op.getValue().getType());
  if (bool(keyCache) != bool(valueCache) || (valueCache && valueCache.getColumns()))
    return {};
  if (llvm::any_of(
          body, [](Operation &other) { return isStructured(&other) && !isa<AttentionOp>(other); }))
    return {};
  unsigned headDim = op.getHeadsLast() ? 2 : 1;
  std::optional<int64_t> width = sizeOf(op.getQuery(), 3), valueWidth = sizeOf(op.getResult(), 3),
                         heads = sizeOf(op.getQuery(), headDim);
  std::optional<int64_t> kvHeads = keyCache ? keyCache.getHeads() : sizeOf(op.getKey(), 1);
  if (!width || !valueWidth || !heads || !kvHeads || *heads <= 0 || *kvHeads <= 0 ||
      *heads % *kvHeads)
    return {};
  auto fits = [](int64_t size) { return size > 0 && size <= 512 && size % 16 == 0; };
  return fits(*width) && fits(*valueWidth) ? op : AttentionOp();
}

class AttentionEmitter {
public:
  AttentionEmitter(KernelEmitter &e, AttentionOp op)
      : e(e), b(e.b), tile(e), scalars(e.b), elements(e), op(op), f32(e.b.getF32Type()),
        keyElement(f32), valueElement(f32), lanes(e.isa.lanes), width(*sizeOf(op.getQuery(), 3)),
        valueWidth(*sizeOf(op.getResult(), 3)) {
    if (auto cache = dyn_cast<KvType>(op.getKey().getType())) {
      cached = true;
      keyColumns = cache.getColumns();
      keyElement = cache.getElementType();
      valueElement = cast<KvType>(op.getValue().getType()).getElementType();
    }
    headDim = op.getHeadsLast() ? 2 : 1;
    queryDim = op.getHeadsLast() ? 1 : 2;
    int64_t heads = *sizeOf(op.getQuery(), headDim);
    kvHeads = cached ? cast<KvType>(op.getKey().getType()).getHeads() : *sizeOf(op.getKey(), 1);
    group = heads / kvHeads;
  }

  LogicalResult emit();

private:
  /// A part of this worker's scratch memory.
  Value region(int64_t floats) {
    Value start = e.address(e.scratch, e.index(int64_t(e.scratchBytes / 4)), f32);
    e.scratchBytes += uint64_t(llvm::alignTo(floats, 16)) * 4;
    return start;
  }
  Value real(double value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value))); }
  Value lowest() { return real(-std::numeric_limits<double>::infinity()); }
  Value at(Value row, int64_t width) { return e.mul(row, e.index(width)); }
  Value reduce(vector::CombiningKind kind, Value vector) {
    return vector::ReductionOp::create(b, kind, vector, arith::FastMathFlags::reassoc);
  }
  Value visibleEnd(Value query); ///< keys before this one are visible to `query`
  /// Keys or values of a chunk.
  Value dataOf(Value tensor, Value batch, Value head, Value chunk, int64_t width, Type element);
  /// Eight vectors to the vector of their sums.
  Value sumEach(Values vectors);

  void emitTask(Value batch, Value head, Value rowLow, Value rowHigh);
  void loadQueries(Value batch, Value head, Value rowLow, Value count);
  void scoresByDot(Value keys, Value rows, Value count);
  /// Keys are columns: element d of all keys of the chunk in a row.
  void scoresByProduct(Value keys, Type element, Value rows, Value count);
  void transposeKeys(Value keys, Value count);
  void adjustScores(Value batch, Value head, Value rowLow, Value rows, Value start, Value count);
  void softmaxRow(Value row, Value query, Value start, Value count);
  void addValues(Value values, Value rows, Value count);
  void storeResult(Value batch, Value head, Value rowLow, Value count);

  KernelEmitter &e;
  ImplicitLocOpBuilder &b;
  RegisterTile tile;
  ScalarOps scalars;
  ElementEmitter elements;
  AttentionOp op;
  Type f32, keyElement, valueElement;
  int64_t lanes, width, valueWidth, kvHeads, group;
  bool cached = false, keyColumns = false;
  unsigned headDim, queryDim;
  KernelEmitter::IndexList querySizes, resultSizes;
  Value keyCount;
  Value queries, transposed, scores, sums, maxima, totals; // scratch
};

Value AttentionEmitter::visibleEnd(Value query) {
  if (!op.getCausalOffset())
    return keyCount;
  Value last = e.add(query, e.size(op.getCausalOffset()->getExprs()[0]));
  return e.max(e.index(0), e.min(keyCount, e.add(last, e.index(1))));
}

Value AttentionEmitter::dataOf(Value tensor, Value batch, Value head, Value chunk, int64_t width,
                               Type element) {
  Value memory = e.pointerOf(cast<BlockArgument>(tensor));
  if (cached) {
    Type pointer = LLVM::LLVMPointerType::get(b.getContext());
    return e.address(e.load(memory, chunk, pointer), e.mul(head, e.index(kChunk * width)), element);
  }
  Value row = e.mul(e.add(e.mul(batch, e.index(kvHeads)), head), keyCount);
  return e.address(memory, at(e.add(row, e.mul(chunk, e.index(kChunk))), width), f32);
}

void AttentionEmitter::loadQueries(Value batch, Value head, Value rowLow, Value count) {
  Value memory = e.pointerOf(cast<BlockArgument>(op.getQuery()));
  Value scale = tile.splat(op.getScale().convertToDouble());
  e.loop(e.index(0), count, [&](Value r) {
    Value row = e.add(rowLow, r);
    SmallVector<Value> indices(3);
    indices[0] = batch;
    indices[queryDim] = e.divide(row, e.index(group));
    indices[headDim] = e.add(e.mul(head, e.index(group)), e.rest(row, e.index(group)));
    Value from = at(e.linear(indices, ArrayRef(querySizes).drop_back()), width);
    for (int64_t d = 0; d < width; d += lanes)
      tile.store(arith::MulFOp::create(b, tile.load(memory, e.add(from, e.index(d))), scale),
                 queries, e.add(at(r, width), e.index(d)));
    for (int64_t d = 0; d < valueWidth; d += lanes)
      tile.store(tile.zero(), sums, e.add(at(r, valueWidth), e.index(d)));
    e.store(lowest(), maxima, r, f32);
    e.store(real(0.0), totals, r, f32);
  });
}

Value AttentionEmitter::sumEach(Values x) {
  assert(x.size() == 8 && "a shuffle tree of three levels");
  auto add = [&](Value a, Value c, ArrayRef<int64_t> even, ArrayRef<int64_t> odd) -> Value {
    return arith::AddFOp::create(b, vector::ShuffleOp::create(b, a, c, even),
                                 vector::ShuffleOp::create(b, a, c, odd));
  };
  if (lanes == 16)
    for (Value &v : x)
      v = add(v, v, {0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15});
  // Pairs of neighbours, within 128 bits until the last step.
  Values y, z;
  for (int i = 0; i < 8; i += 2)
    y.push_back(add(x[i], x[i + 1], {0, 2, 8, 10, 4, 6, 12, 14}, {1, 3, 9, 11, 5, 7, 13, 15}));
  for (int i = 0; i < 4; i += 2)
    z.push_back(add(y[i], y[i + 1], {0, 2, 8, 10, 4, 6, 12, 14}, {1, 3, 9, 11, 5, 7, 13, 15}));
  return add(z[0], z[1], {0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15});
}

void AttentionEmitter::scoresByDot(Value keys, Value rows, Value count) {
  auto dots = [&](Value row, Value key, unsigned height, unsigned keyHeight) {
    Values from;
    for (unsigned j = 0; j < keyHeight; ++j) // a key past the last is computed but not used
      from.push_back(at(e.min(e.add(key, e.index(j)), e.sub(count, e.index(1))), width));
    Values products(height * keyHeight, tile.zero());
    auto loop = e.loop(
        e.index(0), e.index(width), ArrayRef<Value>(products),
        [&](Value d, ValueRange carried) {
          SmallVector<Value> next(carried);
          Values factors;
          for (unsigned r = 0; r < height; ++r)
            factors.push_back(tile.load(queries, e.add(at(e.add(row, e.index(r)), width), d)));
          for (unsigned j = 0; j < keyHeight; ++j) {
            Value x = tile.loadAs(keyElement, keys, e.add(from[j], d), lanes);
            for (unsigned r = 0; r < height; ++r) {
              Value &sum = next[r * keyHeight + j];
              sum = math::FmaOp::create(b, factors[r], x, sum);
            }
          }
          return next;
        },
        lanes);
    Value sums = sumEach(loop); // in the order of rows, then keys
    for (unsigned r = 0; r < height; ++r) {
      SmallVector<int64_t> part;
      for (unsigned j = 0; j < keyHeight; ++j)
        part.push_back(r * keyHeight + j);
      e.storeVector(vector::ShuffleOp::create(b, sums, sums, part), scores,
                    e.add(at(e.add(row, e.index(r)), kChunk), key), f32);
    }
  };
  static constexpr unsigned kDotHeights[] = {2, 1};
  e.loop(
      e.index(0), count,
      [&](Value key) {
        tile.forEachRows(e.index(0), rows, kDotHeights, [&](Value row, unsigned height) {
          if (height == 1)
            return dots(row, key, 1, 8);
          dots(row, key, height, 4);
          dots(row, e.add(key, e.index(4)), height, 4);
        });
      },
      8);
}

void AttentionEmitter::transposeKeys(Value keys, Value count) {
  using Indices = std::array<int64_t, 8>;
  static constexpr Indices kStages[3][2] = {
      {{0, 8, 1, 9, 4, 12, 5, 13}, {2, 10, 3, 11, 6, 14, 7, 15}},
      {{0, 1, 8, 9, 4, 5, 12, 13}, {2, 3, 10, 11, 6, 7, 14, 15}},
      {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}};
  e.loop(
      e.index(0), count,
      [&](Value key) {
        Values from;
        for (int64_t j = 0; j < 8; ++j)
          from.push_back(at(e.min(e.add(key, e.index(j)), e.sub(count, e.index(1))), width));
        e.loop(
            e.index(0), e.index(width),
            [&](Value d) {
              Values x;
              for (Value row : from)
                x.push_back(tile.loadAs(keyElement, keys, e.add(row, d), 8));
              // Rows at distance 1, 2, 4 are mixed; each stage leaves (low, high) in their places.
              for (int stage = 0; stage < 3; ++stage) {
                int64_t distance = int64_t(1) << stage;
                Values y(8);
                for (int64_t i = 0; i < 8; ++i) {
                  if (i & distance)
                    continue;
                  for (int64_t high : {0, 1})
                    y[i + high * distance] =
                        vector::ShuffleOp::create(b, x[i], x[i + distance], kStages[stage][high]);
                }
                x = y;
              }
              // Where element d + i of the keys ended up.
              static constexpr int64_t kPlaces[8] = {0, 2, 1, 3, 4, 6, 5, 7};
              for (int64_t i = 0; i < 8; ++i)
                e.storeVector(x[kPlaces[i]], transposed,
                              e.add(at(e.add(d, e.index(i)), kChunk), key), f32);
            },
            8);
      },
      8);
}

void AttentionEmitter::scoresByProduct(Value keys, Type element, Value rows, Value count) {
  tile.forEachRows(e.index(0), rows, kHeights, [&](Value row, unsigned height) {
    TileRows from;
    for (unsigned r = 0; r < height; ++r)
      from.rows.push_back(e.address(queries, at(e.add(row, e.index(r)), width), f32));
    // About eight sums at a time; keys past the last are computed but not used.
    int64_t wide = height == 1 ? 64 : height == 2 ? 32 : 16;
    e.loop(
        e.index(0), count,
        [&](Value key) {
          TileColumns columns;
          columns.groups = {e.address(keys, key, element)};
          columns.perGroup = unsigned(wide / lanes);
          columns.stride = kChunk;
          columns.element = element;
          Values products(height * columns.perGroup, tile.zero());
          products = tile.multiply(from, columns, e.index(0), e.index(width), products);
          for (unsigned r = 0; r < height; ++r)
            for (unsigned v = 0; v < columns.perGroup; ++v)
              tile.store(products[r * columns.perGroup + v], scores,
                         e.add(at(e.add(row, e.index(r)), kChunk), e.add(key, e.index(v * lanes))));
        },
        wide);
  });
}

/// The soft cap, then the mask, in place.
void AttentionEmitter::adjustScores(Value batch, Value head, Value rowLow, Value rows, Value start,
                                    Value count) {
  Value mask = op.getMask();
  if (!mask && !op.getSoftcap())
    return;
  // Scores have the shape (batch, heads, queries, keys).
  SmallVector<AffineExpr> dims = dimsOf(op.getQuery().getType());
  AffineExpr keys = cached ? op.getKeys()->getExprs()[0] : dimsOf(op.getKey().getType())[2];
  Type shape = tensorOf({dims[0], dims[headDim], dims[queryDim], keys}, f32);
  Type element = mask ? cast<RankedTensorType>(mask.getType()).getElementType() : Type();
  // A mask with a row of keys in memory is read as vectors.
  bool inRows = !mask || (isa<BlockArgument>(mask) && dimsOf(mask.getType()).back() == keys &&
                          (element.isF32() || element.isInteger(1)));
  auto capped = [&](Value score) {
    if (!op.getSoftcap())
      return score;
    Value cap = scalars.math.constant(op.getSoftcap()->convertToDouble(), score);
    Value ratio = arith::DivFOp::create(b, score, cap);
    return Value(arith::MulFOp::create(b, cap, scalars.math.tanh(ratio)));
  };
  e.loop(e.index(0), rows, [&](Value r) {
    Value row = e.add(rowLow, r), query = e.divide(row, e.index(group));
    Value ownHead = e.add(e.mul(head, e.index(group)), e.rest(row, e.index(group)));
    Value whole = e.index(0);
    if (inRows) {
      whole = e.mul(e.divide(count, e.index(lanes)), e.index(lanes));
      Value from;
      if (mask)
        from = e.linear(
            elements.broadcastIndices(mask.getType(), shape, {batch, ownHead, query, start}),
            e.sizes(mask.getType()));
      e.loop(
          e.index(0), whole,
          [&](Value j) {
            Value place = e.add(at(r, kChunk), j), score = capped(tile.load(scores, place));
            if (mask && element.isF32()) {
              score = arith::AddFOp::create(
                  b, score, tile.load(e.pointerOf(cast<BlockArgument>(mask)), e.add(from, j)));
            } else if (mask) {
              Type bytes = VectorType::get({lanes}, b.getI8Type());
              Value x = e.loadVector(e.pointerOf(cast<BlockArgument>(mask)), e.add(from, j),
                                     b.getI8Type(), unsigned(lanes));
              Value hidden =
                  arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x,
                                        arith::ConstantOp::create(b, b.getZeroAttr(bytes)));
              score = e.select(hidden, tile.splat(-std::numeric_limits<double>::infinity()), score);
            }
            tile.store(score, scores, place);
          },
          lanes);
    }
    e.loop(whole, count, [&](Value j) {
      Value place = e.add(at(r, kChunk), j), score = capped(e.load(scores, place, f32));
      if (mask) {
        Value x = elements.element(
            mask, elements.broadcastIndices(mask.getType(), shape,
                                            {batch, ownHead, query, e.add(start, j)}));
        score = isa<FloatType>(element)
                    ? Value(arith::AddFOp::create(b, score, scalars.cast(x, element, f32)))
                    : e.select(x, score, lowest());
      }
      e.store(score, scores, place, f32);
    });
  });
}

void AttentionEmitter::softmaxRow(Value row, Value query, Value start, Value count) {
  Type i32 = b.getI32Type();
  auto bound = [&](Value keys) { // within the chunk, as a vector
    Value inside = e.max(e.index(0), e.min(keys, count));
    return tile.broadcast(arith::TruncIOp::create(b, i32, inside));
  };
  Value end = bound(e.sub(visibleEnd(query), start)), first;
  if (op.getWindow() && op.getCausalOffset()) {
    Value last = e.add(query, e.size(op.getCausalOffset()->getExprs()[0]));
    first = bound(e.sub(e.sub(e.add(last, e.index(1)), e.index(*op.getWindow())), start));
  }
  Value hidden = tile.splat(-std::numeric_limits<double>::infinity());
  int64_t vectors = kChunk / lanes;
  Value base = at(row, kChunk), top;
  Values x;
  for (int64_t v = 0; v < vectors; ++v) {
    auto type = VectorType::get({lanes}, i32);
    Value offset = arith::ConstantOp::create(
        b, SplatElementsAttr::get(type, b.getI32IntegerAttr(int32_t(v * lanes))));
    Value key = arith::AddIOp::create(b, tile.lanes(), offset);
    Value visible = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, key, end);
    if (first)
      visible = e.both(visible, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, key, first));
    Value score = tile.load(scores, e.add(base, e.index(v * lanes)));
    x.push_back(e.select(visible, score, hidden));
    top = top ? Value(arith::MaxNumFOp::create(b, top, x.back())) : x.back();
  }
  Value before = e.load(maxima, row, f32);
  Value now = arith::MaxNumFOp::create(b, before, reduce(vector::CombiningKind::MAXNUMF, top));
  // Where nothing is visible yet, subtracting -inf would give NaN.
  Value nothing = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, now, lowest());
  Value shift = e.select(nothing, real(0.0), now);
  Value shiftVector = tile.broadcast(shift), total;
  for (int64_t v = 0; v < vectors; ++v) {
    Value p = scalars.math.exp(arith::SubFOp::create(b, x[v], shiftVector));
    tile.store(p, scores, e.add(base, e.index(v * lanes)));
    total = total ? Value(arith::AddFOp::create(b, total, p)) : p;
  }
  Value shrink = scalars.math.exp(arith::SubFOp::create(b, before, shift));
  e.store(now, maxima, row, f32);
  e.store(math::FmaOp::create(b, e.load(totals, row, f32), shrink,
                              reduce(vector::CombiningKind::ADD, total)),
          totals, row, f32);
  Value unchanged = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, shrink, real(1.0));
  e.when(e.negate(unchanged), [&] {
    Value factor = tile.broadcast(shrink);
    for (int64_t d = 0; d < valueWidth; d += lanes) {
      Value place = e.add(at(row, valueWidth), e.index(d));
      tile.store(arith::MulFOp::create(b, tile.load(sums, place), factor), sums, place);
    }
  });
}

void AttentionEmitter::addValues(Value values, Value rows, Value count) {
  tile.forEachRows(e.index(0), rows, kHeights, [&](Value row, unsigned height) {
    // About eight sums at a time, so that the adders are busy.
    int64_t wide = height == 1 ? 64 : height == 2 ? 32 : 16;
    while (valueWidth % wide)
      wide /= 2;
    e.loop(
        e.index(0), e.index(valueWidth),
        [&](Value d) {
          TileColumns columns;
          columns.groups = {e.address(values, d, valueElement)};
          columns.perGroup = unsigned(wide / lanes);
          columns.stride = valueWidth;
          columns.element = valueElement;
          TileRows from;
          Values products;
          auto place = [&](unsigned r, unsigned v) {
            return e.add(at(e.add(row, e.index(r)), valueWidth), e.add(d, e.index(v * lanes)));
          };
          for (unsigned r = 0; r < height; ++r) {
            from.rows.push_back(e.address(scores, at(e.add(row, e.index(r)), kChunk), f32));
            for (unsigned v = 0; v < columns.perGroup; ++v)
              products.push_back(tile.load(sums, place(r, v)));
          }
          products = tile.multiply(from, columns, e.index(0), count, products);
          for (unsigned r = 0; r < height; ++r)
            for (unsigned v = 0; v < columns.perGroup; ++v)
              tile.store(products[r * columns.perGroup + v], sums, place(r, v));
        },
        wide);
  });
}

void AttentionEmitter::storeResult(Value batch, Value head, Value rowLow, Value count) {
  e.loop(e.index(0), count, [&](Value r) {
    Value row = e.add(rowLow, r);
    SmallVector<Value> indices(3);
    indices[0] = batch;
    indices[queryDim] = e.divide(row, e.index(group));
    indices[headDim] = e.add(e.mul(head, e.index(group)), e.rest(row, e.index(group)));
    Value to = at(e.linear(indices, ArrayRef(resultSizes).drop_back()), valueWidth);
    Value total = e.load(totals, r, f32);
    Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, total, real(0.0));
    Value inverse =
        tile.broadcast(arith::DivFOp::create(b, real(1.0), e.select(empty, real(1.0), total)));
    for (int64_t d = 0; d < valueWidth; d += lanes) {
      Value x = tile.load(sums, e.add(at(r, valueWidth), e.index(d)));
      tile.store(arith::MulFOp::create(b, x, inverse), e.output(0), e.add(to, e.index(d)));
    }
  });
}

void AttentionEmitter::emitTask(Value batch, Value head, Value rowLow, Value rowHigh) {
  Value rows = e.sub(rowHigh, rowLow), none = e.index(0);
  loadQueries(batch, head, rowLow, rows);
  Value end = visibleEnd(e.divide(e.sub(rowHigh, e.index(1)), e.index(group))), first = none;
  if (op.getWindow() && op.getCausalOffset()) {
    Value last =
        e.add(e.divide(rowLow, e.index(group)), e.size(op.getCausalOffset()->getExprs()[0]));
    first = e.max(none, e.sub(e.add(last, e.index(1)), e.index(*op.getWindow())));
  }
  Value chunk = e.index(kChunk);
  e.loop(e.divide(first, chunk), e.divide(e.add(end, e.index(kChunk - 1)), chunk), [&](Value c) {
    Value start = e.mul(c, chunk), count = e.min(chunk, e.sub(end, start));
    Value keys = dataOf(op.getKey(), batch, head, c, width, keyElement);
    if (keyColumns) {
      scoresByProduct(keys, keyElement, rows, count);
    } else {
      auto branch = scf::IfOp::create(b, e.less(rows, e.index(kTransposeRows)), true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scoresByDot(keys, rows, count);
      b.setInsertionPointToStart(branch.elseBlock());
      transposeKeys(keys, count);
      scoresByProduct(transposed, f32, rows, count);
    }
    adjustScores(batch, head, rowLow, rows, start, count);
    e.loop(none, rows, [&](Value r) {
      softmaxRow(r, e.divide(e.add(rowLow, r), e.index(group)), start, count);
    });
    addValues(dataOf(op.getValue(), batch, head, c, valueWidth, valueElement), rows, count);
  });
  storeResult(batch, head, rowLow, rows);
}

LogicalResult AttentionEmitter::emit() {
  querySizes = e.sizes(op.getQuery().getType());
  resultSizes = e.sizes(op.getType());
  keyCount = cached ? e.size(op.getKeys()->getExprs()[0]) : e.sizes(op.getKey().getType())[2];
  queries = region(kTileRows * width);
  transposed = region(width * kChunk);
  scores = region(kTileRows * kChunk);
  sums = region(kTileRows * valueWidth);
  maxima = region(kTileRows);
  totals = region(kTileRows);
  Value rows = e.mul(querySizes[queryDim], e.index(group)), tileRows = e.index(kTileRows);
  Value tiles = e.divide(e.add(rows, e.index(kTileRows - 1)), tileRows);
  Value heads = e.index(kvHeads);
  e.partition(e.mul(e.mul(querySizes[0], heads), tiles), [&](Value low, Value high) {
    e.loop(low, high, [&](Value task) {
      Value rowLow = e.mul(e.rest(task, tiles), tileRows), pair = e.divide(task, tiles);
      emitTask(e.divide(pair, heads), e.rest(pair, heads), rowLow,
               e.min(rows, e.add(rowLow, tileRows)));
    });
  });
  return failure(elements.failed());
}

} // namespace

bool isTiledAttention(rt::KernelOp kernel) { return bool(matchAttention(kernel)); }

LogicalResult emitTiledAttention(KernelEmitter &emitter) {
  return AttentionEmitter(emitter, matchAttention(emitter.kernel)).emit();
}

} // namespace llmc::cpu
