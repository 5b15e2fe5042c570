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
  Option<std::string> weights{*this, "weights", llvm::cl::desc("rules for the formats of weights"),
                              llvm::cl::init("f32")};
  Option<std::string> kvCache{*this, "kv-cache", llvm::cl::desc("storage of the session's cache"),
                              llvm::cl::init("f32")};
  Option<std::string> devices{*this, "devices", llvm::cl::desc("rules of a device map"),
                              llvm::cl::init("")};
  Option<bool> remarks{*this, "remarks",
                       llvm::cl::desc("say what stopped patterns that nearly matched"),
                       llvm::cl::init(false)};
};

/// One spelling of everything: what patterns rely on.
void addCleanup(OpPassManager &passes) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createFoldConstants());
  passes.addPass(createCSEPass());
}

void buildGraphPipeline(OpPassManager &passes, const GraphOptions &options) {
  passes.addPass(createAssignRoles());
  addCleanup(passes);
  if (options.optimize) {
    addCleanup(passes); // folded constants let more become canonical
    passes.addPass(createRecoverNorms({.remarks = options.remarks}));
    passes.addPass(createRecoverActivations({.remarks = options.remarks}));
    passes.addPass(createRecoverAttention({.remarks = options.remarks}));
    passes.addPass(createAssignDevices({.map = options.devices})); // a cache is on one device
    passes.addPass(createFormKvCache({.remarks = options.remarks}));
    addCleanup(passes);
    passes.addPass(createRecoverAttention({.remarks = false})); // proves the session's masks
    addCleanup(passes);
  }
  passes.addPass(createLayoutKvCache({.format = options.kvCache}));
  passes.addPass(createAssignWeightFormats({.rules = options.weights}));
  passes.addPass(createAssignDevices({.map = options.devices}));
  if (options.optimize) {
    passes.addPass(createHoistReshapes());
    passes.addPass(createQuantizeActivations()); // finds norms that reshapes hid
    passes.addPass(createFuseAppends());
    passes.addPass(createFuseElementwise());
  }
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
