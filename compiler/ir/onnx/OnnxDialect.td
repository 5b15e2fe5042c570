// SPDX-License-Identifier: Apache-2.0
//
// The `onnx` dialect: one generic node that mirrors an ONNX NodeProto without
// giving it meaning. Invariant: any model can be written in it, so importing
// never depends on which operators the compiler knows.
#ifndef LLMC_IR_ONNX_ONNX_DIALECT_TD
#define LLMC_IR_ONNX_ONNX_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Onnx_Dialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::llmc::onnx";
  let summary = "ONNX graphs as written in the file, without meaning";
  let description = [{
    A model is a module with the attributes `onnx.ir_version`, `onnx.opsets` and
    `onnx.producer`, and one function `@main`. Each argument and result of
    `@main` has `onnx.name` and, where the file gives a shape, `onnx.dims`: a
    string for a dim_param, an integer for a dim_value, `""` for an unknown
    dim. A result also has `onnx.type`, its declared type. Everything computed
    by a node is an `!onnx.value`; the legalizer works out the types.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

//===-- Types -------------------------------------------------------------===//

class Onnx_Type<string name, string typeMnemonic> : TypeDef<Onnx_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Onnx_ValueType : Onnx_Type<"Value", "value"> {
  let summary = "What a node computes, of a type not worked out yet";
}

def Onnx_UnsupportedType : Onnx_Type<"Unsupported", "unsupported"> {
  let summary = "A type of ONNX that the compiler has no equivalent for";
  let description = [{
    The text is the type as ONNX writes it, e.g. `seq(tensor(float))`. A tensor
    of strings is a `tensor` with this as its element type, so that its shape is kept.
  }];
  let parameters = (ins StringRefParameter<"type in ONNX's notation">:$text);
  let assemblyFormat = "`<` $text `>`";
}

//===-- Attributes --------------------------------------------------------===//

class Onnx_Attr<string name, string attrMnemonic> : AttrDef<Onnx_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Onnx_TensorAttr : Onnx_Attr<"Tensor", "tensor"> {
  let summary = "A tensor attribute whose bytes are in the WeightStore";
  let parameters = (ins StringRefParameter<"key in the WeightStore">:$key, "::mlir::Type":$type);
  let assemblyFormat = "`<` $key `:` $type `>`";
}

def Onnx_SparseAttr : Onnx_Attr<"Sparse", "sparse"> {
  let summary = "A sparse tensor attribute in coordinate form";
  let description = [{
    `values` and `indices` are dense elements or `#onnx.tensor`. Indices are
    linear (rank 1) or coordinates (rank 2), ascending.
  }];
  let parameters = (ins "::mlir::Attribute":$values, "::mlir::Attribute":$indices,
                        "::mlir::DenseI64ArrayAttr":$dims);
  let assemblyFormat = "`<` $values `,` $indices `,` $dims `>`";
}

//===-- Operations --------------------------------------------------------===//

class Onnx_Op<string opMnemonic, list<Trait> traits = []> : Op<Onnx_Dialect, opMnemonic, traits>;

def Onnx_NodeOp : Onnx_Op<"node"> {
  let summary = "One node of an ONNX graph";
  let description = [{
    `version` is the opset version of `domain` in force where the node stands
    (a local function has its own imports). `domain` `"ai.onnx"` is written `""`.
    An absent optional input is the `none` value of `onnx.none`; absent inputs
    at the end are dropped; an absent output is a result with the name `""`.
    Graph attributes are regions, in the order of `region_names` (a GRAPHS
    attribute repeats its name); they use values of the enclosing graphs directly.
    `attrs` holds the others: i64, f32, strings, `array<i64>`, `array<f32>`,
    arrays of strings, dense elements or `#onnx.tensor`, `#onnx.sparse`, types.
    ```mlir
    %0 = onnx.node "Clip"(%x, %none, %max) {version = 13 : i64, output_names = ["y"]}
        : (tensor<?xf32>, none, tensor<f32>) -> !onnx.value
    ```
  }];
  let arguments = (ins StrAttr:$op_type, DefaultValuedStrAttr<StrAttr, "">:$domain,
      I64Attr:$version, DefaultValuedStrAttr<StrAttr, "">:$node_name, StrArrayAttr:$output_names,
      DefaultValuedAttr<DictionaryAttr, "{}">:$attrs,
      DefaultValuedAttr<StrArrayAttr, "{}">:$region_names, Variadic<AnyType>:$inputs);
  let results = (outs Variadic<Onnx_ValueType>:$outputs);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let assemblyFormat = [{
    $op_type `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) ($bodies^)?
  }];
  let hasVerifier = 1;
}

def Onnx_NoneOp : Onnx_Op<"none", [Pure]> {
  let summary = "The value of an absent optional input";
  let description = [{
    ```mlir
    %none = onnx.none : none
    ```
  }];
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Onnx_WeightOp : Onnx_Op<"weight", [Pure]> {
  let summary = "An initializer or the value of a Constant node";
  let description = [{
    The bytes are those of `key` in the WeightStore. Tensors of at most 4 KB
    also carry them as `value`, so that shape arithmetic folds. A tensor of
    strings has no bytes: it has a `value` and an empty `key`.
    ```mlir
    %axes = onnx.weight "axes" {value = dense<1> : tensor<1xi64>} : tensor<1xi64>
    ```
  }];
  let arguments = (ins StrAttr:$key, OptionalAttr<ElementsAttr>:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$key attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Onnx_YieldOp : Onnx_Op<"yield", [Pure, ReturnLike, Terminator, HasParent<"NodeOp">]> {
  let summary = "The outputs of a graph attribute";
  let description = [{
    ```mlir
    onnx.yield %condition, %carried : !onnx.value, tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$outputs);
  let assemblyFormat = "($outputs^ `:` type($outputs))? attr-dict";
}

#endif // LLMC_IR_ONNX_ONNX_DIALECT_TD
