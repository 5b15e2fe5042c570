// SPDX-License-Identifier: Apache-2.0
//
// The inner loop of every product on a CPU: a tile of the result stays in
// registers while k runs. Callers choose tiles that fit the register file; each
// result is one chain of fused multiply-adds in the order of k, so how the
// tiles lie never changes a bit.
#ifndef LLMC_CODEGEN_CPU_REGISTER_TILE_H
#define LLMC_CODEGEN_CPU_REGISTER_TILE_H

#include "codegen/cpu/KernelEmitter.h"

namespace llmc::cpu {

using Values = llvm::SmallVector<mlir::Value>;

/// Rows of one operand, read a scalar at a time: row `i` starts at `rows[i]`.
struct TileRows {
  Values rows;
  int64_t step = 1; ///< elements from one k to the next
};

/// The vectors that row k of the other operand gives.
struct TileColumns {
  enum Form {
    F32,      ///< vectors of f32, `stride` elements from one k to the next
    Bf16Pairs ///< 64-byte lines of 16 pairs (k, k + 1), a line for each pair of k
  };
  Values groups;      ///< pointer at k = 0 of each group of adjacent columns
  unsigned perGroup;  ///< vectors of a group
  int64_t stride = 0; ///< for F32
  Form form = F32;
  unsigned prefetch = 0; ///< bytes ahead in each group, 0: none
  mlir::Type element;    ///< for F32: how it is stored, if not as f32
};

class RegisterTile {
public:
  explicit RegisterTile(KernelEmitter &emitter) : e(emitter), b(emitter.b) {}

  mlir::VectorType vectorType() {
    return mlir::VectorType::get({int64_t(e.isa.lanes)}, b.getF32Type());
  }
  mlir::Value zero() { return splat(0.0); }
  mlir::Value splat(double value);
  mlir::Value broadcast(mlir::Value scalar);
  /// 0, 1, 2, … as i32.
  mlir::Value lanes();

  /// sums[r * vectors + v] += row r at k * vector v, for k in [low, high). With pairs, `low` is
  /// even, and so is `high` unless `oddEnd`, which says that `high` is odd.
  Values multiply(const TileRows &rows, const TileColumns &columns, mlir::Value low,
                  mlir::Value high, Values sums, bool oddEnd = false);

  /// Lanes below `count` of a vector; null when all are.
  mlir::Value maskOf(int64_t count);
  /// `mask` may be null; lanes without a bit are 0 and not read.
  mlir::Value load(mlir::Value pointer, mlir::Value index, mlir::Value mask = {});
  void store(mlir::Value vector, mlir::Value pointer, mlir::Value index, mlir::Value mask = {});

  /// Rows [low, high) in tiles of the given heights, the largest first; the last must be 1.
  void forEachRows(mlir::Value low, mlir::Value high, llvm::ArrayRef<unsigned> heights,
                   llvm::function_ref<void(mlir::Value row, unsigned height)> body);

  /// `count` f32 at `index`, where they are stored as `element`: f32, f16 or bf16.
  mlir::Value loadAs(mlir::Type element, mlir::Value pointer, mlir::Value index, unsigned count);
  /// The f32 vectors that a vector of bf16 pairs holds: the even elements, or the odd.
  mlir::Value widenPairs(mlir::Value words, bool odd);

private:
  void step(const TileRows &rows, mlir::Value k, llvm::ArrayRef<mlir::Value> vectors, Values &sums);

  KernelEmitter &e;
  mlir::ImplicitLocOpBuilder &b;
};

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_REGISTER_TILE_H
