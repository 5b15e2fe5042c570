// SPDX-License-Identifier: Apache-2.0
//
// What an attention mask says about query q and key k, found by interpreting
// the ops that make it, whatever they are called. A mask is proved causal or it
// stays a tensor; nothing is guessed.
#ifndef LLMC_PASSES_RECOVER_MASK_PREDICATE_H
#define LLMC_PASSES_RECOVER_MASK_PREDICATE_H

#include "compiler/ir/llm/Symbols.h"
#include "passes/recover/GraphMatch.h"

namespace llmc {

/// The number that all elements of `value` are, found through shape ops and arithmetic.
std::optional<double> uniformNumber(mlir::Value value);

/// Key k is visible to query q iff k <= q + offset and, with a window, k > q + offset - window.
/// Without an offset every key is visible.
struct Visibility {
  mlir::AffineExpr causalOffset;
  std::optional<int64_t> window;
};

/// Reads an additive or boolean mask of a product with `queries` and `keys`. Nothing when it says
/// more than a Visibility can, or when a query might see no key; `miss` then tells why.
std::optional<Visibility> proveMask(mlir::Value mask, mlir::AffineExpr queries,
                                    mlir::AffineExpr keys, const llm::Symbols &symbols,
                                    NearMiss &miss);

} // namespace llmc

#endif // LLMC_PASSES_RECOVER_MASK_PREDICATE_H
