// SPDX-License-Identifier: Apache-2.0
//
// A tile is some rows x 16 columns, whose f32 sums lie in the worker's own memory
// and get one multiply-add for each group. Few rows: four blocks of 16
// columns take turns, so that memory sees four streams, and nibbles are split
// in registers. More rows: the nibbles of a block are split once into a panel
// of bytes, which all rows then read.
#include "codegen/cpu/QuantMatmulKernels.h"

#include "codegen/cpu/GenericKernels.h"
#include "codegen/cpu/QuantDot.h"
#include "codegen/cpu/RegisterTile.h"
#include "codegen/cpu/VectorEpilogue.h"
#include "codegen/cpu/WeightPacking.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {
namespace {

/// Most rows that the code for few rows takes, each number with code of its own.
constexpr unsigned kThinRows = 4;
/// Blocks of 16 columns that it reads side by side.
constexpr unsigned kThinBlocks = 4;
/// Rows of a tile in the code for many rows, the largest first: what fits 16 registers with int4
/// and int8 weights, and 32.
constexpr unsigned kInt4Heights16[] = {6, 4, 2, 1};
constexpr unsigned kInt8Heights16[] = {4, 2, 1};
constexpr unsigned kHeights32[] = {12, 6, 4, 2, 1};
/// Rows that share a panel: as many as stay in L2, within limits.
constexpr int64_t kRowBlockBytes = 256 << 10, kLeastRowBlock = 48, kMostRowBlock = 192;
/// k of a panel: 16 KB of bytes.
constexpr int64_t kPanelDepth = 1024;

struct QuantMatmul {
  MatmulOp op;
  Value yielded;
  QuantLayout layout;
};

/// Whether `value` follows from `root` by elementwise ops of root's type.
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

std::optional<QuantMatmul> matchQuantMatmul(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto products = llvm::to_vector(body.getOps<MatmulOp>());
  if (products.size() != 1 || body.getTerminator()->getNumOperands() != 1)
    return std::nullopt;
  MatmulOp op = products[0];
  std::optional<QuantLayout> layout = quantLayoutOf(op.getRhs().getType());
  Value yielded = body.getTerminator()->getOperand(0);
  if (!op.getQuantized() || !layout || layout->activationGroup() != int64_t(*op.getQuantized()) ||
      !isa<BlockArgument>(op.getRhs()) || !isa<BlockArgument>(op.getLhs()) ||
      !cast<RankedTensorType>(op.getType()).getElementType().isF32())
    return std::nullopt;
  if (yielded.getType() != op.getType() || !followsInPlace(yielded, op.getResult()))
    return std::nullopt;
  return QuantMatmul{op, yielded, *layout};
}

/// What a tile multiplies with in one activation group.
struct WeightGroup {
  Value lines;        ///< 64-byte lines: packed ones, or a panel's
  bool nibbles;       ///< whether a line holds 8 k, as nibbles
  Values scales;      ///< f32, for each vector of 16 columns; empty: 1
  Values corrections; ///< i32: 8 - zero point; empty: 0
};

/// Has LLVM unroll the loop that gives `result` by `count`: whole, it would load everything at once
/// and spill.
void unrollBy(Value result, int32_t count) {
  auto loop = result.getDefiningOp<scf::ForOp>();
  MLIRContext *context = loop.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(
      context, /*disable=*/{}, IntegerAttr::get(IntegerType::get(context, 32), count),
      /*runtimeDisable=*/{}, /*full=*/{}, /*followupUnrolled=*/{}, /*followupRemainder=*/{},
      /*followupAll=*/{});
  loop->setAttr("loop_annotation",
                LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {}, {}, {}, {},
                                              {}, {}, {}, {}, {}));
}

