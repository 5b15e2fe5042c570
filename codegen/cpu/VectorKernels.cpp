// SPDX-License-Identifier: Apache-2.0
//
// Rows are cut into pieces as in generic kernels; what is left of a piece
// behind its last whole vector is done element by element.
#include "codegen/cpu/VectorKernels.h"

#include "codegen/cpu/GenericKernels.h"
#include "codegen/cpu/RegisterTile.h"
#include "codegen/cpu/VectorEpilogue.h"

using namespace mlir;
using namespace llmc::llm;

namespace llmc::cpu {

static Value yieldedBy(KernelEmitter &e) {
  Operation *terminator = e.kernel.getBody().front().getTerminator();
  return terminator->getNumOperands() == 1 ? terminator->getOperand(0) : Value();
}

bool isVectorKernel(KernelEmitter &e) {
  Value value = yieldedBy(e);
  if (!value || !value.getDefiningOp<ElementwiseOp>())
    return false;
  auto type = cast<RankedTensorType>(value.getType());
  bool pure = llvm::all_of(e.kernel.getBody().front().without_terminator(),
                           [](Operation &op) { return isa<ElementwiseOp, ConstantOp>(op); });
  return pure && type.getRank() > 0 && VectorEpilogue(e, value, Value()).supported();
}

LogicalResult emitVectorKernel(KernelEmitter &e) {
  Value value = yieldedBy(e), output = e.output(0);
  VectorEpilogue vectors(e, value, Value());
  RegisterTile tile(e);
  ElementEmitter elements(e);
  KernelEmitter::IndexList sizes = e.sizes(value.getType());
  Value lanes = e.index(e.isa.lanes);
  e.forEachRow(sizes, [&](ArrayRef<Value> row, Value low, Value high) {
    Value number = e.linear(row, ArrayRef(sizes).drop_back());
    Value start = e.mul(number, sizes.back());
    Value whole = e.add(low, e.mul(e.divide(e.sub(high, low), lanes), lanes));
    e.loop(
        low, whole,
        [&](Value i) {
          tile.store(vectors.apply(Value(), number, i, Value()), output, e.add(start, i));
        },
        e.isa.lanes);
    e.loop(whole, high, [&](Value i) {
      KernelEmitter::IndexList indices(row);
      indices.push_back(i);
      e.store(elements.element(value, indices), output, e.add(start, i), e.b.getF32Type());
    });
  });
  return failure(elements.failed());
}

} // namespace llmc::cpu
