// SPDX-License-Identifier: Apache-2.0
//
// Storage of weights in fewer bits. Only what a matrix product reads is
// narrowed: it is nearly all of a model's bytes, and its sums stay f32.
#include "compiler/ir/llm/Dims.h"
#include "passes/Passes.h"

namespace llmc {

#define GEN_PASS_DEF_NARROWWEIGHTS
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

struct NarrowWeightsPass : impl::NarrowWeightsBase<NarrowWeightsPass> {
  using NarrowWeightsBase::NarrowWeightsBase;

  void runOnOperation() override {
    if (format == "f32")
      return;
    if (format != "bf16") {
      getOperation().emitError("[LLMC1520] weights can be stored as f32 or bf16, not '")
          << format << "'";
      return signalPassFailure();
    }
    getOperation().walk([&](llm::MatmulOp matmul) {
      auto weight = matmul.getRhs().getDefiningOp<llm::WeightOp>();
      auto type = cast<RankedTensorType>(matmul.getRhs().getType());
      if (!weight || type.getRank() != 2 || !type.getElementType().isF32())
        return;
      OpBuilder builder(matmul);
      auto narrow = llm::WeightOp::create(
          builder, weight.getLoc(), RankedTensorType::get(type.getShape(), builder.getBF16Type()),
          weight.getKeyAttr());
      matmul.getRhsMutable().assign(narrow);
      if (weight.use_empty())
        weight.erase();
      ++numNarrowed;
    });
  }
};

} // namespace
} // namespace llmc