class QuantMatmulEmitter {
public:
  QuantMatmulEmitter(KernelEmitter &e, QuantMatmul matmul)
      : e(e), b(e.b), tile(e), elements(e), op(matmul.op), yielded(matmul.yielded),
        epilogue(e, matmul.yielded, matmul.op.getResult()), layout(matmul.layout),
        record{matmul.layout.activationGroup()},
        dot(e, matmul.layout.isInt4(), QuantizedRecord{matmul.layout.activationGroup()}) {
    auto weight = cast<RankedTensorType>(op.getRhs().getType());
    bool transposed = op.getTransposeRhs();
    depth = weight.getDimSize(transposed ? 1 : 0);
    columns = weight.getDimSize(transposed ? 0 : 1);
    lhs = e.pointerOf(cast<BlockArgument>(op.getLhs()));
    rhs = e.pointerOf(cast<BlockArgument>(op.getRhs()));
    result = e.output(0);
  }

  LogicalResult emit();

private:
  int64_t fullBlocks() const { return columns / kBlockColumns; }
  int64_t allBlocks() const { return llvm::divideCeil(columns, kBlockColumns); }
  unsigned vectorsPerBlock() const { return kBlockColumns / e.isa.lanes; }
  int64_t recordsPerGroup() const { return layout.group / record.group; }
  int64_t panelGroups() const { return kPanelDepth / layout.group; }
  /// Rows of a row block, a multiple of 12.
  int64_t mostRows() const {
    int64_t fitting = kRowBlockBytes / record.rowBytes(depth);
    return std::clamp(fitting, kLeastRowBlock, kMostRowBlock) / 12 * 12;
  }
  Value bytes(Value pointer, Value offset) { return e.address(pointer, offset, b.getI8Type()); }
  Value bytes(Value pointer, int64_t offset) { return bytes(pointer, e.index(offset)); }
  Value blockAt(Value block) { return bytes(rhs, e.mul(block, e.index(layout.blockBytes(depth)))); }
  /// 16 scales (or corrections) of the group whose lines end at `behindLines`.
  Values groupScales(Value behindLines, Value block);
  Values groupCorrections(Value behindLines);
  /// The u8 at `pointer`, as i32 lanes.
  Value loadWidened(Value pointer, int64_t offset);
  Values loadVectors(Value pointer, Type element);

  /// Adds one activation group of a tile: rows from the one at `activations` (its record) on, sums
  /// at `sums`, a row after the other.
  void addGroup(unsigned rows, Value activations, const WeightGroup &weights, Value sums);
  void clear(Value sums, Value count);
  void emitThin(unsigned rows);
  void emitThinTile(unsigned rows, Value block, Value count);
  void emitBlocked(Value rows);
  void emitPanel(Value block, Value groupLow, Value groupHigh);
  void emitBlock(Value block, Value rowLow, Value rowHigh);
  void emitTile(Value row, Value block, unsigned height, Value groupLow, Value groupHigh,
                Value sums);
  /// Moves sums to the result, through scales of whole columns and the epilogue.
  void finishTile(Value sums, Value row, Value block, Value height);
  /// `body` for each vector of a tile: its place in the tile, row, column, place in the result.
  using VectorBody =
      llvm::function_ref<void(Value inTile, Value row, Value column, Value at, Value mask)>;
  void forEachVector(Value row, Value block, Value height, VectorBody body);

  KernelEmitter &e;
  ImplicitLocOpBuilder &b;
  RegisterTile tile;
  ElementEmitter elements;
  MatmulOp op;
  Value yielded;
  VectorEpilogue epilogue;
  QuantLayout layout;
  QuantizedRecord record;
  QuantDot dot;
  int64_t depth, columns;
  Value lhs, rhs, result;
  // Parts of the worker's memory.
  Value sumsMemory, panel, panelScales, panelCorrections;
};

Values QuantMatmulEmitter::loadVectors(Value pointer, Type element) {
  Values all;
  for (unsigned v = 0; v < vectorsPerBlock(); ++v)
    all.push_back(e.loadVector(pointer, e.index(v * e.isa.lanes), element, e.isa.lanes));
  return all;
}

Value QuantMatmulEmitter::loadWidened(Value pointer, int64_t offset) {
  Value loaded = e.loadVector(pointer, e.index(offset), b.getI8Type(), e.isa.lanes);
  return arith::ExtUIOp::create(b, dot.integersType(), loaded);
}

