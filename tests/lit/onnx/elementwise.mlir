// RUN: llmc-opt %s --llmc-legalize-onnx --split-input-file | FileCheck %s

// Numpy broadcasting of ranks and sizes; names stay as locations and attributes.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: llm.elementwise add(%{{.*}}, %{{.*}}) : (tensor<?x1x4xf32, #llm.dims<[s0, 1, 4]>>, tensor<3x1xf32>) -> tensor<?x3x4xf32, #llm.dims<[s0, 3, 4]>>
module {
  func.func @main(%a: tensor<?x1x4xf32> {onnx.name = "a", onnx.dims = ["n", 1, 4]}, %b: tensor<3x1xf32> {onnx.name = "b"})
      -> (!onnx.value {onnx.name = "y"}) {
    %y = onnx.node "Add"(%a, %b) {version = 14 : i64, output_names = ["y"]} : (tensor<?x1x4xf32>, tensor<3x1xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// The bounds of Clip are attributes before opset 11, then optional inputs.

// CHECK-LABEL: func.func @main
// CHECK: %[[LOW:.*]] = llm.constant dense<-1.0{{.*}}> : tensor<f32>
// CHECK: %[[A:.*]] = llm.elementwise max(%arg0, %[[LOW]])
// CHECK: %[[HIGH:.*]] = llm.constant dense<2.0{{.*}}> : tensor<f32>
// CHECK: llm.elementwise min(%[[A]], %[[HIGH]])
module {
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    %none = onnx.none : none
    %max = onnx.weight "max" {value = dense<2.0> : tensor<1xf32>} : tensor<1xf32>
    %t = onnx.node "Clip"(%x) {version = 10 : i64, output_names = ["t"], attrs = {min = -1.0 : f32}} : (tensor<4xf32>) -> !onnx.value
    %y = onnx.node "Clip"(%t, %none, %max) {version = 13 : i64, output_names = ["y"]} : (!onnx.value, none, tensor<1xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// Pow takes the base's type, whatever the exponent's.

// CHECK-LABEL: func.func @main
// CHECK: llm.elementwise cast(%arg1) : (tensor<4xi64>) -> tensor<4xf32>
// CHECK: llm.elementwise pow
// CHECK-SAME: -> tensor<4xf32>
module {
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}, %e: tensor<4xi64> {onnx.name = "e"}) -> (!onnx.value {onnx.name = "y"}) {
    %y = onnx.node "Pow"(%x, %e) {version = 15 : i64, output_names = ["y"]} : (tensor<4xf32>, tensor<4xi64>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// Dropout of an inference model passes its input.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: return %arg0
module {
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    %y = onnx.node "Dropout"(%x) {version = 13 : i64, output_names = ["y"]} : (tensor<4xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}
