// SPDX-License-Identifier: Apache-2.0
//
// A cache's storage is decided after everything that made it: nobody but the
// kernels sees it. Keys lie by columns, because a score for many keys is then
// a sum over elements with one vector of keys each, without a transposition.
#include "passes/Passes.h"

namespace llmc {

#define GEN_PASS_DEF_LAYOUTKVCACHE
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

/// Whether attentions read `cache` as keys only.
bool holdsKeys(rt::KvOp cache) {
  return llvm::all_of(cache->getUses(), [](OpOperand &use) {
    if (auto append = dyn_cast<llm::KvAppendOp>(use.getOwner()))
      return use.get() == append.getCache();
    auto attention = dyn_cast<llm::AttentionOp>(use.getOwner());
    return attention && &use == &attention.getKeyMutable();
  });
}

struct LayoutKvCachePass : impl::LayoutKvCacheBase<LayoutKvCachePass> {
  using LayoutKvCacheBase::LayoutKvCacheBase;

  void runOnOperation() override {
    Type stored;
    if (format == "f16")
      stored = Float16Type::get(&getContext());
    else if (format == "bf16")
      stored = BFloat16Type::get(&getContext());
    else if (format != "f32") {
      getOperation().emitError("[LLMC1521] caches can be stored as f32, f16 or bf16, not '")
          << format << "'";
      return signalPassFailure();
    }
    getOperation().walk([&](rt::KvOp cache) {
      auto type = cast<llm::KvType>(cache.getType());
      Type element = stored && type.getElementType().isF32() ? stored : type.getElementType();
      bool columns = holdsKeys(cache);
      cache.getResult().setType(
          llm::KvType::get(&getContext(), type.getHeads(), type.getHeadSize(), element, columns));
      numColumns += columns;
    });
  }
};

} // namespace
} // namespace llmc