Values QuantMatmulEmitter::groupScales(Value behindLines, Value block) {
  Values scales;
  if (layout.kind == QuantLayout::Int8)
    return scales; // one for a whole column, applied at the end
  if (layout.kind == QuantLayout::Int4TwoLevel) {
    Value columnScales = bytes(block, layout.blockBytes(depth) - 64);
    for (auto [v, scale] : llvm::enumerate(loadVectors(columnScales, b.getF32Type()))) {
      Value multiplier = loadWidened(behindLines, int64_t(v) * e.isa.lanes);
      scales.push_back(arith::MulFOp::create(
          b, arith::SIToFPOp::create(b, tile.vectorType(), multiplier), scale));
    }
    return scales;
  }
  for (Value half : loadVectors(behindLines, b.getF16Type()))
    scales.push_back(arith::ExtFOp::create(b, tile.vectorType(), half));
  return scales;
}

Values QuantMatmulEmitter::groupCorrections(Value behindLines) {
  Values corrections;
  if (layout.kind != QuantLayout::Int4ZeroPoints)
    return corrections;
  Value eight = arith::ConstantOp::create(
      b, SplatElementsAttr::get(dot.integersType(), b.getI32IntegerAttr(8)));
  for (unsigned v = 0; v < vectorsPerBlock(); ++v)
    corrections.push_back(
        arith::SubIOp::create(b, eight, loadWidened(behindLines, 32 + v * e.isa.lanes)));
  return corrections;
}

void QuantMatmulEmitter::addGroup(unsigned rows, Value activations, const WeightGroup &weights,
                                  Value sums) {
  unsigned vectors = vectorsPerBlock();
  int64_t rowBytes = record.rowBytes(depth);
  auto rowOf = [&](unsigned r, Value from) { return bytes(from, int64_t(r) * rowBytes); };
  Values chains;
  for (unsigned r = 0; r < rows; ++r)
    chains.append(vectors, dot.start(rowOf(r, activations)));
  auto stepAll = [&](ArrayRef<Value> loaded, Value at, Values &inner) {
    for (unsigned r = 0; r < rows; ++r) {
      Value x = dot.broadcastBytes(rowOf(r, at));
      for (unsigned v = 0; v < vectors; ++v)
        inner[r * vectors + v] = dot.step(inner[r * vectors + v], loaded[v], x);
    }
  };
  int64_t perLine = weights.nibbles ? 8 : 4;
  chains = e.loop(e.index(0), e.index(record.group / perLine), chains,
                  [&](Value line, ValueRange carried) {
                    Values inner(carried.begin(), carried.end());
                    Value from = bytes(weights.lines, e.mul(line, e.index(64)));
                    Value at = bytes(activations, e.mul(line, e.index(perLine)));
                    Values loaded, nibbles;
                    for (unsigned v = 0; v < vectors; ++v)
                      loaded.push_back(dot.loadBytes(from, int64_t(v) * 4 * e.isa.lanes));
                    if (!weights.nibbles) {
                      stepAll(loaded, at, inner);
                      return inner;
                    }
                    for (Value x : loaded)
                      nibbles.push_back(dot.lowNibbles(x));
                    stepAll(nibbles, at, inner);
                    nibbles.clear();
                    for (Value x : loaded)
                      nibbles.push_back(dot.highNibbles(x));
                    stepAll(nibbles, bytes(at, 4), inner);
                    return inner;
                  });
  unrollBy(chains[0], chains.size() < 8 ? 2 : 1);
  for (unsigned r = 0; r < rows; ++r) {
    Value from = rowOf(r, activations);
    Value scale =
        tile.broadcast(e.load(bytes(from, record.scaleOffset()), e.index(0), b.getF32Type()));
    for (unsigned v = 0; v < vectors; ++v) {
      Value integers = dot.finish(chains[r * vectors + v]);
      if (!weights.corrections.empty())
        integers = arith::AddIOp::create(b, integers, dot.timesSum(weights.corrections[v], from));
      Value x = arith::SIToFPOp::create(b, tile.vectorType(), integers);
      Value factor = weights.scales.empty()
                         ? scale
                         : Value(arith::MulFOp::create(b, weights.scales[v], scale));
      Value at = e.index(int64_t(r) * kBlockColumns + v * e.isa.lanes);
      tile.store(math::FmaOp::create(b, x, factor, tile.load(sums, at)), sums, at);
    }
  }
}

