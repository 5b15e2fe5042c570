// SPDX-License-Identifier: Apache-2.0
//
// CPU code for any kernel body: scalar loops over elements that LLVM
// vectorises. What an element is worth is asked backwards through the body, so
// any chain of elementwise and shape ops costs one loop and no temporaries.
// Hot kernels have code of their own beside this.
#ifndef LLMC_CODEGEN_CPU_GENERIC_KERNELS_H
#define LLMC_CODEGEN_CPU_GENERIC_KERNELS_H

#include "codegen/cpu/KernelEmitter.h"
#include "codegen/cpu/QuantLayout.h"

namespace llmc::cpu {

/// Emits the element `indices` of a value in a kernel body. Values that a
/// structured op has already written to memory are read back from there.
class ElementEmitter {
public:
  using IndexList = KernelEmitter::IndexList;

  explicit ElementEmitter(KernelEmitter &emitter) : e(emitter) {}

  /// A value even after a failure, which a diagnostic has then told; see failed().
  mlir::Value element(mlir::Value tensor, llvm::ArrayRef<mlir::Value> indices);
  /// The element of what `llm.quantize` made: the last index counts elements, not bytes.
  mlir::Value quantizedElement(mlir::Value tensor, llvm::ArrayRef<mlir::Value> indices,
                               int64_t group);
  /// From now on `tensor` is read from `pointer`, row-major in its own shape.
  void materialized(mlir::Value tensor, mlir::Value pointer) { memory[tensor] = pointer; }
  bool failed() const { return hasFailed; }

  /// Indices into an operand of `type` that broadcasts to `resultType`.
  IndexList broadcastIndices(mlir::Type type, mlir::Type resultType,
                             llvm::ArrayRef<mlir::Value> indices);
  /// `position` counted from the end when negative. `inside` is and-ed with whether it lies within
  /// `size`; if not, the call fails with an index error.
  mlir::Value checkedIndex(mlir::Value position, mlir::Value size, mlir::Value &inside);

private:
  /// The element of a packed weight that starts at `pointer`.
  mlir::Value packedElement(mlir::Value tensor, mlir::Value pointer,
                            llvm::ArrayRef<mlir::Value> indices);
  /// The same of a quantized one, of which `k` and `column` tell the element.
  mlir::Value dequantized(const QuantLayout &layout, int64_t depth, mlir::Value pointer,
                          mlir::Value k, mlir::Value column);
  mlir::Value elementOf(mlir::Operation *op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofElementwise(llm::ElementwiseOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofConcat(llm::ConcatOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofPad(llm::PadOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofTrilu(llm::TriluOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofGather(llm::GatherOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofGatherElements(llm::GatherElementsOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofGatherNd(llm::GatherNdOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofRope(llm::RopeOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofDequantize(llm::DequantizeOp op, llvm::ArrayRef<mlir::Value> indices);
  mlir::Value ofKvConcat(llm::KvConcatOp op, llvm::ArrayRef<mlir::Value> indices);
  /// The element where `inside` holds, else 0, without touching memory.
  mlir::Value guarded(mlir::Value inside, mlir::Value tensor, llvm::ArrayRef<mlir::Value> indices);

  KernelEmitter &e;
  llvm::DenseMap<mlir::Value, mlir::Value> memory;
  bool hasFailed = false;
};

/// Called after each finished piece of a result: the row's indices and [low, high) of the last
/// dimension, so that an epilogue works on data that is still in cache.
using PieceCallback =
    llvm::function_ref<void(llvm::ArrayRef<mlir::Value> row, mlir::Value low, mlir::Value high)>;

/// Reductions, norms, products, scatters, …: ops that write their result to memory.
bool isStructured(mlir::Operation *op);

/// Emits a structured op; its results go to `pointers`, row-major. Fails after a diagnostic.
mlir::LogicalResult emitStructured(KernelEmitter &emitter, ElementEmitter &elements,
                                   mlir::Operation *op, llvm::ArrayRef<mlir::Value> pointers,
                                   PieceCallback finished);

/// The part of emitStructured for convolutions.
mlir::LogicalResult emitConv(KernelEmitter &emitter, ElementEmitter &elements, llm::ConvOp op,
                             mlir::Value pointer, PieceCallback finished);

/// Emits the whole body of a kernel. Fails after a diagnostic at the op that has no CPU code.
mlir::LogicalResult emitGenericKernel(KernelEmitter &emitter);

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_GENERIC_KERNELS_H
