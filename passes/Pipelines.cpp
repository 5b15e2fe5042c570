// SPDX-License-Identifier: Apache-2.0
//
// The order of the graph passes: one flat list.
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace llmc {

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

namespace {

struct GraphOptions : PassPipelineOptions<GraphOptions> {
  Option<bool> optimize{*this, "optimize", llvm::cl::desc("recover and fuse (-O2)"),
                        llvm::cl::init(true)};
  Option<std::string> weights{*this, "weights", llvm::cl::desc("storage of matmul weights"),
                              llvm::cl::init("f32")};
  Option<std::string> devices{*this, "devices", llvm::cl::desc("rules of a device map"),
                              llvm::cl::init("")};
};

void buildGraphPipeline(OpPassManager &passes, const GraphOptions &options) {
  passes.addPass(createAssignRoles());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createNarrowWeights({.format = options.weights}));
  passes.addPass(createAssignDevices({.map = options.devices}));
  passes.addPass(createOutlineKernels());
  passes.addPass(createInsertTransfers());
}

} // namespace

void registerLlmcPasses() {
  registerLlmcGraphPasses();
  PassPipelineRegistration<GraphOptions>("llmc-graph", "legal llm ops to an rt program",
                                         buildGraphPipeline);
}

} // namespace llmc
