// SPDX-License-Identifier: Apache-2.0
//
// Sizes of tiles and blocks are tables here: what fits 16 or 32 registers, the
// L1 panel of the weight (one column group of kPanelBytes) and the L2 block of
// the left side.
#include "codegen/cpu/MatmulKernels.h"

#include "codegen/cpu/GenericKernels.h"
#include "codegen/cpu/RegisterTile.h"
#include "codegen/cpu/VectorEpilogue.h"
#include "codegen/cpu/WeightPacking.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {
namespace {

/// A few rows against blocks of 16 columns, each a weight stream of its own. Where the sums of all
/// rows don't fit the registers, `height` rows go first and the others find the weight in L2.
struct Thin {
  unsigned blocks, height;
};

struct TileTable {
  ArrayRef<Thin> thin;        ///< for exactly 1, 2, … rows: one pass over the weight
  ArrayRef<Thin> thinPairs;   ///< the same where the weight is widened in registers
  unsigned blocks;            ///< of the tiles below
  ArrayRef<unsigned> heights; ///< for more rows, the largest first
  int64_t rowBlock;           ///< rows whose k-chunk stays in L2
  int64_t chunk;              ///< of k: what a tile reads of both sides fits L1
};

constexpr Thin kThin16[] = {{4, 1}, {3, 2}, {2, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 4}, {1, 4}};
constexpr Thin kThin16Pairs[] = {{4, 1}, {2, 2}, {1, 3}, {1, 4}, {1, 3}, {1, 3}, {1, 4}, {1, 4}};
constexpr unsigned kHeights16[] = {6, 4, 2, 1};
constexpr Thin kThin32[] = {{4, 1}, {4, 2}, {4, 3}, {4, 4}, {4, 5}, {4, 6}, {3, 7}, {3, 8}};
constexpr Thin kThin32Pairs[] = {{4, 1}, {4, 2}, {4, 3}, {4, 4}, {2, 5}, {2, 6}, {2, 7}, {2, 8}};
constexpr unsigned kHeights32[] = {14, 8, 4, 2, 1};
constexpr TileTable kTables[] = {{kThin16, kThin16Pairs, 1, kHeights16, 192, 384},
                                 {kThin32, kThin32Pairs, 2, kHeights32, 196, 256}};

/// The product in a kernel's body, and what the kernel yields.
struct PackedMatmul {
  MatmulOp op;
  Value yielded;
};

/// Whether `value` follows from `root` by elementwise ops of root's type, so that it can be
/// computed in place.
bool followsInPlace(Value value, Value root) {
  if (value == root)
    return true;
  auto op = value.getDefiningOp<ElementwiseOp>();
  if (!op)
    return isa<BlockArgument>(value) || value.getDefiningOp<ConstantOp>();
  return llvm::all_of(op.getOperands_(), [&](Value operand) {
    return operand == root ? op.getType() == root.getType() : followsInPlace(operand, root);
  });
}

std::optional<PackedMatmul> matchPackedMatmul(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto products = llvm::to_vector(body.getOps<MatmulOp>());
  if (products.size() != 1 || body.getTerminator()->getNumOperands() != 1)
    return std::nullopt;
  MatmulOp op = products[0];
  Value yielded = body.getTerminator()->getOperand(0);
  auto elementOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  if (packedLayoutOf(op.getRhs().getType()).empty() || quantLayoutOf(op.getRhs().getType()) ||
      !isa<BlockArgument>(op.getRhs()) || !isa<BlockArgument>(op.getLhs()) ||
      !elementOf(op.getLhs()).isF32() || !elementOf(op.getResult()).isF32())
    return std::nullopt;
  if (yielded.getType() != op.getType() || !followsInPlace(yielded, op.getResult()))
    return std::nullopt;
  return PackedMatmul{op, yielded};
}

class MatmulEmitter {
public:
  MatmulEmitter(KernelEmitter &e, PackedMatmul matmul)
      : e(e), tile(e), elements(e), op(matmul.op), yielded(matmul.yielded),
        epilogue(e, matmul.yielded, matmul.op.getResult()), table(kTables[e.isa.registers >= 32]) {
    auto weight = cast<RankedTensorType>(op.getRhs().getType());
    bool transposed = op.getTransposeRhs();
    depth = weight.getDimSize(transposed ? 1 : 0);
    columns = weight.getDimSize(transposed ? 0 : 1);
    pairs = weight.getElementType().isBF16();
    half = weight.getElementType().isF16();
    lhs = e.pointerOf(cast<BlockArgument>(op.getLhs()));
    rhs = e.pointerOf(cast<BlockArgument>(op.getRhs()));
    result = e.output(0);
  }

