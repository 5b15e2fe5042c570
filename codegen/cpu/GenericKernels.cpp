// SPDX-License-Identifier: Apache-2.0
//
// The loop around a kernel's elements, and where structured ops put results.
#include "codegen/cpu/GenericKernels.h"

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {

using IndexList = KernelEmitter::IndexList;

/// The structured op that must be written to memory before `value` can be asked for elements.
static Operation *structuredProducer(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isStructured(op))
    return op;
  for (Value operand : op->getOperands())
    if (Operation *producer = structuredProducer(operand))
      return producer;
  return nullptr;
}

/// Stores elements [low, high) of one row of `value` to `pointer`.
static void emitPiece(KernelEmitter &e, ElementEmitter &elements, Value value, Value pointer,
                      ArrayRef<Value> row, Value low, Value high) {
  auto type = cast<RankedTensorType>(value.getType());
  IndexList sizes = e.sizes(type);
  e.loop(low, high, [&](Value i) {
    IndexList indices(row);
    if (type.getRank() > 0)
      indices.push_back(i);
    e.store(elements.element(value, indices), pointer, e.linear(indices, sizes),
            type.getElementType());
  });
}

/// Emits `root`, which must be an output itself or end in elementwise ops of its type.
static LogicalResult emitRoot(KernelEmitter &e, ElementEmitter &elements, Operation *root,
                              OperandRange yielded, unsigned number) {
  Value value = yielded[number];
  if (value.getDefiningOp() != root) {
    Value result = root->getResult(0), pointer = e.output(number);
    if (result.getType() != value.getType())
      return root->emitError("[LLMC2003] an epilogue must keep the type of the op before it");
    elements.materialized(result, pointer);
    return emitStructured(e, elements, root, {pointer},
                          [&](ArrayRef<Value> row, Value low, Value high) {
                            emitPiece(e, elements, value, pointer, row, low, high);
                          });
  }
  SmallVector<Value> pointers;
  for (Value result : root->getResults()) {
    auto found = llvm::find(yielded, result);
    if (found == yielded.end())
      return root->emitError("[LLMC2002] every result of a kernel's main op must be an output");
    pointers.push_back(e.output(std::distance(yielded.begin(), found)));
  }
  return emitStructured(e, elements, root, pointers, [](ArrayRef<Value>, Value, Value) {});
}

LogicalResult emitGenericKernel(KernelEmitter &e) {
  ElementEmitter elements(e);
  Block &body = e.kernel.getBody().front();
  OperandRange yielded = body.getTerminator()->getOperands();

  // Ops without results work by their effects: appending to a cache.
  for (Operation &op : body)
    if (isa<KvAppendOp>(op) &&
        failed(emitStructured(e, elements, &op, {}, [](ArrayRef<Value>, Value, Value) {})))
      return failure();

  llvm::SmallPtrSet<Operation *, 4> done;
  for (auto [number, value] : llvm::enumerate(yielded)) {
    if (Operation *root = structuredProducer(value)) {
      if (done.insert(root).second && failed(emitRoot(e, elements, root, yielded, number)))
        return failure();
      continue;
    }
    e.forEachRow(e.sizes(value.getType()), [&](ArrayRef<Value> row, Value low, Value high) {
      emitPiece(e, elements, value, e.output(number), row, low, high);
    });
  }
  return failure(elements.failed());
}

} // namespace llmc::cpu
