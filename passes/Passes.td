// SPDX-License-Identifier: Apache-2.0
//
// Every graph pass, by group. Each description says what the pass needs, what
// it leaves, and shows an example.
#ifndef LLMC_PASSES_PASSES_TD
#define LLMC_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// fold
//===----------------------------------------------------------------------===//

def FoldConstants : Pass<"llmc-fold-constants", "::mlir::ModuleOp"> {
  let summary = "Work out small constants at compile time";
  let description = [{
    **Needs**: `llm` ops.
    **Leaves**: a constant for every elementwise and shape op whose operands are constants and whose
    result is small, rounded to its type as a kernel would. What would be an error of the call (an
    index out of range, an integer division by 0) stays.
    **Example**:
    ```mlir
    %a = llm.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %r = llm.elementwise neg(%a) : (tensor<2xf32>) -> tensor<2xf32>
    ```
    becomes
    ```mlir
    %r = llm.constant dense<[-1.0, -2.0]> : tensor<2xf32>
    ```
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "4096", "Largest result in bytes">,
  ];
  let statistics = [
    Statistic<"numFolded", "num-folded", "Ops replaced by their value">,
  ];
}

//===----------------------------------------------------------------------===//
// fuse
//===----------------------------------------------------------------------===//

def FuseElementwise : Pass<"llmc-fuse-elementwise", "::mlir::ModuleOp"> {
  let summary = "Put chains of elementwise and shape ops into the kernels next to them";
  let description = [{
    **Needs**: functions of `llm` ops.
    **Leaves**: `llm.fusion` around ops that become one kernel with one result: at most one op that
    combines elements, elementwise ops after it, and element ops before it that are cheap to ask
    again. Costly functions and gathers are never worked out twice. Reshapes at the edge of a
    kernel stay outside, as views.
    **Example**:
    ```mlir
    %p = llm.matmul %a, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
    %s = llm.elementwise silu(%p) : (tensor<4x16xf32>) -> tensor<4x16xf32>
    ```
    becomes
    ```mlir
    %s = llm.fusion -> tensor<4x16xf32> {
      %p = llm.matmul %a, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
      %r = llm.elementwise silu(%p) : (tensor<4x16xf32>) -> tensor<4x16xf32>
      llm.fusion_yield %r : tensor<4x16xf32>
    }
    ```
  }];
  let statistics = [
    Statistic<"numFusions", "num-fusions", "Kernels made of several ops">,
    Statistic<"numFused", "num-fused", "Ops in them">,
  ];
}

//===----------------------------------------------------------------------===//
// recover
//===----------------------------------------------------------------------===//

class RecoveryPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let options = [
    Option<"remarks", "remarks", "bool", "false", "Say which op stopped a pattern that nearly matched">,
  ];
}

def RecoverNorms : RecoveryPass<"llmc-recover-norms"> {
  let summary = "Find layer and RMS norms in their arithmetic";
  let description = [{
    **Needs**: canonical elementwise ops; equal values are one (CSE).
    **Leaves**: `llm.rms_norm` and `llm.layer_norm` over the last dimensions, with scale and bias
    where they have exactly these dimensions. A cast to f32 before and back after a norm without
    scale goes.
    **Example**:
    ```mlir
    %q = llm.elementwise mul(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = llm.reduce mean %q axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
    %e = llm.constant dense<1.0e-6> : tensor<f32>
    %v = llm.elementwise add(%m, %e) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
    %s = llm.elementwise rsqrt(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %r = llm.elementwise mul(%x, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    ```
    becomes
    ```mlir
    %r = llm.rms_norm %x axis 1 epsilon 1.0e-06 : tensor<4x8xf32> -> tensor<4x8xf32>
    ```
  }];
  let statistics = [Statistic<"numRecovered", "num-norms", "Norms after the pass">];
}

