// SPDX-License-Identifier: Apache-2.0
//
// The `rt` dialect: a program as the bundle stores it. Entries are `func.func`
// with the attribute `rt.entry`; every tensor value is one buffer, every op
// except the first family is one instruction.
#ifndef LLMC_COMPILER_IR_RT_OPS_TD
#define LLMC_COMPILER_IR_RT_OPS_TD

include "compiler/ir/llm/LlmDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Rt_Dialect : Dialect {
  let name = "rt";
  let cppNamespace = "::llmc::rt";
  let summary = "Runtime programs";
  let description = [{
    What is left after the graph passes: straight-line lists of dispatches, copies, transfers and
    waits over buffers, and one `rt.kernel` per distinct computation.
  }];
  let dependentDialects = ["::llmc::llm::LlmDialect"];
}

class Rt_Op<string mnemonic, list<Trait> traits = []> : Op<Rt_Dialect, mnemonic, traits>;

def Rt_WeightOp : Rt_Op<"weight", [Pure]> {
  let summary = "A weight in the form that its kernels read";
  let description = [{
    `key` names the bytes in the weight store; `layout` says how codegen packed them (`plain`:
    row-major) and `format` to what they were quantized before. `transposed` says that the tensor's
    rows, not its columns, are a product's columns. Equal (key, layout, type) are stored once.
    ```mlir
    %w = rt.weight "fc.weight" layout "f32.16" : tensor<64x128xf32>
    %q = rt.weight "fc.weight" layout "q4.64.16" format "int4:g64" : tensor<64x128xf32, "q4.64.16">
    ```
  }];
  let arguments = (ins StrAttr:$key, StrAttr:$layout, OptionalAttr<StrAttr>:$format,
                       UnitAttr:$transposed);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = [{
    $key `layout` $layout (`format` $format^)? (`transposed` $transposed^)? attr-dict `:` type($result)
  }];
}

def Rt_ConstantOp : Rt_Op<"constant", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "A small constant buffer";
  let description = [{
    Its bytes are stored with the weights.
    ```mlir
    %c = rt.constant dense<[1, 2]> : tensor<2xi64>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "attr-dict $value";
}

def Rt_KvOp : Rt_Op<"kv", [Pure]> {
  let summary = "A cache of the running session";
  let description = [{
    `index` numbers the caches of an entry.
    ```mlir
    %k = rt.kv 0 : !llm.kv<2 x 64 x f32>
    ```
  }];
  let arguments = (ins I64Attr:$index);
  let results = (outs Llm_KvType:$result);
  let assemblyFormat = "$index attr-dict `:` type($result)";
}

def Rt_ViewOp : Rt_Op<"view", [Pure]> {
  let summary = "The same buffer under another type";
  let description = [{
    ```mlir
    %v = rt.view %x : tensor<2x12xf32> -> tensor<2x3x4xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Rt_DispatchOp : Rt_Op<"dispatch", []> {
  let summary = "One kernel call";
  let description = [{
    Operands are the kernel's inputs, results its outputs. `device` names the instance that runs it,
    `scalars` gives the values of the kernel's own sizes s0, s1, ….
    ```mlir
    %r = rt.dispatch @matmul on "cpu0" <[]> (%x, %w)
        : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, StrAttr:$device, Llm_DimsAttr:$scalars,
                       Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $kernel `on` $device $scalars `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Rt_TransferOp : Rt_Op<"transfer", [AllTypesMatch<["input", "result"]>]> {
  let summary = "A copy to another device's memory";
  let description = [{
    ```mlir
    %r = rt.transfer %x to "cpu1" : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$device);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `to` $device attr-dict `:` type($input)";
}

def Rt_WaitOp : Rt_Op<"wait", []> {
  let summary = "Waits until a device has finished what it was given";
  let description = [{
    ```mlir
    rt.wait "cpu0"
    ```
  }];
  let arguments = (ins StrAttr:$device);
  let assemblyFormat = "$device attr-dict";
}

def Rt_KernelOp : Rt_Op<"kernel", [IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "The body of one device function";
  let description = [{
    Block arguments are the inputs, the operands of `rt.yield` the outputs. Sizes in its types are
    the kernel's own symbols s0, s1, …: `sizes` gives their number, and a dispatch passes them as
    `scalars` in that order.
    ```mlir
    rt.kernel @k label "add" sizes 1 {
    ^bb0(%a: tensor<?xf32, #llm.dims<[s0]>>):
      %r = llm.elementwise add(%a, %a) : (tensor<?xf32, #llm.dims<[s0]>>, tensor<?xf32, #llm.dims<[s0]>>)
          -> tensor<?xf32, #llm.dims<[s0]>>
      rt.yield %r : tensor<?xf32, #llm.dims<[s0]>>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$label, I64Attr:$sizes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `label` $label `sizes` $sizes attr-dict-with-keyword $body";
}

def Rt_YieldOp : Rt_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "The outputs of a kernel";
  let description = [{
    ```mlir
    rt.yield %r : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // LLMC_COMPILER_IR_RT_OPS_TD