void QuantMatmulEmitter::clear(Value sums, Value count) {
  e.loop(e.index(0), count, [&](Value at) { tile.store(tile.zero(), sums, at); }, e.isa.lanes);
}

void QuantMatmulEmitter::forEachVector(Value row, Value block, Value height, VectorBody body) {
  int64_t lanes = e.isa.lanes, rest = columns % kBlockColumns;
  auto visit = [&](int64_t count) {
    e.loop(e.index(0), height, [&](Value r) {
      Value first = e.mul(block, e.index(kBlockColumns));
      Value start = e.mul(e.add(row, r), e.index(columns));
      auto at = [&](Value inBlock, Value mask) {
        Value column = e.add(first, inBlock);
        body(e.add(e.mul(r, e.index(kBlockColumns)), inBlock), e.add(row, r), column,
             e.add(start, column), mask);
      };
      for (int64_t n = 0; n < count; n += lanes)
        at(e.index(n), tile.maskOf(count - n));
    });
  };
  if (fullBlocks() > 0)
    e.when(e.less(block, e.index(fullBlocks())), [&] { visit(kBlockColumns); });
  if (rest)
    e.when(e.equal(block, e.index(fullBlocks())), [&] { visit(rest); });
}

void QuantMatmulEmitter::finishTile(Value sums, Value row, Value block, Value height) {
  Value columnScales = bytes(blockAt(block), layout.blockBytes(depth) - 64);
  bool vectorized = epilogue.isEmpty() || epilogue.supported();
  forEachVector(row, block, height, [&](Value inTile, Value r, Value n, Value at, Value mask) {
    Value x = tile.load(sums, inTile);
    if (layout.kind == QuantLayout::Int8)
      x = arith::MulFOp::create(b, x, tile.load(columnScales, e.rest(n, e.index(kBlockColumns))));
    if (vectorized && !epilogue.isEmpty())
      x = epilogue.apply(x, r, n, mask);
    tile.store(x, result, at, mask);
  });
  if (vectorized)
    return;
  KernelEmitter::IndexList sizes = e.sizes(op.getType());
  Value first = e.mul(block, e.index(kBlockColumns));
  e.loop(row, e.add(row, height), [&](Value r) {
    KernelEmitter::IndexList indices = e.delinear(r, ArrayRef(sizes).drop_back());
    indices.push_back(Value());
    Value last = e.min(e.add(first, e.index(kBlockColumns)), e.index(columns));
    e.loop(first, last, [&](Value n) {
      indices.back() = n;
      e.store(elements.element(yielded, indices), result, e.add(e.mul(r, e.index(columns)), n),
              b.getF32Type());
    });
  });
}

void QuantMatmulEmitter::emitThinTile(unsigned rows, Value block, Value count) {
  int64_t tileFloats = int64_t(rows) * kBlockColumns;
  clear(sumsMemory, e.mul(count, e.index(tileFloats)));
  Value first = blockAt(block);
  e.loop(e.index(0), e.index(layout.groups(depth)), [&](Value group) {
    Value inBlock = e.mul(group, e.index(layout.groupBytes()));
    Value activations = bytes(lhs, e.mul(group, e.index(recordsPerGroup() * record.bytes())));
    e.loop(e.index(0), count, [&](Value i) {
      Value start = bytes(first, e.mul(i, e.index(layout.blockBytes(depth))));
      Value sums = e.address(sumsMemory, e.mul(i, e.index(tileFloats)), b.getF32Type());
      Value lines = bytes(start, inBlock);
      if (e.isa.prefetchBytes)
        for (int64_t at = 0; at < layout.groupBytes(); at += 64)
          LLVM::Prefetch::create(b, bytes(lines, e.isa.prefetchBytes + at), /*rw=*/0, /*hint=*/3,
                                 /*cache=*/1);
      Value behind = bytes(lines, layout.lineBytesOfGroup());
      WeightGroup weights{lines, layout.isInt4(), groupScales(behind, start),
                          groupCorrections(behind)};
      for (int64_t part = 0; part < recordsPerGroup(); ++part) {
        weights.lines = bytes(lines, part * layout.lineBytesOfGroup() / recordsPerGroup());
        addGroup(rows, bytes(activations, part * record.bytes()), weights, sums);
      }
    });
  });
  e.loop(e.index(0), count, [&](Value i) {
    finishTile(e.address(sumsMemory, e.mul(i, e.index(tileFloats)), b.getF32Type()), e.index(0),
               e.add(block, i), e.index(rows));
  });
}

