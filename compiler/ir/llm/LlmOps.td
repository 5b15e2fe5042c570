// SPDX-License-Identifier: Apache-2.0
//
// The ops of the `llm` dialect by family: weights and constants, elementwise,
// shape, contraction, reduction, norms, attention.
#ifndef LLMC_COMPILER_IR_LLM_OPS_TD
#define LLMC_COMPILER_IR_LLM_OPS_TD

include "compiler/ir/llm/LlmDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Llm_Op<string mnemonic, list<Trait> traits = []> : Op<Llm_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Weights and constants
//===----------------------------------------------------------------------===//

def Llm_WeightOp : Llm_Op<"weight", [Pure]> {
  let summary = "A tensor of the weight store";
  let description = [{
    The bytes stay in the `WeightStore` under `key`; the IR holds name and type only.
    ```mlir
    %w = llm.weight "model.embed_tokens.weight" : tensor<32000x64xf32>
    ```
  }];
  let arguments = (ins StrAttr:$key);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$key attr-dict `:` type($result)";
}

def Llm_ConstantOp : Llm_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "A small constant tensor";
  let description = [{
    ```mlir
    %c = llm.constant dense<[1, 2]> : tensor<2xi64>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyStaticShapeTensor:$result);
  let hasFolder = 1;
  let assemblyFormat = "attr-dict $value";
  let builders = [OpBuilder<(ins "::mlir::DenseElementsAttr":$value), [{
    build($_builder, $_state, value.getType(), value);
  }]>];
}

def Llm_DequantizeOp : Llm_Op<"dequantize", [Pure, AttrSizedOperandSegments]> {
  let summary = "Numbers that integers or narrow floats stand for";
  let description = [{
    `(input - zero) * scale`, the difference in i32 for integers, the product in f32. `scale` and
    `zero` have one element, or one for each index of `axis`, or, with a `block`, the input's rank
    and one element for `block` of its indices along `axis`. Without a scale the result is the i32
    difference. The result may be shorter than the input along `axis`: what is left is padding.
    Weights are replaced by what they stand for while a model is read.
    ```mlir
    %r = llm.dequantize %w scale %s axis 1 block 32 : tensor<8x64xi4>, tensor<8x2xf32> -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$scale,
                       Optional<AnyRankedTensor>:$zero, I64Attr:$axis,
                       DefaultValuedAttr<I64Attr, "0">:$block);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $input (`scale` $scale^)? (`zero` $zero^)? `axis` $axis (`block` $block^)? attr-dict
    `:` type($input) (`,` type($scale)^)? (`,` type($zero)^)? `->` type($result)
  }];
}