  LogicalResult emit();

private:
  int64_t fullBlocks() const { return columns / kBlockColumns; }
  int64_t allBlocks() const { return llvm::divideCeil(columns, kBlockColumns); }
  /// What a word of the weight is: an element, or a pair of them.
  Type wordType() const { return half ? Type(e.b.getF16Type()) : Type(e.b.getF32Type()); }
  int64_t wordsPerBlock() const {
    return (pairs ? llvm::divideCeil(depth, 2) : depth) * kBlockColumns;
  }
  /// The part of k between two visits of a result; all of it if short.
  int64_t chunk() const { return depth <= table.chunk + table.chunk / 2 ? depth : table.chunk; }

  /// The left side as tiles read it: row-major, or packed. Packed, the rows of a tile lie
  /// interleaved, k by k, and tiles follow one another: a tile is one stream.
  struct Rows {
    Value pointer; ///< at row `low` and the first k
    Value low, high;
    Value length; ///< of each row
    bool packed = false;
  };

  void emitThin(unsigned rows, Thin shape);
  void emitBlocked(Value rows);
  Rows packRows(Value low, Value high, Value k);
  /// Words of the weight from `k` on, in `blocks` blocks.
  Values wordsOf(Value block, unsigned blocks, Value k);
  /// The same part as f32, `length` of k; what is stored in fewer bits is widened into scratch
  /// memory.
  Values panelOf(Value block, unsigned blocks, Value k, Value length);
  /// Asks for the tile's share of the weight that comes after this block's.
  void prefetchNext(const Rows &from, Value row, unsigned height, Value block, unsigned blocks,
                    Value k);
  /// A tile of the result: rows from `row` on, columns of `blocks` blocks from `block` on. The last
  /// block of the matrix may be `ragged`: not all of its columns exist.
  struct Place {
    Value row;
    unsigned height;
    Value block;
    unsigned blocks;
    bool ragged;
  };
  TileRows rowsOf(const Rows &from, const Place &place);
  using Visitor = llvm::function_ref<void(unsigned sum, Value at, Value mask)>;
  void forEachVector(const Place &place, Visitor body);
  /// All of k at once.
  void emitWhole(const Rows &from, const TileColumns &weight, const Place &place);
  /// k in [k, k + from.length), added to what is there unless k is 0.
  void emitPart(const Rows &from, const TileColumns &weight, const Place &place, Value k);
  void finishTile(const Place &place);
  /// Blocks [low, high) in groups of `width`, then one by one; the last may have fewer columns.
  void forEachBlocks(Value low, Value high, unsigned width,
                     llvm::function_ref<void(Value block, unsigned blocks, bool ragged)> body);

