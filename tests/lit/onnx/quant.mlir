// RUN: llmc-opt %s --llmc-legalize-onnx --split-input-file | FileCheck %s

// A 4-bit weight keeps its bytes; what it stands for is worked out when the weight is read.

// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[W:.*]] = llm.weight "w" : tensor<64x96xui4>
// CHECK-DAG: %[[S:.*]] = llm.weight "s" : tensor<2x96xf32>
// CHECK: %[[D:.*]] = llm.dequantize %[[W]] scale %[[S]] axis 0 block 32 : tensor<64x96xui4>, tensor<2x96xf32> -> tensor<64x96xf32>
// CHECK: llm.matmul %arg0, %[[D]]
module {
  func.func @main(%x: tensor<?x64xf32> {onnx.name = "x", onnx.dims = ["n", 64]}) -> (!onnx.value {onnx.name = "y"}) {
    %w = onnx.weight "w" : tensor<64x96xui4>
    %s = onnx.weight "s" : tensor<2x96xf32>
    %d = onnx.node "DequantizeLinear"(%w, %s) {version = 21 : i64, output_names = ["d"], attrs = {axis = 0 : i64, block_size = 32 : i64}} : (tensor<64x96xui4>, tensor<2x96xf32>) -> !onnx.value
    %y = onnx.node "MatMul"(%x, %d) {version = 13 : i64, output_names = ["y"]} : (tensor<?x64xf32>, !onnx.value) -> !onnx.value
    return %y : !onnx.value
  }
}

// -----

// The blocks of MatMulNBits are rows of 4-bit values; the last one is padded, and zero is in the middle.

// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[W:.*]] = llm.weight "w" : tensor<24x64xui4>
// CHECK-DAG: %[[S:.*]] = llm.weight "s" : tensor<24x2xf32>
// CHECK-DAG: %[[Z:.*]] = llm.constant dense<8> : tensor<24x2xui8>
// CHECK: %[[D:.*]] = llm.dequantize %[[W]] scale %[[S]] zero %[[Z]] axis 1 block 32 : {{.*}} -> tensor<24x50xf32>
// CHECK: llm.matmul %arg0, %[[D]] transpose
module {
  func.func @main(%x: tensor<3x50xf32> {onnx.name = "x"}) -> (!onnx.value {onnx.name = "y"}) {
    %w = onnx.weight "w" : tensor<24x2x16xui8>
    %s = onnx.weight "s" : tensor<48xf32>
    %y = onnx.node "MatMulNBits"(%x, %w, %s) {domain = "com.microsoft", version = 1 : i64, output_names = ["y"], attrs = {K = 50 : i64, N = 24 : i64, bits = 4 : i64, block_size = 32 : i64}} : (tensor<3x50xf32>, tensor<24x2x16xui8>, tensor<48xf32>) -> !onnx.value
    return %y : !onnx.value
  }
}