def Llm_SizesOp : Llm_Op<"sizes", [Pure]> {
  let summary = "Run-time sizes as an integer tensor";
  let description = [{
    What is left of an exporter's shape arithmetic when its value is used as data.
    The result has rank 0 or 1 and one element per expression.
    ```mlir
    %s = llm.sizes <[s0, s1 + s2]> : tensor<2xi64>
    ```
  }];
  let arguments = (ins Llm_DimsAttr:$values);
  let results = (outs AnyStaticShapeTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$values attr-dict `:` type($result)";
}

def Llm_IotaOp : Llm_Op<"iota", [Pure]> {
  let summary = "An arithmetic sequence";
  let description = [{
    `result[i] = start + i * step`, rank 1.
    ```mlir
    %p = llm.iota <[s1]> step 1 : tensor<?xi64, #llm.dims<[s0]>>
    ```
  }];
  let arguments = (ins Llm_DimsAttr:$start, DefaultValuedAttr<I64Attr, "1">:$step);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$start `step` $step attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

def Llm_ElementKind : I32EnumAttr<"ElementKind", "scalar function", [
    // One operand, result of the operand's type unless said otherwise.
    I32EnumAttrCase<"Abs", 0, "abs">, I32EnumAttrCase<"Neg", 1, "neg">,
    I32EnumAttrCase<"Exp", 2, "exp">, I32EnumAttrCase<"Log", 3, "log">,
    I32EnumAttrCase<"Sqrt", 4, "sqrt">, I32EnumAttrCase<"Rsqrt", 5, "rsqrt">,
    I32EnumAttrCase<"Reciprocal", 6, "reciprocal">, I32EnumAttrCase<"Sin", 7, "sin">,
    I32EnumAttrCase<"Cos", 8, "cos">, I32EnumAttrCase<"Tan", 9, "tan">,
    I32EnumAttrCase<"Tanh", 10, "tanh">, I32EnumAttrCase<"Sigmoid", 11, "sigmoid">,
    I32EnumAttrCase<"Erf", 12, "erf">, I32EnumAttrCase<"Relu", 13, "relu">,
    I32EnumAttrCase<"Gelu", 14, "gelu">, I32EnumAttrCase<"GeluTanh", 15, "gelu_tanh">,
    I32EnumAttrCase<"Silu", 16, "silu">, I32EnumAttrCase<"Floor", 17, "floor">,
    I32EnumAttrCase<"Ceil", 18, "ceil">, I32EnumAttrCase<"Round", 19, "round">,
    I32EnumAttrCase<"Sign", 20, "sign">, I32EnumAttrCase<"Not", 21, "not">,
    I32EnumAttrCase<"IsNan", 22, "isnan">, I32EnumAttrCase<"IsInf", 23, "isinf">,
    I32EnumAttrCase<"Cast", 24, "cast">, I32EnumAttrCase<"BitNot", 25, "bitnot">,
    I32EnumAttrCase<"Acos", 26, "acos">, I32EnumAttrCase<"Acosh", 27, "acosh">,
    I32EnumAttrCase<"Asin", 28, "asin">, I32EnumAttrCase<"Asinh", 29, "asinh">,
    I32EnumAttrCase<"Atan", 30, "atan">, I32EnumAttrCase<"Atanh", 31, "atanh">,
    I32EnumAttrCase<"Cosh", 32, "cosh">, I32EnumAttrCase<"Sinh", 33, "sinh">,
    // Two operands of one type.
    I32EnumAttrCase<"Add", 40, "add">, I32EnumAttrCase<"Sub", 41, "sub">,
    I32EnumAttrCase<"Mul", 42, "mul">, I32EnumAttrCase<"Div", 43, "div">,
    I32EnumAttrCase<"Pow", 44, "pow">, I32EnumAttrCase<"Mod", 45, "mod">,
    I32EnumAttrCase<"Fmod", 46, "fmod">, I32EnumAttrCase<"Min", 47, "min">,
    I32EnumAttrCase<"Max", 48, "max">, I32EnumAttrCase<"And", 49, "and">,
    I32EnumAttrCase<"Or", 50, "or">, I32EnumAttrCase<"Xor", 51, "xor">,
    I32EnumAttrCase<"Shl", 52, "shl">, I32EnumAttrCase<"Shr", 53, "shr">,
    // Two operands of one type, boolean result.
    I32EnumAttrCase<"Equal", 60, "eq">, I32EnumAttrCase<"Less", 61, "lt">,
    I32EnumAttrCase<"LessEqual", 62, "le">, I32EnumAttrCase<"Greater", 63, "gt">,
    I32EnumAttrCase<"GreaterEqual", 64, "ge">,
    // Three operands.
    I32EnumAttrCase<"Select", 80, "select">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::llmc::llm";
}

def Llm_ElementwiseOp : Llm_Op<"elementwise", [Pure]> {
  let summary = "A scalar function applied with numpy broadcasting";
  let description = [{
    `kind` names the function. Integer division truncates; `mod` has the sign of
    the divisor, `fmod` that of the dividend; `round` is half to even; `min` and
    `max` propagate NaN; `cast` saturates nothing and truncates towards zero, to `i1`
    it tests for not 0; `and`, `or`, `xor` are bitwise, `shl` and `shr` shift zeros in
    (all bits out from a distance of the width on);
    `select` takes an `i1` condition first. `i1` counts as the integers 0 and 1.
    ```mlir
    %r = llm.elementwise add(%a, %b) : (tensor<4x1xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    ```
  }];
  let arguments = (ins EnumAttr<Llm_Dialect, Llm_ElementKind, "element_kind">:$kind,
                       Variadic<AnyRankedTensor>:$operands_);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$kind `(` $operands_ `)` attr-dict `:` functional-type($operands_, $result)";
  let hasCanonicalizer = 1;
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

class Llm_UnaryShapeOp<string mnemonic, list<Trait> traits = []>
    : Llm_Op<mnemonic, !listconcat([Pure], traits)> {
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Llm_ReshapeOp : Llm_UnaryShapeOp<"reshape"> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{
    ```mlir
    %r = llm.reshape %x : tensor<2x12xf32> -> tensor<2x3x4xf32>
    ```
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Llm_BroadcastOp : Llm_UnaryShapeOp<"broadcast"> {
  let summary = "Numpy broadcasting to a shape";
  let description = [{
    ```mlir
    %r = llm.broadcast %x : tensor<1x3xf32> -> tensor<4x3xf32>
    ```
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Llm_TileOp : Llm_UnaryShapeOp<"tile"> {
  let summary = "Repetition along each dimension";
  let description = [{
    `result[i, j] = input[i mod d0, j mod d1]`; the ranks are equal.
    ```mlir
    %r = llm.tile %x : tensor<2x3xf32> -> tensor<4x9xf32>
    ```
  }];
}

def Llm_TransposeOp : Llm_Op<"transpose", [Pure]> {
  let summary = "Permutation of the dimensions";
  let description = [{
    `result` dimension `i` is `input` dimension `permutation[i]`.
    ```mlir
    %r = llm.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasCanonicalizer = 1;
}

def Llm_SliceOp : Llm_Op<"slice", [Pure]> {
  let summary = "A strided box of the input";
  let description = [{
    `result[i] = input[starts + i * steps]` in every dimension; starts are already
    clamped and steps may be negative. The result's type gives the sizes.
    ```mlir
    %r = llm.slice %x <[0, 2]> [1, -1] : tensor<4x3xf32> -> tensor<4x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Llm_DimsAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs AnyRankedTensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
  let assemblyFormat = "$input $starts $steps attr-dict `:` type($input) `->` type($result)";
  let hasCanonicalizer = 1;
}

def Llm_ConcatOp : Llm_Op<"concat", [Pure]> {
  let summary = "Concatenation along a dimension";
  let description = [{
    ```mlir
    %r = llm.concat axis 1 (%a, %b) : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins I64Attr:$axis, Variadic<AnyRankedTensor>:$inputs);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "`axis` $axis `(` $inputs `)` attr-dict `:` functional-type($inputs, $result)";
  let hasCanonicalizer = 1;
}

def Llm_PadMode : I32EnumAttr<"PadMode", "what padding holds", [
    I32EnumAttrCase<"Constant", 0, "constant">, I32EnumAttrCase<"Reflect", 1, "reflect">,
    I32EnumAttrCase<"Edge", 2, "edge">, I32EnumAttrCase<"Wrap", 3, "wrap">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::llmc::llm";
}

def Llm_PadOp : Llm_Op<"pad", [Pure]> {
  let summary = "Padding before and after each dimension";
  let description = [{
    `low[i]` elements before dimension `i` (negative: cut); the result's type gives what comes
    after. `value` is a scalar for mode `constant`, zero when absent.
    ```mlir
    %r = llm.pad %x constant <[1, 0]> : tensor<2x3xf32> -> tensor<4x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$value,
                       EnumAttr<Llm_Dialect, Llm_PadMode, "pad_mode">:$mode, Llm_DimsAttr:$low);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input (`value` $value^ `:` type($value))? $mode $low attr-dict `:` type($input) `->` type($result)
  }];
}

def Llm_TriluOp : Llm_Op<"trilu", [Pure]> {
  let summary = "Upper or lower triangle of the last two dimensions";
  let description = [{
    Keeps elements with `j - i >= diagonal` (`upper`) or `j - i <= diagonal`; others become 0.
    ```mlir
    %r = llm.trilu %x upper 1 : tensor<3x3xf32> -> tensor<3x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, UnitAttr:$upper, I64Attr:$diagonal);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input (`upper` $upper^)? $diagonal attr-dict `:` type($input) `->` type($result)";
}

def Llm_GatherOp : Llm_Op<"gather", [Pure]> {
  let summary = "Slices of the input chosen by index along one dimension";
  let description = [{
    `result[p, q, r] = input[p, indices[q], r]` where `q` has the rank of `indices`.
    Negative indices count from the end; one outside the axis is an error of the call.
    ```mlir
    %r = llm.gather %table[%ids] axis 0 : tensor<100x8xf32>, tensor<2x3xi64> -> tensor<2x3x8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$indices, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `[` $indices `]` `axis` $axis attr-dict `:` type($input) `,` type($indices) `->` type($result)
  }];
}

def Llm_GatherElementsOp : Llm_Op<"gather_elements", [Pure]> {
  let summary = "One element per index along one dimension";
  let description = [{
    `result[i, j] = input[indices[i, j], j]` for axis 0; ranks are equal.
    ```mlir
    %r = llm.gather_elements %x[%i] axis 1 : tensor<2x3xf32>, tensor<2x1xi64> -> tensor<2x1xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$indices, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `[` $indices `]` `axis` $axis attr-dict `:` type($input) `,` type($indices) `->` type($result)
  }];
}

def Llm_GatherNdOp : Llm_Op<"gather_nd", [Pure]> {
  let summary = "Slices of the input chosen by index tuples";
  let description = [{
    The last dimension of `indices` holds tuples that index the input's dimensions after
    `batch_dims`.
    ```mlir
    %r = llm.gather_nd %x[%i] batch_dims 0 : tensor<2x3xf32>, tensor<5x2xi64> -> tensor<5xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$indices, I64Attr:$batchDims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `[` $indices `]` `batch_dims` $batchDims attr-dict
    `:` type($input) `,` type($indices) `->` type($result)
  }];
}

def Llm_ScatterReduction : I32EnumAttr<"ScatterReduction", "how an update meets the element", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Add", 1, "add">,
    I32EnumAttrCase<"Mul", 2, "mul">, I32EnumAttrCase<"Max", 3, "max">,
    I32EnumAttrCase<"Min", 4, "min">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::llmc::llm";
}

def Llm_ScatterElementsOp : Llm_Op<"scatter_elements", [Pure]> {
  let summary = "Elements replaced or combined by index along one dimension";
  let description = [{
    Starts from `input`; `result[indices[i, j], j] op= updates[i, j]` for axis 0, in row-major
    order of `updates`.
    ```mlir
    %r = llm.scatter_elements %x[%i] %u add axis 0
        : tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf32> -> tensor<4x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$indices, AnyRankedTensor:$updates,
                       EnumAttr<Llm_Dialect, Llm_ScatterReduction, "scatter_reduction">:$reduction,
                       I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `[` $indices `]` $updates $reduction `axis` $axis attr-dict
    `:` type($input) `,` type($indices) `,` type($updates) `->` type($result)
  }];
}

def Llm_ScatterNdOp : Llm_Op<"scatter_nd", [Pure]> {
  let summary = "Slices replaced or combined by index tuples";
  let description = [{
    Starts from `input`; each tuple in the last dimension of `indices` names a slice that takes the
    corresponding part of `updates`, in row-major order.
    ```mlir
    %r = llm.scatter_nd %x[%i] %u none
        : tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32> -> tensor<4x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$indices, AnyRankedTensor:$updates,
                       EnumAttr<Llm_Dialect, Llm_ScatterReduction, "scatter_reduction">:$reduction);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `[` $indices `]` $updates $reduction attr-dict
    `:` type($input) `,` type($indices) `,` type($updates) `->` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// Contraction
//===----------------------------------------------------------------------===//

def Llm_MatmulOp : Llm_Op<"matmul", [Pure]> {
  let summary = "Matrix product over the last two dimensions, batch dimensions broadcast";
  let description = [{
    `result[.., m, n] = sum_k lhs[.., m, k] * rhs[.., k, n]`, accumulated in f32 (f64 for f64).
    With `transpose_rhs` the right side is stored `[.., n, k]`. Both ranks are at least 2.
    With `quantized` the left side is what `llm.quantize` makes of an f32 tensor with that group;
    the product is that of the quantized values, added exactly within a group.
    ```mlir
    %r = llm.matmul %a, %b transpose_rhs : tensor<2x4x8xf32>, tensor<16x8xf32> -> tensor<2x4x16xf32>
    %q = llm.quantize %x group 64 : tensor<4x100xf32> -> tensor<4x160xui8>
    %s = llm.matmul %q, %w quantized 64 : tensor<4x160xui8>, tensor<100x16xf32> -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, UnitAttr:$transposeRhs,
                       OptionalAttr<I64Attr>:$quantized);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $lhs `,` $rhs (`transpose_rhs` $transposeRhs^)? (`quantized` $quantized^)? attr-dict
    `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasCanonicalizer = 1;
}

def Llm_QuantizeOp : Llm_Op<"quantize", [Pure]> {
  let summary = "Rows in 8 bits, for products with quantized weights";
  let description = [{
    Cuts the last dimension into groups and rounds each (half to even) to integers in [-127, 127]
    with a scale of its own, max|x| / 127. A group that holds NaN or an infinity gets the scale NaN.
    The result is opaque: a record per group with what kernels read (`QuantizedRows.h`).
    ```mlir
    %q = llm.quantize %x group 64 : tensor<4x100xf32> -> tensor<4x160xui8>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$group);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$input `group` $group attr-dict `:` type($input) `->` type($result)";
}

def Llm_ConvOp : Llm_Op<"conv", [Pure]> {
  let summary = "Convolution over the dimensions after the first two";
  let description = [{
    `input` is `(batch, groups * c, sizes…)`, `weight` `(outputs, c, taps…)`; output channel `o` sees
    the channels of group `o / (outputs / groups)`. Position `p` reads `input[p * stride + tap *
    dilation - low]`, and 0 outside. Sums are i32 or f32 (f64 for f64), taps inside channels.
    ```mlir
    %y = llm.conv %x, %w strides [2] dilations [1] low <[1]> groups 1
        : tensor<1x8x100xf32>, tensor<16x8x3xf32> -> tensor<1x16x50xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$weight, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, Llm_DimsAttr:$low, I64Attr:$groups);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $input `,` $weight `strides` $strides `dilations` $dilations `low` $low `groups` $groups attr-dict
    `:` type($input) `,` type($weight) `->` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// Reduction
//===----------------------------------------------------------------------===//

def Llm_ReduceKind : I32EnumAttr<"ReduceKind", "reduction", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"Prod", 4, "prod">, I32EnumAttrCase<"L1", 5, "l1">,
    I32EnumAttrCase<"L2", 6, "l2">, I32EnumAttrCase<"SumSquare", 7, "sum_square">,
    I32EnumAttrCase<"LogSum", 8, "log_sum">, I32EnumAttrCase<"LogSumExp", 9, "log_sum_exp">,
    I32EnumAttrCase<"ArgMax", 10, "argmax">, I32EnumAttrCase<"ArgMin", 11, "argmin">]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::llmc::llm";
}

def Llm_ReduceOp : Llm_Op<"reduce", [Pure]> {
  let summary = "Reduction over dimensions, which stay with size 1";
  let description = [{
    Accumulates in f32 for narrower floats. Empty reductions give the neutral element (`max`:
    -inf or the smallest integer). `argmax`/`argmin` reduce one axis to an i64 index, the first
    one of equals unless `last_index`.
    ```mlir
    %r = llm.reduce mean %x axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
    ```
  }];
  let arguments = (ins EnumAttr<Llm_Dialect, Llm_ReduceKind, "reduce_kind">:$kind,
                       AnyRankedTensor:$input, DenseI64ArrayAttr:$axes, UnitAttr:$lastIndex);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $kind $input `axes` $axes (`last_index` $lastIndex^)? attr-dict `:` type($input) `->` type($result)
  }];
}

def Llm_SoftmaxOp : Llm_Op<"softmax", [Pure]> {
  let summary = "Softmax along one dimension";
  let description = [{
    `exp(x - max) / sum(exp(x - max))` in f32 (f64 for f64); `log` gives its logarithm.
    ```mlir
    %r = llm.softmax %x axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, UnitAttr:$log);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `axis` $axis (`log` $log^)? attr-dict `:` type($input) `->` type($result)";
}

def Llm_CumsumOp : Llm_Op<"cumsum", [Pure]> {
  let summary = "Cumulative sum along one dimension";
  let description = [{
    ```mlir
    %r = llm.cumsum %x axis 0 exclusive : tensor<4xf32> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `axis` $axis (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict
    `:` type($input) `->` type($result)
  }];
}

def Llm_TopKOp : Llm_Op<"topk", [Pure]> {
  let summary = "The k largest or smallest elements along one dimension, in order";
  let description = [{
    Equal elements keep the order of their indices. `k` is the size of the result's axis.
    ```mlir
    %v, %i = llm.topk %x axis 1 : tensor<4x8xf32> -> tensor<4x2xf32>, tensor<4x2xi64>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, UnitAttr:$smallest);
  let results = (outs AnyRankedTensor:$values, AnyRankedTensor:$indices);
  let assemblyFormat = [{
    $input `axis` $axis (`smallest` $smallest^)? attr-dict
    `:` type($input) `->` type($values) `,` type($indices)
  }];
}

//===----------------------------------------------------------------------===//
// Norms and positions
//===----------------------------------------------------------------------===//

def Llm_LayerNormOp : Llm_Op<"layer_norm", [Pure, AttrSizedOperandSegments]> {
  let summary = "Layer normalisation over the trailing dimensions from `axis`";
  let description = [{
    `(x - mean(x)) / sqrt(variance(x) + epsilon) * scale + bias`, statistics in f32.
    ```mlir
    %y = llm.layer_norm %x scale %s bias %b axis 1 epsilon 1.0e-5
        : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$scale,
                       Optional<AnyRankedTensor>:$bias, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input (`scale` $scale^)? (`bias` $bias^)? `axis` $axis `epsilon` $epsilon attr-dict
    `:` type($input) (`,` type($scale)^)? (`,` type($bias)^)? `->` type($result)
  }];
}

def Llm_RmsNormOp : Llm_Op<"rms_norm", [Pure]> {
  let summary = "Root-mean-square normalisation over the trailing dimensions from `axis`";
  let description = [{
    `x / sqrt(mean(x^2) + epsilon) * scale`, the mean in f32.
    ```mlir
    %y = llm.rms_norm %x scale %s axis 1 epsilon 1.0e-6 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$scale, I64Attr:$axis,
                       F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input (`scale` $scale^)? `axis` $axis `epsilon` $epsilon attr-dict
    `:` type($input) (`,` type($scale)^)? `->` type($result)
  }];
}

def Llm_RopeOp : Llm_Op<"rope", [Pure]> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates the first `2 * r` elements of the last dimension (`r` = last dimension of `cos`), the
    rest passes. Pairs are `(i, i + r)`, or `(2 i, 2 i + 1)` when `interleaved`:
    `a' = a * cos - b * sin`, `b' = b * cos + a * sin`. `cos` and `sin` broadcast against the
    input's other dimensions.
    ```mlir
    %y = llm.rope %x, %cos, %sin : tensor<2x4x8x16xf32>, tensor<2x1x8x8xf32>, tensor<2x1x8x8xf32>
        -> tensor<2x4x8x16xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$cos, AnyRankedTensor:$sin,
                       UnitAttr:$interleaved);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `,` $cos `,` $sin (`interleaved` $interleaved^)? attr-dict
    `:` type($input) `,` type($cos) `,` type($sin) `->` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Llm_AttentionOp : Llm_Op<"attention", [Pure]> {
  let summary = "Scaled dot-product attention with grouped heads";
  let description = [{
    `query` is `(batch, heads, queries, size)`, `key` `(batch, kv_heads, keys, size)`, `value`
    `(batch, kv_heads, keys, value_size)`; `heads` is a multiple of `kv_heads`. Scores are
    `scale * q.k`, soft-capped, then masked, then softmaxed in f32. `mask` broadcasts to
    `(batch, heads, queries, keys)` and is added (float) or decides visibility (i1). With `causal`
    key `j` is visible to query `i` iff `j <= i + offset`, and, with a `window`, iff
    `j > i + offset - window`. A query that sees nothing gives zeros.
    `key` and `value` may instead be caches (`!llm.kv`), of which the first `keys` tokens count.
    With `heads_last` query and result are `(batch, queries, heads, size)`.
    ```mlir
    %y = llm.attention %q, %k, %v scale 1.25e-1
        : (tensor<1x4x3x64xf32>, tensor<1x2x3x64xf32>, tensor<1x2x3x64xf32>) -> tensor<1x4x3x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$query, AnyType:$key, AnyType:$value,
                       Optional<AnyRankedTensor>:$mask, F64Attr:$scale,
                       OptionalAttr<Llm_DimsAttr>:$causalOffset, OptionalAttr<I64Attr>:$window,
                       OptionalAttr<F64Attr>:$softcap, OptionalAttr<Llm_DimsAttr>:$keys,
                       UnitAttr:$headsLast);
  let results = (outs AnyRankedTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? `scale` $scale
    (`causal` $causalOffset^)? (`window` $window^)? (`softcap` $softcap^)? (`keys` $keys^)?
    (`heads_last` $headsLast^)? attr-dict `:` functional-type(operands, $result)
  }];
}

def Llm_KvAppendOp : Llm_Op<"kv_append", [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes new tokens behind the past of a cache";
  let description = [{
    `input` is `(1, heads, tokens, size)`, or `(1, tokens, heads, size)` with `heads_last`; token
    `i` lands at position `past + i`.
    ```mlir
    llm.kv_append %cache, %k past <[s1]>
        : !llm.kv<2 x 64 x f32>, tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>
    ```
  }];
  let arguments = (ins Llm_KvType:$cache, AnyRankedTensor:$input, Llm_DimsAttr:$past,
                       UnitAttr:$headsLast);
  let assemblyFormat = [{
    $cache `,` $input `past` $past (`heads_last` $headsLast^)? attr-dict
    `:` type($cache) `,` type($input)
  }];
}

def Llm_KvConcatOp : Llm_Op<"kv_concat", [Pure]> {
  let summary = "New tokens behind a past of another length in each sequence";
  let description = [{
    `past` is `(batch, heads, room, size)`, `fresh` `(batch, heads, tokens, size)`; `lengths[b, 0]`,
    taken into `[0, room]`, says how many tokens of sequence `b`'s past count. Its fresh tokens
    follow these. What lies behind is the past's, or 0 where the result is longer.
    ```mlir
    %k = llm.kv_concat %past, %fresh lengths %n
        : tensor<2x4x8x64xf32>, tensor<2x4x1x64xf32>, tensor<2x1xi64> -> tensor<2x4x9x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$past, AnyRankedTensor:$fresh, AnyRankedTensor:$lengths);
  let results = (outs AnyRankedTensor:$result);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $past `,` $fresh `lengths` $lengths attr-dict
    `:` type($past) `,` type($fresh) `,` type($lengths) `->` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

def Llm_FusionOp : Llm_Op<"fusion", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Ops that become one kernel";
  let description = [{
    The body uses values from outside as they are; what it yields are the results. At most one op
    of it combines elements (product, norm, softmax, reduction, attention); those after it in the
    body are elementwise.
    ```mlir
    %r = llm.fusion -> tensor<4x16xf32> {
      %p = llm.matmul %a, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
      %s = llm.elementwise silu(%p) : (tensor<4x16xf32>) -> tensor<4x16xf32>
      llm.fusion_yield %s : tensor<4x16xf32>
    }
    ```
  }];
  let results = (outs Variadic<AnyRankedTensor>:$results_);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`->` type($results_)^)? $body attr-dict";
}

def Llm_FusionYieldOp : Llm_Op<"fusion_yield", [Pure, Terminator, HasParent<"FusionOp">]> {
  let summary = "The results of a fusion";
  let description = [{
    ```mlir
    llm.fusion_yield %r : tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // LLMC_COMPILER_IR_LLM_OPS_TD
