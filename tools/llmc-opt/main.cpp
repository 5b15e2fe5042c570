// SPDX-License-Identifier: Apache-2.0
//
// llmc-opt: runs any of the compiler's passes on a .mlir file.
#include "codegen/Targets.h"
#include "compiler/ir/llm/LlmDialect.h"
#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/ir/rt/RtDialect.h"
#include "compiler/onnx/LegalizeOnnx.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<llmc::llm::LlmDialect, llmc::onnx::OnnxDialect, llmc::rt::RtDialect,
                  mlir::func::FuncDialect>();
  llmc::registerTargets(registry);
  mlir::registerTransformsPasses();
  llmc::onnx::registerLegalizeOnnx();
  llmc::registerLlmcPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "llmc optimizer driver\n", registry));
}
