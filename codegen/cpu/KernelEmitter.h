// SPDX-License-Identifier: Apache-2.0
//
// The frame in which every CPU kernel is written: operand pointers, sizes,
// worker numbers, counted loops, element loads and stores, the static
// partition, and the error that a kernel returns. Indices are i64 throughout;
// kernels address plain memory, so there are no memref descriptors.
#ifndef LLMC_CODEGEN_CPU_KERNEL_EMITTER_H
#define LLMC_CODEGEN_CPU_KERNEL_EMITTER_H

#include "codegen/cpu/IsaLevel.h"
#include "compiler/ir/llm/Dims.h"
#include "compiler/ir/rt/RtDialect.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace llmc::cpu {

class KernelEmitter {
public:
  using Value = mlir::Value;
  using IndexList = llvm::SmallVector<mlir::Value, 6>;

  /// Starts `int32_t <symbol>(const llmc_kernel_args *, int64_t worker, int64_t workers)` in
  /// `module`; the body that callers emit goes to a function whose operands don't alias.
  KernelEmitter(mlir::ModuleOp module, rt::KernelOp kernel, const IsaLevel &isa);

  /// Closes the body. Call once, after everything else.
  void finish();

  mlir::ImplicitLocOpBuilder b;
  const IsaLevel &isa;
  rt::KernelOp kernel;
  Value worker, workers; ///< i64
  Value scratch;         ///< !llvm.ptr, this worker's own memory; its size is `scratchBytes`
  uint64_t scratchBytes = 0;

  /// Pointer of a kernel input, or of output number `index`.
  Value pointerOf(mlir::BlockArgument input) const { return inputs[input.getArgNumber()]; }
  Value output(unsigned index) const { return outputs[index]; }

  // Integers.
  Value index(int64_t value);
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value divide(Value x, Value y); ///< both >= 0, y > 0
  Value rest(Value x, Value y);   ///< both >= 0, y > 0
  Value min(Value x, Value y);
  Value max(Value x, Value y);
  Value less(Value x, Value y); ///< signed
  Value equal(Value x, Value y);
  Value both(Value x, Value y); ///< i1 and
  Value negate(Value x);        ///< i1 not
  Value select(Value condition, Value x, Value y);
  /// A size of the kernel: constants and scalars combined.
  Value size(mlir::AffineExpr expr);
  IndexList sizes(mlir::Type tensor);
  Value product(llvm::ArrayRef<Value> sizes);

  // Memory. Booleans are one byte, 0 or 1; unsigned integers are passed signless.
  Value address(Value pointer, Value index, mlir::Type element);
  Value load(Value pointer, Value index, mlir::Type element);
  void store(Value value, Value pointer, Value index, mlir::Type element);
  Value loadVector(Value pointer, Value index, mlir::Type element, unsigned lanes);
  void storeVector(Value vector, Value pointer, Value index, mlir::Type element);
  /// A stack slot for `count` elements, hoisted to the function's entry.
  Value slot(mlir::Type element, int64_t count = 1);
  /// Row-major position of `indices` in a tensor of `sizes`.
  Value linear(llvm::ArrayRef<Value> indices, llvm::ArrayRef<Value> sizes);
  /// The inverse: indices of position `linear`.
  IndexList delinear(Value linear, llvm::ArrayRef<Value> sizes);

  // Control.
  void loop(Value low, Value high, llvm::function_ref<void(Value)> body, int64_t step = 1);
  using CarriedBody = llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>;
  llvm::SmallVector<Value> loop(Value low, Value high, llvm::ArrayRef<Value> initial,
                                CarriedBody body, int64_t step = 1);
  void when(Value condition, llvm::function_ref<void()> body);
  /// Chooses between two computations, of which only one runs.
  Value choose(Value condition, mlir::Type type, llvm::function_ref<Value()> yes,
               llvm::function_ref<Value()> no);
  /// This worker's part [low, high) of `total` tasks, a contiguous range.
  void partition(Value total, llvm::function_ref<void(Value low, Value high)> body);
  /// Rows of `sizes` without its last dimension, split among workers; unless `wholeRows`, the last
  /// dimension is cut into pieces of `kPiece`. `body` gets the row's indices and [low, high).
  using RowBody = llvm::function_ref<void(llvm::ArrayRef<Value> row, Value low, Value high)>;
  void forEachRow(llvm::ArrayRef<Value> sizes, RowBody body, bool wholeRows = false);
  /// Records an LLMC_KERNEL_* error where `condition` holds.
  void fail(Value condition, int32_t code);

  static constexpr int64_t kPiece = 1024;

private:
  Value errorSlot;
  llvm::SmallVector<Value> inputs, outputs, scalars;
  mlir::Block *entry = nullptr;
};

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_KERNEL_EMITTER_H
