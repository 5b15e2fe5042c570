// SPDX-License-Identifier: Apache-2.0
//
// The pass: symbols in, `Lowering` over @main, symbols out.
#include "compiler/onnx/LegalizeOnnx.h"

#include "compiler/onnx/Legalizer.h"

using namespace mlir;

namespace llmc::onnx {

#define GEN_PASS_DEF_LEGALIZEONNX
#include "compiler/onnx/LegalizeOnnx.h.inc"

namespace {

struct LegalizeOnnx : impl::LegalizeOnnxBase<LegalizeOnnx> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal()) {
      module.emitError("[LLMC1211] expected a function @main with a body");
      return signalPassFailure();
    }
    int64_t nodes = 0;
    main.walk([&](NodeOp) { ++nodes; });
    llm::Symbols symbols(module);
    if (failed(Lowering(symbols, main).run()))
      return signalPassFailure();
    symbols.store();
    for (StringRef name :
         {StringRef(kIrVersionAttr), StringRef(kOpsetsAttr), StringRef(kProducerAttr)})
      module->removeAttr(name);
    numNodes += nodes;
  }
};

} // namespace
} // namespace llmc::onnx