def RecoverActivations : RecoveryPass<"llmc-recover-activations"> {
  let summary = "Find GELU and SiLU in their arithmetic";
  let description = [{
    **Needs**: canonical elementwise ops; equal values are one (CSE).
    **Leaves**: `gelu`, `gelu_tanh` and `silu` elementwise ops. Quick GELU (`x * sigmoid(1.702 x)`)
    stays two products and a sigmoid.
    **Example**:
    ```mlir
    %s = llm.elementwise sigmoid(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %r = llm.elementwise mul(%x, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    becomes
    ```mlir
    %r = llm.elementwise silu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let statistics = [Statistic<"numRecovered", "num-activations", "Activations after the pass">];
}

def RecoverAttention : RecoveryPass<"llmc-recover-attention"> {
  let summary = "Find attention and rotary embeddings in their arithmetic";
  let description = [{
    **Needs**: canonical ops; equal values are one (CSE).
    **Leaves**: `llm.attention` with one scale, grouped heads, and the order (batch, sequence, heads,
    size) where transposes around it go; `llm.rope`, also of the first elements only. A mask that is
    proved to depend on the positions of query and key alone becomes `causal` and `window`; any other
    one is added to the scores. A row whose keys are all hidden by -inf gives zeros.
    **Example**:
    ```mlir
    %s = llm.matmul %q, %k transpose_rhs : tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32> -> tensor<1x2x3x5xf32>
    %p = llm.softmax %s axis 3 : tensor<1x2x3x5xf32> -> tensor<1x2x3x5xf32>
    %r = llm.matmul %p, %v : tensor<1x2x3x5xf32>, tensor<1x2x5x8xf32> -> tensor<1x2x3x8xf32>
    ```
    becomes
    ```mlir
    %r = llm.attention %q, %k, %v scale 1.0
        : (tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x3x8xf32>
    ```
  }];
  let statistics = [
    Statistic<"numAttentions", "num-attentions", "Attentions after the pass">,
    Statistic<"numRopes", "num-ropes", "Rotary embeddings after the pass">,
  ];
}

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
    %r = rt.dispatch @add_0 on "cpu0" <[]> (%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
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

def AssignWeightFormats : Pass<"llmc-assign-weight-formats", "::mlir::ModuleOp"> {
  let summary = "Say how each weight is stored";
  let description = [{
    **Needs**: legal `llm` ops with ONNX node names as locations.
    **Leaves**: weights of products (rank 2, floats) in the format that the last matching rule
    gives: another element type, or f32 with a quantized format as the type's encoding. A rule's
    pattern matches names of nodes or weights and of the modules around them; a format without a
    pattern is for every product. A table that only `llm.gather` reads changes where a pattern
    matches it; one that a product reads too gets the product's format, so that it is stored once.
    What is computed stays what it was; f16 and bf16 products with quantized weights become f32.
    A rule that matches nothing is an error.
    **Example**: with `rules="int4:g64; fc*=bf16"`
    ```mlir
    %w = llm.weight "proj" : tensor<64x128xf32>
    ```
    becomes
    ```mlir
    %w = llm.weight "proj" : tensor<64x128xf32, "int4:g64">
    ```
  }];
  let options = [
    Option<"rules", "rules", "std::string", "\"f32\"", "FORMAT or PATTERN=FORMAT, separated by ';'">,
  ];
  let statistics = [Statistic<"numChanged", "num-changed", "Uses of weights with a new format">];
}

def QuantizeActivations : Pass<"llmc-quantize-activations", "::mlir::ModuleOp"> {
  let summary = "Quantize the left sides of products with quantized weights";
  let description = [{
    **Needs**: legal `llm` ops; weights whose types carry a quantized format.
    **Leaves**: f32 products with int8 or int4 weights with a left side from `llm.quantize` (groups
    of 32 for weights in groups of 32, else of 64), one for equal left sides; a norm over the last
    dimension that feeds one shares an `llm.fusion` with it.
    **Example**:
    ```mlir
    %r = llm.matmul %x, %w : tensor<4x100xf32>, tensor<100x16xf32, "int4:g64"> -> tensor<4x16xf32>
    ```
    becomes
    ```mlir
    %q = llm.quantize %x group 64 : tensor<4x100xf32> -> tensor<4x160xui8>
    %r = llm.matmul %q, %w quantized 64
        : tensor<4x160xui8>, tensor<100x16xf32, "int4:g64"> -> tensor<4x16xf32>
    ```
  }];
  let statistics = [Statistic<"numProducts", "num-products", "Products with a quantized left side">,
                    Statistic<"numJoined", "num-joined", "Norms that quantize their result">];
}

//===----------------------------------------------------------------------===//
// session
//===----------------------------------------------------------------------===//

def FormKvCache : Pass<"llmc-form-kv-cache", "::mlir::ModuleOp"> {
  let summary = "Make an entry that keeps keys and values between calls";
  let description = [{
    **Needs**: roles (`llmc-assign-roles`), recovered attention.
    **Leaves**: beside the entry `run` an entry `session` for one sequence. It takes token ids,
    counts positions from the past, lets every token see what is before it, appends new keys and
    values to caches and gives the logits of the last position. There is none when some past is
    used otherwise than as the front of an attention's keys or values; then nothing changes.
    **Example**: of
    ```mlir
    func.func private @main(%ids: tensor<?x?xi64, #llm.dims<[s0, s1]>> {llm.role = "ids"})
        attributes {rt.entry = "run"}
    ```
    the entry `session` takes `tensor<1x?xi64, #llm.dims<[1, s3]>>`, `s3` being a `session_seq`.
  }];
  let options = [
    Option<"remarks", "remarks", "bool", "false", "Say why there is no session">,
  ];
  let statistics = [Statistic<"numCaches", "num-caches", "Caches of the session">];
}

def FuseAppends : Pass<"llmc-fuse-appends", "::mlir::ModuleOp"> {
  let summary = "One kernel for what a cache gets and what asks it";
  let description = [{
    **Needs**: caches (`llmc-form-kv-cache`).
    **Leaves**: in front of an attention over caches one `llm.fusion` that holds the appends to
    them, and slices and rotary embeddings that lead to appends or to the query.
    **Example**: of
    ```mlir
    llm.kv_append %keys, %k past <[s1]>
        : !llm.kv<2 x 64 x f32>, tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>
    ```
    and its like for the values one fusion remains.
  }];
  let statistics = [Statistic<"numFusions", "num-fusions", "Fusions made">];
}

def HoistReshapes : Pass<"llmc-hoist-reshapes", "::mlir::ModuleOp"> {
  let summary = "Move reshapes from behind matrix products to the front";
  let description = [{
    **Needs**: legal `llm` ops.
    **Leaves**: products, and elementwise ops behind them, in the form that is asked for
    afterwards; reshapes that regroup dimensions before the last stand in front of products, where
    they often cancel.
    **Example**: of
    ```mlir
    %m = llm.matmul %x, %w : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
    %r = llm.reshape %m : tensor<6x8xf32> -> tensor<2x3x8xf32>
    ```
    remains a product of a `tensor<2x3x4xf32>`.
  }];
}

def LayoutKvCache : Pass<"llmc-layout-kv-cache", "::mlir::ModuleOp"> {
  let summary = "Decide how caches are stored";
  let description = [{
    **Needs**: caches (`llmc-form-kv-cache`), and that no attention changes any more.
    **Leaves**: f32 caches stored as `format`; those that attentions read as keys lie by columns.
    **Example**: with `format=f16`
    ```mlir
    %k = rt.kv 0 : !llm.kv<2 x 64 x f32>
    ```
    becomes
    ```mlir
    %k = rt.kv 0 : !llm.kv<2 x 64 x f16, columns = true>
    ```
  }];
  let options = [
    Option<"format", "format", "std::string", "\"f32\"", "Storage of cached elements: f32, f16 or bf16">,
  ];
  let statistics = [Statistic<"numColumns", "num-columns", "Caches stored by columns">];
}

def AssignRoles : Pass<"llmc-assign-roles", "::mlir::ModuleOp"> {
  let summary = "Say what inputs and outputs mean to a generation loop";
  let description = [{
    **Needs**: functions whose arguments and results have `llm.name`.
    **Leaves**: `llm.role` on those that are token ids, positions, masks, cache or logits; pasts and
    presents name each other by `llm.pair` and the dimension that grows by `llm.cache_axis`. Names
    are those of the exporters; types decide where names are ambiguous.
    **Example**: an argument `{llm.name = "input_ids"}` gets `llm.role = "ids"`.
    ```mlir
    func.func private @main(%ids: tensor<1x4xi64> {llm.name = "input_ids", llm.role = "ids"})
    ```
  }];
}

#endif // LLMC_PASSES_PASSES_TD
