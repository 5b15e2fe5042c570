// SPDX-License-Identifier: Apache-2.0
//
// What the rows of attention operators have in common, whichever domain they
// are from: heads, masks and the one `llm.attention`.
#ifndef LLMC_COMPILER_ONNX_LOWER_ATTENTIONPARTS_H
#define LLMC_COMPILER_ONNX_LOWER_ATTENTIONPARTS_H

#include "compiler/onnx/Legalizer.h"

namespace llmc::onnx {

/// (batch, sequence, hidden) as (batch, sequence, heads, size).
Tensor splitHeads(Lowering &l, Tensor x, int64_t heads, llvm::StringRef what);

/// `x` with leading dimensions of size 1 up to rank 4.
Tensor toRank4(Lowering &l, Tensor x);

/// What decides which keys a query sees.
struct Visibility {
  Tensor additive;               // float mask, rank 4
  Tensor allowed;                // i1 mask, rank 4
  mlir::AffineExpr causalOffset; // null: not causal
  std::optional<int64_t> window;
};

/// `see.allowed` and `condition`, which may be null.
void restrict(Lowering &l, Visibility &see, Tensor condition);

struct AttentionInputs {
  Tensor query;      // (batch, heads, queries, size), or (batch, queries, heads, size)
  Tensor key, value; // (batch, kv_heads, keys, size)
  bool headsLast = false;
  std::optional<double> scale; // absent: 1 / sqrt(size)
  double softcap = 0.0;        // 0: none
};

/// The attention in the query's order of dimensions. Checks the sizes that must agree.
Tensor attend(Lowering &l, AttentionInputs inputs, const Visibility &see);

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LOWER_ATTENTIONPARTS_H