void QuantMatmulEmitter::emitThin(unsigned rows) {
  e.partition(e.index(allBlocks()), [&](Value low, Value high) {
    e.loop(
        low, high,
        [&](Value block) {
          emitThinTile(rows, block, e.min(e.index(kThinBlocks), e.sub(high, block)));
        },
        kThinBlocks);
  });
}

void QuantMatmulEmitter::emitPanel(Value block, Value groupLow, Value groupHigh) {
  Value start = blockAt(block);
  Type f32 = b.getF32Type(), i32 = b.getI32Type(), i8 = b.getI8Type();
  int64_t lanes = e.isa.lanes, groupPanel = layout.group * kBlockColumns;
  e.loop(groupLow, groupHigh, [&](Value group) {
    Value lines = bytes(start, e.mul(group, e.index(layout.groupBytes())));
    Value number = e.sub(group, groupLow);
    Value target = bytes(panel, e.mul(number, e.index(groupPanel)));
    e.loop(e.index(0), e.index(layout.group / 8), [&](Value line) {
      Value from = bytes(lines, e.mul(line, e.index(64)));
      Value to = bytes(target, e.mul(line, e.index(128)));
      for (unsigned v = 0; v < vectorsPerBlock(); ++v) {
        Value loaded = dot.loadBytes(from, v * 4 * lanes);
        e.storeVector(dot.lowNibbles(loaded), to, e.index(v * 4 * lanes), i8);
        e.storeVector(dot.highNibbles(loaded), to, e.index(64 + v * 4 * lanes), i8);
      }
    });
    Value behind = bytes(lines, layout.lineBytesOfGroup());
    Value at = e.mul(number, e.index(kBlockColumns));
    for (auto [v, scale] : llvm::enumerate(groupScales(behind, start)))
      e.storeVector(scale, panelScales, e.add(at, e.index(int64_t(v) * lanes)), f32);
    for (auto [v, correction] : llvm::enumerate(groupCorrections(behind)))
      e.storeVector(correction, panelCorrections, e.add(at, e.index(int64_t(v) * lanes)), i32);
  });
}

void QuantMatmulEmitter::emitTile(Value row, Value block, unsigned height, Value groupLow,
                                  Value groupHigh, Value sums) {
  Value rowStart = bytes(lhs, e.mul(row, e.index(record.rowBytes(depth))));
  int64_t partPanel = record.group * kBlockColumns;
  Value panelStart = layout.isInt4()
                         ? panel
                         : bytes(blockAt(block), e.mul(groupLow, e.index(layout.groupBytes())));
  e.loop(groupLow, groupHigh, [&](Value group) {
    Value number = e.sub(group, groupLow);
    Value at = e.mul(number, e.index(kBlockColumns));
    WeightGroup weights{Value(), /*nibbles=*/false, {}, {}};
    if (layout.isInt4())
      weights.scales = loadVectors(e.address(panelScales, at, b.getF32Type()), b.getF32Type());
    if (layout.kind == QuantLayout::Int4ZeroPoints)
      weights.corrections =
          loadVectors(e.address(panelCorrections, at, b.getI32Type()), b.getI32Type());
    Value records = bytes(rowStart, e.mul(group, e.index(recordsPerGroup() * record.bytes())));
    Value lines = bytes(panelStart, e.mul(number, e.index(recordsPerGroup() * partPanel)));
    for (int64_t part = 0; part < recordsPerGroup(); ++part) {
      weights.lines = bytes(lines, part * partPanel);
      addGroup(height, bytes(records, part * record.bytes()), weights, sums);
    }
  });
}

