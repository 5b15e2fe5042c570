// RUN: llmc-opt %s --llmc-legalize-onnx --split-input-file --verify-diagnostics

// All unknown operators are reported in one go, with node, domain and version, and reasons where known.

module {
  // expected-error@+1 {{[LLMC1200] the model uses 3 operators (3 nodes) that llmc doesn't support}}
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    // expected-note@+1 {{node 'first': com.example::Foo, opset 1}}
    %a = onnx.node "Foo"(%x) {domain = "com.example", version = 1 : i64, node_name = "first", output_names = ["a"]} : (tensor<4xf32>) -> !onnx.value
    // expected-note@+1 {{node '': ai.onnx::NonZero, opset 13: its result's size depends on data}}
    %b = onnx.node "NonZero"(%a) {version = 13 : i64, output_names = ["b"]} : (!onnx.value) -> !onnx.value
    // expected-note@+1 {{node '': ai.onnx::Add, opset 99: newer than opset}}
    %y = onnx.node "Add"(%b, %b) {version = 99 : i64, output_names = ["y"]} : (!onnx.value, !onnx.value) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}, %y: tensor<3xf32> {onnx.name = "y"}) -> (!onnx.value {onnx.name = "z"}) {
    // expected-error@+1 {{[LLMC1204] shapes [4] and [3] don't broadcast}}
    %a = onnx.node "Add"(%x, %y) {version = 14 : i64, output_names = ["a"]} : (tensor<4xf32>, tensor<3xf32>) -> !onnx.value
    // What depends on a failed node isn't reported, other problems are.
    %b = onnx.node "Add"(%a, %y) {version = 14 : i64, output_names = ["b"]} : (!onnx.value, tensor<3xf32>) -> !onnx.value
    // expected-error@+1 {{[LLMC1203] axis 1 of Softmax is outside rank 1}}
    %c = onnx.node "Softmax"(%x) {version = 13 : i64, output_names = ["c"], attrs = {axis = 1 : i64}} : (tensor<4xf32>) -> !onnx.value
    return %b : !onnx.value
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}, %shape: tensor<2xi64> {onnx.name = "shape"}) -> (!onnx.value {onnx.name = "y"}) {
    // expected-error@+1 {{[LLMC1205] the shape (input 1) of Reshape must follow from constants and the inputs' sizes, but depends on data}}
    %y = onnx.node "Reshape"(%x, %shape) {version = 14 : i64, output_names = ["y"]} : (tensor<4xf32>, tensor<2xi64>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

module {
  func.func @main(%x: tensor<4x6xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    %shape = onnx.weight "shape" {value = dense<[5, -1]> : tensor<2xi64>} : tensor<2xi64>
    // expected-error@+1 {{[LLMC1204] Reshape of [4, 6]: 24 elements aren't a multiple of 5}}
    %y = onnx.node "Reshape"(%x, %shape) {version = 14 : i64, output_names = ["y"]} : (tensor<4x6xf32>, tensor<2xi64>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

module {
  // expected-error@+1 {{[LLMC1210] input 'x' has no declared shape}}
  func.func @main(%x: tensor<*xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    %y = onnx.node "Abs"(%x) {version = 13 : i64, output_names = ["y"]} : (tensor<*xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

module {
  func.func @main(%c: tensor<i1> {onnx.name = "c"}, %x: tensor<4xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    // expected-error@+1 {{[LLMC1208] If with a condition that is known only at run time}}
    %y = onnx.node "If"(%c) {version = 13 : i64, output_names = ["y"], region_names = ["then_branch", "else_branch"]} : (tensor<i1>) -> !onnx.value {
      onnx.yield %x : tensor<4xf32>
    }, {
      onnx.yield %x : tensor<4xf32>
    }
    return %y : !onnx.value
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    %on = onnx.weight "on" {value = dense<true> : tensor<i1>} : tensor<i1>
    %ratio = onnx.weight "ratio" {value = dense<0.5> : tensor<f32>} : tensor<f32>
    // expected-error@+1 {{[LLMC1209] Dropout in training mode isn't supported}}
    %y = onnx.node "Dropout"(%x, %ratio, %on) {version = 13 : i64, output_names = ["y"]} : (tensor<4xf32>, tensor<f32>, tensor<i1>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    // expected-error@+1 {{[LLMC1202] Add needs input 1, which is absent}}
    %y = onnx.node "Add"(%x) {version = 14 : i64, output_names = ["y"]} : (tensor<4xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

module {
  func.func @main(%x: tensor<3x32xf32> {onnx.name = "x"}, %s: tensor<8xf32> {onnx.name = "s"}) -> (!onnx.value {onnx.name = "y"}) {
    %none = onnx.none : none
    %w = onnx.weight "w" : tensor<8x1x16xui8>
    %scales = onnx.weight "scales" : tensor<8xf32>
    %g = onnx.weight "g" : tensor<32xi32>
    // expected-error@+1 {{[LLMC1209] MatMulNBits with an order of its own for the inputs (g_idx) isn't supported}}
    %a = onnx.node "MatMulNBits"(%x, %w, %scales, %none, %g) {domain = "com.microsoft", version = 1 : i64, output_names = ["a"], attrs = {K = 32 : i64, N = 8 : i64, bits = 4 : i64, block_size = 32 : i64}} : (tensor<3x32xf32>, tensor<8x1x16xui8>, tensor<8xf32>, none, tensor<32xi32>) -> !onnx.value
    // expected-error@+1 {{[LLMC1204] the weight (input 1) of MatMulNBits has the type tensor<8x1x16xui8>, which doesn't hold tensor<16x32xui4>}}
    %b = onnx.node "MatMulNBits"(%x, %w, %scales) {domain = "com.microsoft", version = 1 : i64, output_names = ["b"], attrs = {K = 32 : i64, N = 16 : i64, bits = 4 : i64, block_size = 32 : i64}} : (tensor<3x32xf32>, tensor<8x1x16xui8>, tensor<8xf32>) -> !onnx.value
    // expected-error@+1 {{[LLMC1205] the scales (input 2) of MatMulNBits must be a constant of numbers}}
    %c = onnx.node "MatMulNBits"(%x, %w, %s) {domain = "com.microsoft", version = 1 : i64, output_names = ["c"], attrs = {K = 32 : i64, N = 8 : i64, bits = 4 : i64, block_size = 32 : i64}} : (tensor<3x32xf32>, tensor<8x1x16xui8>, tensor<8xf32>) -> !onnx.value
    return %a : !onnx.value
  }
}

// -----

module {
  func.func @main(%x: tensor<1x3x4x4xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    %w = onnx.weight "w" : tensor<4x3x5x5xf32>
    // expected-error@+1 {{[LLMC1204] Conv has a kernel that is larger than its input}}
    %y = onnx.node "Conv"(%x, %w) {version = 11 : i64, output_names = ["y"]} : (tensor<1x3x4x4xf32>, tensor<4x3x5x5xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}
