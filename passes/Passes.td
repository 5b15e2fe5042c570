// SPDX-License-Identifier: Apache-2.0
//
// Every graph pass, by group. Each description says what the pass needs, what
// it leaves, and shows an example.
#ifndef LLMC_PASSES_PASSES_TD
#define LLMC_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// partition
//===----------------------------------------------------------------------===//

def OutlineKernels : Pass<"llmc-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "Turn every llm op into a dispatch of an rt.kernel";
  let description = [{
    **Needs**: functions of legal `llm` ops.
    **Leaves**: functions of `rt` ops, and one `rt.kernel` per distinct body: equal layers share
    kernels, since a body's sizes are its own symbols and weights are operands. Reshapes become
    views, constants with one value move into kernels.
    **Example**:
    ```mlir
    %r = llm.elementwise add(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    becomes
    ```mlir
    %r = rt.dispatch @add_0 on "cpu0" #llm.dims<[]> (%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let statistics = [
    Statistic<"numDispatches", "num-dispatches", "Kernel calls in all entries">,
    Statistic<"numKernels", "num-kernels", "Distinct kernels">,
  ];
}

def AssignDevices : Pass<"llmc-assign-devices", "::mlir::ModuleOp"> {
  let summary = "Say on which device each op runs";
  let description = [{
    **Needs**: ops with ONNX node names as locations.
    **Leaves**: `llm.device` on every op that a rule of `map` matches; the last rule that matches
    wins, and one that matches nothing is an error. Other ops run on `cpu0`.
    **Example**: with `map="layers[0-1]=cpu0; *=cpu1"`, a node `/model/layers.2/mlp/Add` gives
    ```mlir
    %r = llm.elementwise add(%a, %b) {llm.device = "cpu1"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let options = [Option<"map", "map", "std::string", "\"\"", "rules PATTERN=DEVICE, separated by ';'">];
}

def InsertTransfers : Pass<"llmc-insert-transfers", "::mlir::ModuleOp"> {
  let summary = "Copy values between devices explicitly";
  let description = [{
    **Needs**: an `rt` program whose dispatches name devices.
    **Leaves**: every operand of a dispatch in its device's memory: values by `rt.transfer` behind
    an `rt.wait` for the device they come from, once for each device that reads them; weights and
    constants placed on each device that reads them. Results end on `cpu0`.
    **Example**:
    ```mlir
    rt.wait "cpu0"
    %y = rt.transfer %x to "cpu1" : tensor<4xf32>
    ```
  }];
  let statistics = [Statistic<"numTransfers", "num-transfers", "Copies between devices">];
}

//===----------------------------------------------------------------------===//
// quantize
//===----------------------------------------------------------------------===//

def NarrowWeights : Pass<"llmc-narrow-weights", "::mlir::ModuleOp"> {
  let summary = "Store the weights of matrix products in bf16";
  let description = [{
    **Needs**: legal `llm` ops.
    **Leaves**: rank-2 f32 weights of `llm.matmul` as bf16, rounded half to even when the bundle is
    written; everything computed stays f32.
    **Example**: with `format=bf16`
    ```mlir
    %w = llm.weight "fc" : tensor<8x16xf32>
    ```
    becomes
    ```mlir
    %w = llm.weight "fc" : tensor<8x16xbf16>
    ```
  }];
  let options = [Option<"format", "format", "std::string", "\"f32\"", "f32 (nothing changes) or bf16">];
  let statistics = [Statistic<"numNarrowed", "num-narrowed", "Products that read narrow weights">];
}

//===----------------------------------------------------------------------===//
// session
//===----------------------------------------------------------------------===//

def AssignRoles : Pass<"llmc-assign-roles", "::mlir::ModuleOp"> {
  let summary = "Say what inputs and outputs mean to a generation loop";
  let description = [{
    **Needs**: functions whose arguments and results have `llm.name`.
    **Leaves**: `llm.role` on those that are token ids, positions, masks, cache or logits; pasts and
    presents name each other by `llm.pair` and the dimension that grows by `llm.cache_axis`. Names
    are those of the exporters; types decide where names are ambiguous.
    **Example**: an argument `{llm.name = "input_ids"}` gets `llm.role = "ids"`.
    ```mlir
    func.func @main(%ids: tensor<1x4xi64> {llm.name = "input_ids", llm.role = "ids"})
    ```
  }];
}

#endif // LLMC_PASSES_PASSES_TD
