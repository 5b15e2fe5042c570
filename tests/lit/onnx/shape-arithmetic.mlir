// RUN: llmc-opt %s --llmc-legalize-onnx --split-input-file | FileCheck %s

// A view's shape blob (Shape, Gather, Unsqueeze, Concat, Reshape) becomes one reshape, and the
// composite dim of the mask is read in terms of the plain names, wherever they stand.

// CHECK: llm.symbols = [#llm.symbol<"batch", input>, #llm.symbol<"sequence", input>, #llm.symbol<"past", input>]
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<?xi64, #llm.dims<[s1 + s2]>> {llm.dim_names = ["past + sequence"], llm.name = "mask"}
// CHECK-NEXT: llm.reshape
// CHECK-SAME: -> tensor<?x?x4x2xf32, #llm.dims<[s0, s1, 4, 2]>>
// CHECK-NEXT: return
module {
  func.func @main(%mask: tensor<?xi64> {onnx.name = "mask", onnx.dims = ["past + sequence"]},
                  %x: tensor<?x?x8xf32> {onnx.name = "x", onnx.dims = ["batch", "sequence", 8]},
                  %past: tensor<?xf32> {onnx.name = "past", onnx.dims = ["past"]})
      -> (!onnx.value {onnx.name = "y", onnx.dims = ["batch", "sequence", 4, 2]}) {
    %zero = onnx.weight "zero" {value = dense<0> : tensor<i64>} : tensor<i64>
    %one = onnx.weight "one" {value = dense<1> : tensor<i64>} : tensor<i64>
    %axes = onnx.weight "axes" {value = dense<0> : tensor<1xi64>} : tensor<1xi64>
    %rest = onnx.weight "rest" {value = dense<[4, -1]> : tensor<2xi64>} : tensor<2xi64>
    %s = onnx.node "Shape"(%x) {version = 18 : i64, output_names = ["s"]} : (tensor<?x?x8xf32>) -> !onnx.value
    %b = onnx.node "Gather"(%s, %zero) {version = 18 : i64, output_names = ["b"]} : (!onnx.value, tensor<i64>) -> !onnx.value
    %n = onnx.node "Gather"(%s, %one) {version = 18 : i64, output_names = ["n"]} : (!onnx.value, tensor<i64>) -> !onnx.value
    %b1 = onnx.node "Unsqueeze"(%b, %axes) {version = 18 : i64, output_names = ["b1"]} : (!onnx.value, tensor<1xi64>) -> !onnx.value
    %n1 = onnx.node "Unsqueeze"(%n, %axes) {version = 18 : i64, output_names = ["n1"]} : (!onnx.value, tensor<1xi64>) -> !onnx.value
    %shape = onnx.node "Concat"(%b1, %n1, %rest) {version = 18 : i64, output_names = ["shape"], attrs = {axis = 0 : i64}} : (!onnx.value, !onnx.value, tensor<2xi64>) -> !onnx.value
    %y = onnx.node "Reshape"(%x, %shape) {version = 18 : i64, output_names = ["y"]} : (tensor<?x?x8xf32>, !onnx.value) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// expand(-1, ..) of the TorchScript exporter: the sizes are never -1, so the shape itself remains.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: llm.broadcast
// CHECK-SAME: -> tensor<?x3xf32, #llm.dims<[s0, 3]>>
// CHECK-NEXT: return
module {
  func.func @main(%x: tensor<?x1xf32> {onnx.name = "x", onnx.dims = ["n", 1]}) -> (!onnx.value {onnx.name = "y"}) {
    %zero = onnx.weight "zero" {value = dense<0> : tensor<1xi64>} : tensor<1xi64>
    %three = onnx.weight "three" {value = dense<3> : tensor<1xi64>} : tensor<1xi64>
    %two = onnx.weight "two" {value = dense<2> : tensor<1xi64>} : tensor<1xi64>
    %minus = onnx.weight "minus" {value = dense<-1> : tensor<i64>} : tensor<i64>
    %s = onnx.node "Shape"(%x) {version = 18 : i64, output_names = ["s"]} : (tensor<?x1xf32>) -> !onnx.value
    %n = onnx.node "Gather"(%s, %zero) {version = 18 : i64, output_names = ["n"]} : (!onnx.value, tensor<1xi64>) -> !onnx.value
    %shape = onnx.node "Concat"(%n, %three) {version = 18 : i64, output_names = ["shape"], attrs = {axis = 0 : i64}} : (!onnx.value, tensor<1xi64>) -> !onnx.value
    %ones = onnx.node "ConstantOfShape"(%two) {version = 18 : i64, output_names = ["ones"], attrs = {value = dense<1> : tensor<1xi64>}} : (tensor<1xi64>) -> !onnx.value
    %minusOnes = onnx.node "Mul"(%ones, %minus) {version = 18 : i64, output_names = ["minusOnes"]} : (!onnx.value, tensor<i64>) -> !onnx.value
    %is = onnx.node "Equal"(%shape, %minusOnes) {version = 18 : i64, output_names = ["is"]} : (!onnx.value, !onnx.value) -> !onnx.value
    %to = onnx.node "Where"(%is, %ones, %shape) {version = 18 : i64, output_names = ["to"]} : (!onnx.value, !onnx.value, !onnx.value) -> !onnx.value
    %y = onnx.node "Expand"(%x, %to) {version = 18 : i64, output_names = ["y"]} : (tensor<?x1xf32>, !onnx.value) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// Half of a size through floats, and sizes used as data.

// CHECK: llm.symbol<"floordiv(n, 2)", floordiv, [s0, 2]>
// CHECK-LABEL: func.func @main
// CHECK: llm.sizes <[s1]> : tensor<i64>
module {
  func.func @main(%x: tensor<?xf32> {onnx.name = "x", onnx.dims = ["n"]}) -> (!onnx.value {onnx.name = "y"}) {
    %half = onnx.weight "half" {value = dense<0.5> : tensor<f32>} : tensor<f32>
    %n = onnx.node "Size"(%x) {version = 18 : i64, output_names = ["n"]} : (tensor<?xf32>) -> !onnx.value
    %f = onnx.node "Cast"(%n) {version = 18 : i64, output_names = ["f"], attrs = {to = 1 : i64}} : (!onnx.value) -> !onnx.value
    %h = onnx.node "Mul"(%half, %f) {version = 18 : i64, output_names = ["h"]} : (tensor<f32>, !onnx.value) -> !onnx.value
    %d = onnx.node "Floor"(%h) {version = 18 : i64, output_names = ["d"]} : (!onnx.value) -> !onnx.value
    %y = onnx.node "Cast"(%d) {version = 18 : i64, output_names = ["y"], attrs = {to = 7 : i64}} : (!onnx.value) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// Each cache of a dynamo export names its past differently. They are one symbol.

// CHECK: llm.symbols = [#llm.symbol<"b", input>, #llm.symbol<"s5", input>]
// CHECK-LABEL: func.func @main
// CHECK-NEXT: llm.elementwise add
// CHECK-SAME: -> tensor<?x2x?x4xf32, #llm.dims<[s0, 2, s1, 4]>>
module {
  func.func @main(%k: tensor<?x2x?x4xf32> {onnx.name = "past_key_values.0.key", onnx.dims = ["b", 2, "s5", 4]},
                  %v: tensor<?x2x?x4xf32> {onnx.name = "past_key_values.0.value", onnx.dims = ["b", 2, "s6", 4]})
      -> (!onnx.value {onnx.name = "y"}) {
    %y = onnx.node "Add"(%k, %v) {version = 18 : i64, output_names = ["y"]} : (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// A causal table of 8 positions, cut to the lengths of the call: no minimum is left, a check is.

// CHECK: llm.checks = [#llm.check<le, [s0 + s1, 8], "{{.*}} must be at most 8{{.*}}">]
// CHECK-LABEL: func.func @main
// CHECK: llm.slice %{{.*}} <[s1, 0]> [1, 1] : tensor<8x8xi1> -> tensor<?x8xi1, #llm.dims<[s0, 8]>>
// CHECK: llm.slice %{{.*}} <[0, 0]> [1, 1] : {{.*}} -> tensor<?x?xi1, #llm.dims<[s0, s0 + s1]>>
// CHECK: llm.elementwise select
// CHECK-SAME: -> tensor<?x?xf32, #llm.dims<[s0, s0 + s1]>>
module {
  func.func @main(%x: tensor<?x?xf32> {onnx.name = "x", onnx.dims = ["s", "p + s"]}, %past: tensor<?xf32> {onnx.name = "past", onnx.dims = ["p"]})
      -> (!onnx.value {onnx.name = "y"}) {
    %table = onnx.weight "table" : tensor<8x8xi1>
    %low = onnx.weight "low" {value = dense<-1.0> : tensor<f32>} : tensor<f32>
    %zero = onnx.weight "zero" {value = dense<0> : tensor<1xi64>} : tensor<1xi64>
    %one = onnx.weight "one" {value = dense<1> : tensor<1xi64>} : tensor<1xi64>
    %p = onnx.node "Shape"(%past) {version = 18 : i64, output_names = ["p"]} : (tensor<?xf32>) -> !onnx.value
    %t = onnx.node "Shape"(%x) {version = 18 : i64, output_names = ["t"], attrs = {start = 1 : i64}} : (tensor<?x?xf32>) -> !onnx.value
    %rows = onnx.node "Slice"(%table, %p, %t, %zero) {version = 18 : i64, output_names = ["rows"]} : (tensor<8x8xi1>, !onnx.value, !onnx.value, tensor<1xi64>) -> !onnx.value
    %mask = onnx.node "Slice"(%rows, %zero, %t, %one) {version = 18 : i64, output_names = ["mask"]} : (!onnx.value, tensor<1xi64>, !onnx.value, tensor<1xi64>) -> !onnx.value
    %y = onnx.node "Where"(%mask, %x, %low) {version = 18 : i64, output_names = ["y"]} : (!onnx.value, tensor<?x?xf32>, tensor<f32>) -> !onnx.value
    return %y : !onnx.value
  }
}