/// All of k for one block of columns and the rows that share its panel.
void QuantMatmulEmitter::emitBlock(Value block, Value rowLow, Value rowHigh) {
  ArrayRef<unsigned> heights = kHeights32;
  if (e.isa.registers < 32)
    heights = layout.isInt4() ? ArrayRef(kInt4Heights16) : ArrayRef(kInt8Heights16);
  Value rows = e.sub(rowHigh, rowLow), width = e.index(kBlockColumns);
  clear(sumsMemory, e.mul(rows, width));
  e.loop(
      e.index(0), e.index(layout.groups(depth)),
      [&](Value group) {
        Value groupHigh =
            e.min(e.add(group, e.index(panelGroups())), e.index(layout.groups(depth)));
        if (layout.isInt4())
          emitPanel(block, group, groupHigh);
        tile.forEachRows(rowLow, rowHigh, heights, [&](Value row, unsigned height) {
          Value sums = e.address(sumsMemory, e.mul(e.sub(row, rowLow), width), b.getF32Type());
          emitTile(row, block, height, group, groupHigh, sums);
        });
      },
      panelGroups());
  finishTile(sumsMemory, rowLow, block, rows);
}

void QuantMatmulEmitter::emitBlocked(Value rows) {
  // Row blocks of equal height, in whole tiles.
  Value most = e.index(mostRows()), step = e.index(6);
  auto quotient = [&](Value x, Value y) { return e.divide(e.add(x, e.sub(y, e.index(1))), y); };
  Value rowBlocks = e.max(quotient(rows, most), e.index(1));
  Value height = e.mul(quotient(quotient(rows, rowBlocks), step), step);
  Value perRowBlock = e.index(allBlocks());
  e.partition(e.mul(rowBlocks, perRowBlock), [&](Value low, Value high) {
    e.loop(low, high, [&](Value task) {
      Value rowLow = e.min(e.mul(e.divide(task, perRowBlock), height), rows);
      emitBlock(e.rest(task, perRowBlock), rowLow, e.min(rows, e.add(rowLow, height)));
    });
  });
}

LogicalResult QuantMatmulEmitter::emit() {
  elements.materialized(op.getResult(), result);
  auto reserve = [&](int64_t size) {
    Value start = bytes(e.scratch, int64_t(e.scratchBytes));
    e.scratchBytes += uint64_t(size);
    return start;
  };
  sumsMemory = reserve(std::max<int64_t>(kThinRows * kThinBlocks, mostRows()) * kBlockColumns * 4);
  if (layout.isInt4()) {
    panel = reserve(kPanelDepth * kBlockColumns);
    panelScales = reserve(panelGroups() * kBlockColumns * 4);
    panelCorrections = reserve(panelGroups() * kBlockColumns * 4);
  }
  KernelEmitter::IndexList sizes = e.sizes(op.getType());
  Value rows = e.product(ArrayRef(sizes).drop_back());
  std::function<void(unsigned)> choose = [&](unsigned count) {
    if (count > kThinRows)
      return emitBlocked(rows);
    auto branch = scf::IfOp::create(b, e.equal(rows, e.index(count)), true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    emitThin(count);
    b.setInsertionPointToStart(branch.elseBlock());
    choose(count + 1);
  };
  choose(1);
  return failure(elements.failed());
}

} // namespace

bool isQuantMatmul(rt::KernelOp kernel) { return matchQuantMatmul(kernel).has_value(); }

LogicalResult emitQuantMatmul(KernelEmitter &emitter) {
  return QuantMatmulEmitter(emitter, *matchQuantMatmul(emitter.kernel)).emit();
}

} // namespace llmc::cpu
