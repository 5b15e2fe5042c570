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

/// A tile of the result: rows, and blocks of 16 columns, each a weight stream of its own.
struct Tile {
  unsigned rows, blocks;
};

struct TileTable {
  ArrayRef<Tile> thin;        ///< for exactly 1, 2, … rows: one pass over the weight
  unsigned blocks;            ///< of the tiles below
  ArrayRef<unsigned> heights; ///< for more rows, the largest first
  int64_t rowBlock;           ///< rows whose k-chunk stays in L2
};

constexpr Tile kThin16[] = {{1, 4}, {2, 3}, {3, 2}, {4, 1}};
constexpr unsigned kHeights16[] = {6, 4, 2, 1};
constexpr Tile kThin32[] = {{1, 4}, {2, 4}, {3, 4}, {4, 4}};
constexpr unsigned kHeights32[] = {14, 8, 4, 2, 1};
constexpr TileTable kTables[] = {{kThin16, 1, kHeights16, 192}, {kThin32, 2, kHeights32, 196}};

/// Bytes of a block of 16 columns that the tiles of a row block read again and again.
constexpr int64_t kPanelBytes = 16384;

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
    bf16 = weight.getElementType().isBF16();
    lhs = e.pointerOf(cast<BlockArgument>(op.getLhs()));
    rhs = e.pointerOf(cast<BlockArgument>(op.getRhs()));
    result = e.output(0);
  }

  LogicalResult emit();

private:
  int64_t fullBlocks() const { return columns / kBlockColumns; }
  int64_t allBlocks() const { return llvm::divideCeil(columns, kBlockColumns); }
  int64_t wordsPerBlock() const {
    return (bf16 ? llvm::divideCeil(depth, 2) : depth) * kBlockColumns;
  }
  /// The part of k between two visits of a result; all of it if short, or if pairs don't fit.
  int64_t chunk() const {
    int64_t fitting = kPanelBytes / (kBlockColumns * (bf16 ? 2 : 4));
    return depth <= fitting + fitting / 2 || (bf16 && depth % 2) ? depth : fitting;
  }

  void emitThin(Tile shape);
  void emitBlocked(Value rows);
  void emitTile(Value row, Value block, unsigned height, unsigned blocks, bool ragged, Value k,
                int64_t chunk);
  void finishTile(Value row, Value block, unsigned height, unsigned blocks, bool ragged);
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
  bool bf16;
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

/// Computes the tile at (row, block): k in [k, k + chunk), added to what is there unless k is 0.
void MatmulEmitter::emitTile(Value row, Value block, unsigned height, unsigned blocks, bool ragged,
                             Value k, int64_t chunk) {
  Type f32 = e.b.getF32Type();
  unsigned lanes = e.isa.lanes, perBlock = kBlockColumns / lanes, width = blocks * perBlock;
  TileRows rows;
  for (unsigned r = 0; r < height; ++r)
    rows.rows.push_back(e.address(lhs, e.mul(e.add(row, e.index(r)), e.index(depth)), f32));
  TileColumns weight;
  weight.perGroup = perBlock;
  weight.stride = kBlockColumns;
  weight.form = bf16 ? TileColumns::Bf16Pairs : TileColumns::F32;
  weight.prefetch = e.isa.prefetchBytes;
  for (unsigned i = 0; i < blocks; ++i)
    weight.groups.push_back(
        e.address(rhs, e.mul(e.add(block, e.index(i)), e.index(wordsPerBlock())), f32));

  int64_t rest = ragged ? columns % kBlockColumns : kBlockColumns;
  auto visit = [&](llvm::function_ref<void(unsigned, Value, Value)> body) {
    for (unsigned r = 0; r < height; ++r) {
      Value start = e.add(e.mul(e.add(row, e.index(r)), e.index(columns)),
                          e.mul(block, e.index(kBlockColumns)));
      for (unsigned v = 0; v < width; ++v)
        if (!ragged || int64_t(v) * lanes < rest)
          body(r * width + v, e.add(start, e.index(v * lanes)),
               ragged ? tile.maskOf(rest - v * lanes) : Value());
    }
  };
  Values sums(height * width, tile.zero());
  bool whole = chunk == depth;
  if (!whole) {
    SmallVector<Type> types(sums.size(), tile.vectorType());
    auto branch = scf::IfOp::create(e.b, types, e.equal(k, e.index(0)), true, true);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToEnd(branch.thenBlock());
    scf::YieldOp::create(e.b, sums);
    e.b.setInsertionPointToEnd(branch.elseBlock());
    visit([&](unsigned i, Value at, Value mask) { sums[i] = tile.load(result, at, mask); });
    scf::YieldOp::create(e.b, sums);
    sums.assign(branch.getResults().begin(), branch.getResults().end());
  }
  Value end = whole ? e.index(depth) : e.min(e.add(k, e.index(chunk)), e.index(depth));
  sums = tile.multiply(rows, weight, k, end, sums, /*oddEnd=*/bf16 && depth % 2);
  visit([&](unsigned i, Value at, Value mask) { tile.store(sums[i], result, at, mask); });
  if (epilogue.isEmpty())
    return;
  auto finish = [&] { finishTile(row, block, height, blocks, ragged); };
  if (whole)
    finish();
  else
    e.when(e.equal(end, e.index(depth)), finish);
}

void MatmulEmitter::finishTile(Value row, Value block, unsigned height, unsigned blocks,
                               bool ragged) {
  unsigned lanes = e.isa.lanes;
  Value first = e.mul(block, e.index(kBlockColumns));
  int64_t count = ragged ? columns % kBlockColumns : blocks * kBlockColumns;
  e.loop(row, e.add(row, e.index(height)), [&](Value r) {
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

void MatmulEmitter::emitThin(Tile shape) {
  e.partition(e.index(allBlocks()), [&](Value low, Value high) {
    forEachBlocks(low, high, shape.blocks, [&](Value block, unsigned blocks, bool ragged) {
      emitTile(e.index(0), block, shape.rows, blocks, ragged, e.index(0), depth);
    });
  });
}

void MatmulEmitter::emitBlocked(Value rows) {
  Value perRowBlock = e.index(allBlocks()), rowBlock = e.index(table.rowBlock);
  Value rowBlocks = e.divide(e.add(rows, e.index(table.rowBlock - 1)), rowBlock);
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
            forEachBlocks(
                blockLow, blockHigh, table.blocks, [&](Value block, unsigned blocks, bool ragged) {
                  tile.forEachRows(rowLow, rowHigh, table.heights, [&](Value row, unsigned height) {
                    emitTile(row, block, height, blocks, ragged, k, chunk());
                  });
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
  std::function<void(size_t)> choose = [&](size_t i) {
    if (i == table.thin.size())
      return emitBlocked(rows);
    auto branch = scf::IfOp::create(e.b, e.equal(rows, e.index(table.thin[i].rows)), true);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(branch.thenBlock());
    emitThin(table.thin[i]);
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
