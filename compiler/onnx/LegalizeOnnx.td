// SPDX-License-Identifier: Apache-2.0
//
// The pass between the two halves of the front end.
#ifndef LLMC_COMPILER_ONNX_LEGALIZEONNX_TD
#define LLMC_COMPILER_ONNX_LEGALIZEONNX_TD

include "mlir/Pass/PassBase.td"

def LegalizeOnnx : Pass<"llmc-legalize-onnx", "::mlir::ModuleOp"> {
  let summary = "Turn ONNX nodes into llm ops by the op table";
  let description = [{
    **Needs**: an imported module: `@main` of `onnx.node`, `onnx.weight`, `onnx.none`.

    **Leaves**: `@main` of `llm` ops. Every tensor is ranked, and every dynamic dimension is an
    expression over the module's `llm.symbols`. Arguments and results have `llm.name` and
    `llm.dim_names`. What was assumed about sizes is in `llm.checks`. Shape arithmetic is gone,
    except where its result is data. Nothing of `onnx` is left.

    Operators without a row are reported all at once, other problems each at its node.

    **Example**: before
    ```mlir
    module attributes {onnx.opsets = {"" = 18 : i64}} {
      func.func @main(%x: tensor<?x4xf32> {onnx.name = "x", onnx.dims = ["batch", 4]})
          -> (!onnx.value {onnx.name = "y"}) {
        %y = onnx.node "Sqrt"(%x) {version = 18 : i64, output_names = ["y"]}
            : (tensor<?x4xf32>) -> !onnx.value
        return %y : !onnx.value
      }
    }
    ```
    after
    ```mlir
    module attributes {llm.symbols = [#llm.symbol<"batch", input>]} {
      func.func @main(%x: tensor<?x4xf32, #llm.dims<[s0, 4]>> {llm.name = "x", llm.dim_names = ["batch", "4"]})
          -> (tensor<?x4xf32, #llm.dims<[s0, 4]>> {llm.name = "y"}) {
        %y = llm.elementwise sqrt(%x)
            : (tensor<?x4xf32, #llm.dims<[s0, 4]>>) -> tensor<?x4xf32, #llm.dims<[s0, 4]>>
        return %y : tensor<?x4xf32, #llm.dims<[s0, 4]>>
      }
    }
    ```
  }];
  let dependentDialects = ["::llmc::llm::LlmDialect"];
  let statistics = [Statistic<"numNodes", "num-nodes", "ONNX nodes legalized">];
}

#endif // LLMC_COMPILER_ONNX_LEGALIZEONNX_TD