  KernelEmitter &e;
  RegisterTile tile;
  ElementEmitter elements;
  MatmulOp op;
  Value yielded;
  VectorEpilogue epilogue;
  const TileTable &table;
  int64_t depth, columns;
  bool pairs, half; ///< the weight is bf16 in pairs of k, or f16
  Value lhs, rhs, result;
};

void MatmulEmitter::forEachBlocks(Value low, Value high, unsigned width,
                                  llvm::function_ref<void(Value, unsigned, bool)> body) {
  Value end = e.min(high, e.index(fullBlocks())), at = low;
  if (width > 1) {
    Value step = e.index(width), count = e.divide(e.max(e.sub(end, low), e.index(0)), step);
    at = e.add(low, e.mul(count, step));
    e.loop(low, at, [&](Value block) { body(block, width, false); }, width);
  }
  e.loop(at, end, [&](Value block) { body(block, 1, false); });
  if (allBlocks() > fullBlocks())
    e.when(e.both(e.less(low, high), e.equal(high, e.index(allBlocks()))),
           [&] { body(e.index(fullBlocks()), 1, true); });
}

Values MatmulEmitter::wordsOf(Value block, unsigned blocks, Value k) {
  Values pointers;
  Value line = pairs ? e.divide(k, e.index(2)) : k;
  for (unsigned i = 0; i < blocks; ++i) {
    Value words = e.add(e.mul(e.add(block, e.index(i)), e.index(wordsPerBlock())),
                        e.mul(line, e.index(kBlockColumns)));
    // Without `inbounds`: the block after the last may be named, to be prefetched.
    pointers.push_back(
        LLVM::GEPOp::create(e.b, rhs.getType(), wordType(), rhs, ArrayRef<LLVM::GEPArg>{words}));
  }
  return pointers;
}

Values MatmulEmitter::panelOf(Value block, unsigned blocks, Value k, Value length) {
  Values words = wordsOf(block, blocks, k);
  if (!pairs && !half)
    return words;
  Type f32 = e.b.getF32Type();
  int64_t panel = llvm::alignTo(chunk(), 2) * kBlockColumns, lanes = e.isa.lanes;
  uint64_t start = uint64_t(table.rowBlock * chunk());
  Values panels;
  for (unsigned i = 0; i < blocks; ++i)
    panels.push_back(e.address(e.scratch, e.index(int64_t(start) + i * panel), f32));
  e.scratchBytes = std::max(e.scratchBytes, (start + table.blocks * uint64_t(panel)) * 4);
  Value lines = pairs ? e.divide(e.add(length, e.index(1)), e.index(2)) : length;
  e.loop(e.index(0), lines, [&](Value line) {
    Value from = e.mul(line, e.index(kBlockColumns)), to = pairs ? e.mul(from, e.index(2)) : from;
    for (unsigned i = 0; i < blocks; ++i)
      for (int64_t v = 0; v < kBlockColumns; v += lanes) {
        Value at = e.add(from, e.index(v));
        if (half) {
          tile.store(tile.loadAs(wordType(), words[i], at, unsigned(lanes)), panels[i],
                     e.add(to, e.index(v)));
          continue;
        }
        Value both = e.loadVector(words[i], at, e.b.getI32Type(), unsigned(lanes));
        for (bool odd : {false, true})
          tile.store(tile.widenPairs(both, odd), panels[i],
                     e.add(to, e.index(v + (odd ? kBlockColumns : 0))));
      }
  });
  return panels;
}

TileRows MatmulEmitter::rowsOf(const Rows &from, const Place &place) {
  Value inside = e.sub(place.row, from.low);
  TileRows rows;
  rows.step = from.packed ? place.height : 1;
  for (unsigned r = 0; r < place.height; ++r)
    rows.rows.push_back(e.address(from.pointer,
                                  from.packed ? e.add(e.mul(inside, from.length), e.index(r))
                                              : e.mul(e.add(inside, e.index(r)), e.index(depth)),
                                  e.b.getF32Type()));
  return rows;
}

void MatmulEmitter::forEachVector(const Place &place, Visitor body) {
  unsigned lanes = e.isa.lanes, width = place.blocks * kBlockColumns / lanes;
  int64_t rest = place.ragged ? columns % kBlockColumns : kBlockColumns;
  for (unsigned r = 0; r < place.height; ++r) {
    Value at = e.add(e.mul(e.add(place.row, e.index(r)), e.index(columns)),
                     e.mul(place.block, e.index(kBlockColumns)));
    for (unsigned v = 0; v < width; ++v)
      if (!place.ragged || int64_t(v) * lanes < rest)
        body(r * width + v, e.add(at, e.index(v * lanes)),
             place.ragged ? tile.maskOf(rest - v * lanes) : Value());
  }
}

void MatmulEmitter::emitWhole(const Rows &from, const TileColumns &weight, const Place &place) {
  Values sums(place.height * weight.groups.size() * weight.perGroup, tile.zero());
  sums = tile.multiply(rowsOf(from, place), weight, e.index(0), e.index(depth), sums,
                       /*oddEnd=*/weight.form == TileColumns::Bf16Pairs && depth % 2);
  forEachVector(place,
                [&](unsigned i, Value at, Value mask) { tile.store(sums[i], result, at, mask); });
  if (!epilogue.isEmpty())
    finishTile(place);
}

void MatmulEmitter::emitPart(const Rows &from, const TileColumns &weight, const Place &place,
                             Value k) {
  // What is there is added last, and asked for now: it comes from far away.
  for (unsigned r = 0; r < place.height; ++r) {
    Value at = e.add(e.mul(e.add(place.row, e.index(r)), e.index(columns)),
                     e.mul(place.block, e.index(kBlockColumns)));
    LLVM::Prefetch::create(e.b, e.address(result, at, e.b.getF32Type()), /*rw=*/0, /*hint=*/3,
                           /*cache=*/1);
  }
  Values sums(place.height * weight.groups.size() * weight.perGroup, tile.zero());
  sums = tile.multiply(rowsOf(from, place), weight, e.index(0), from.length, sums);
  auto branch = scf::IfOp::create(e.b, e.equal(k, e.index(0)), /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(branch.thenBlock());
    forEachVector(place,
                  [&](unsigned i, Value at, Value mask) { tile.store(sums[i], result, at, mask); });
    e.b.setInsertionPointToStart(branch.elseBlock());
    forEachVector(place, [&](unsigned i, Value at, Value mask) {
      Value sum = arith::AddFOp::create(e.b, tile.load(result, at, mask), sums[i]);
      tile.store(sum, result, at, mask);
    });
  }
  if (!epilogue.isEmpty())
    e.when(e.equal(e.add(k, from.length), e.index(depth)), [&] { finishTile(place); });
}

void MatmulEmitter::finishTile(const Place &place) {
  unsigned lanes = e.isa.lanes;
  Value first = e.mul(place.block, e.index(kBlockColumns));
  int64_t count = place.ragged ? columns % kBlockColumns : place.blocks * kBlockColumns;
  e.loop(place.row, e.add(place.row, e.index(place.height)), [&](Value r) {
    Value start = e.mul(r, e.index(columns));
    if (!epilogue.supported()) {
      KernelEmitter::IndexList sizes = e.sizes(op.getType());
      KernelEmitter::IndexList indices = e.delinear(r, ArrayRef(sizes).drop_back());
      indices.push_back(Value());
      e.loop(first, e.add(first, e.index(count)), [&](Value n) {
        indices.back() = n;
        e.store(elements.element(yielded, indices), result, e.add(start, n), e.b.getF32Type());
      });
      return;
    }
    auto vectorAt = [&](Value n, Value mask) {
      Value at = e.add(start, n);
      tile.store(epilogue.apply(tile.load(result, at, mask), r, n, mask), result, at, mask);
    };
    int64_t whole = count / lanes * lanes;
    if (whole)
      e.loop(first, e.add(first, e.index(whole)), [&](Value n) { vectorAt(n, {}); }, lanes);
    if (whole < count)
      vectorAt(e.add(first, e.index(whole)), tile.maskOf(count - whole));
  });
}

void MatmulEmitter::emitThin(unsigned rows, Thin shape) {
  e.partition(e.index(allBlocks()), [&](Value low, Value high) {
    forEachBlocks(low, high, shape.blocks, [&](Value block, unsigned blocks, bool ragged) {
      TileColumns weight;
      weight.groups = wordsOf(block, blocks, e.index(0));
      weight.perGroup = kBlockColumns / e.isa.lanes;
      weight.stride = kBlockColumns;
      weight.form = pairs ? TileColumns::Bf16Pairs : TileColumns::F32;
      weight.element = wordType();
      weight.prefetch = e.isa.prefetchBytes;
      Rows from{lhs, e.index(0), e.index(rows), e.index(depth)};
      for (unsigned row = 0; row < rows; row += shape.height)
        emitWhole(from, weight,
                  {e.index(row), std::min(shape.height, rows - row), block, blocks, ragged});
    });
  });
}

/// Rows [low, high), a chunk of each from k on.
MatmulEmitter::Rows MatmulEmitter::packRows(Value low, Value high, Value k) {
  Type f32 = e.b.getF32Type();
  Value length =
      chunk() == depth ? e.index(depth) : e.min(e.index(chunk()), e.sub(e.index(depth), k));
  tile.forEachRows(low, high, table.heights, [&](Value row, unsigned height) {
    Value to = e.mul(e.sub(row, low), length);
    e.loop(e.index(0), length, [&](Value i) {
      for (unsigned r = 0; r < height; ++r) {
        Value from = e.add(e.mul(e.add(row, e.index(r)), e.index(depth)), e.add(k, i));
        e.store(e.load(lhs, from, f32), e.scratch,
                e.add(to, e.add(e.mul(i, e.index(height)), e.index(r))), f32);
      }
    });
  });
  uint64_t bytes = uint64_t(table.rowBlock * chunk()) * 4;
  e.scratchBytes = std::max(e.scratchBytes, bytes);
  return {e.scratch, low, high, length, /*packed=*/true};
}

void MatmulEmitter::prefetchNext(const Rows &from, Value row, unsigned height, Value block,
                                 unsigned blocks, Value k) {
  Value rows = e.sub(from.high, from.low), inside = e.sub(row, from.low);
  // Of f16 a line of 64 bytes holds two k, as it does of bf16.
  Value lines = pairs || half ? e.divide(from.length, e.index(2)) : from.length;
  Value low = e.divide(e.mul(inside, lines), rows),
        high = e.divide(e.mul(e.add(inside, e.index(height)), lines), rows);
  // Past the end of the weight this asks for nothing that is used, and does no harm.
  Values next = wordsOf(e.add(block, e.index(blocks)), blocks, k);
  e.loop(low, high, [&](Value line) {
    for (Value words : next) {
      Value at = LLVM::GEPOp::create(
          e.b, words.getType(), wordType(), words,
          ArrayRef<LLVM::GEPArg>{e.mul(line, e.index(half ? 2 * kBlockColumns : kBlockColumns))});
      LLVM::Prefetch::create(e.b, at, /*rw=*/0, /*hint=*/2, /*cache=*/1);
    }
  });
}

void MatmulEmitter::emitBlocked(Value rows) {
  Value perRowBlock = e.index(allBlocks()), rowBlock = e.index(table.rowBlock);
  Value rowBlocks = e.divide(e.add(rows, e.index(table.rowBlock - 1)), rowBlock);
  auto panelTiles = [&](const Rows &from, Value block, unsigned blocks, bool ragged, Value k) {
    TileColumns weight;
    weight.groups = panelOf(block, blocks, k, from.length);
    weight.perGroup = kBlockColumns / e.isa.lanes;
    weight.stride = kBlockColumns;
    tile.forEachRows(from.low, from.high, table.heights, [&](Value row, unsigned height) {
      prefetchNext(from, row, height, block, blocks, k);
      Place place{row, height, block, blocks, ragged};
      if (chunk() == depth)
        emitWhole(from, weight, place);
      else
        emitPart(from, weight, place, k);
    });
  };
  e.partition(e.mul(rowBlocks, perRowBlock), [&](Value low, Value high) {
    Value first = e.divide(low, perRowBlock),
          last = e.divide(e.add(high, e.index(allBlocks() - 1)), perRowBlock);
    e.loop(first, last, [&](Value part) {
      Value start = e.mul(part, perRowBlock), rowLow = e.mul(part, rowBlock);
      Value rowHigh = e.min(rows, e.add(rowLow, rowBlock));
      Value blockLow = e.max(e.sub(low, start), e.index(0)),
            blockHigh = e.min(e.sub(high, start), perRowBlock);
      e.loop(
          e.index(0), e.index(depth),
          [&](Value k) {
            Rows from = packRows(rowLow, rowHigh, k);
            forEachBlocks(blockLow, blockHigh, table.blocks,
                          [&](Value block, unsigned blocks, bool ragged) {
                            panelTiles(from, block, blocks, ragged, k);
                          });
          },
          chunk());
    });
  });
}

LogicalResult MatmulEmitter::emit() {
  elements.materialized(op.getResult(), result);
  KernelEmitter::IndexList sizes = e.sizes(op.getType());
  Value rows = e.product(ArrayRef(sizes).drop_back());
  ArrayRef<Thin> thin = pairs ? table.thinPairs : table.thin;
  std::function<void(size_t)> choose = [&](size_t i) {
    if (i == thin.size())
      return emitBlocked(rows);
    auto branch = scf::IfOp::create(e.b, e.equal(rows, e.index(int64_t(i) + 1)), true);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(branch.thenBlock());
    emitThin(unsigned(i) + 1, thin[i]);
    e.b.setInsertionPointToStart(branch.elseBlock());
    choose(i + 1);
  };
  choose(0);
  return failure(elements.failed());
}

} // namespace

std::string matmulWeightLayout(Operation *op, unsigned operand) {
  auto packed = [](Value weight) -> StringRef {
    auto type = dyn_cast<RankedTensorType>(weight.getType());
    if (!type || type.getRank() != 2 || !type.hasStaticShape() || type.getNumElements() == 0)
      return "plain";
    if (type.getElementType().isF32())
      return kPackedF32;
    if (type.getElementType().isF16())
      return kPackedF16;
    return type.getElementType().isBF16() ? StringRef(kPackedBf16) : StringRef("plain");
  };
  auto isF32 = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType().isF32();
  };
  auto matmul = dyn_cast<MatmulOp>(op);
  if (!matmul || operand != 1 || !isF32(matmul.getLhs()) || !isF32(matmul.getResult()))
    return "plain";
  return packed(matmul.getRhs()).str();
}

bool isPackedMatmul(rt::KernelOp kernel) { return matchPackedMatmul(kernel).has_value(); }

LogicalResult emitPackedMatmul(KernelEmitter &emitter) {
  return MatmulEmitter(emitter, *matchPackedMatmul(emitter.kernel)).emit();
}

} // namespace llmc::cpu
