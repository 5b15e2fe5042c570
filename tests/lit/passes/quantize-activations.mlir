// RUN: llmc-opt %s --llmc-quantize-activations | FileCheck %s

// One quantization serves equal left sides, and comes with the norm before them.
// CHECK-LABEL: func.func @norm
// CHECK: %[[Q:.*]] = llm.fusion -> tensor<4x160xui8>
// CHECK-NEXT: %[[N:.*]] = llm.rms_norm
// CHECK-NEXT: %[[INNER:.*]] = llm.quantize %[[N]] group 64 : tensor<4x100xf32> -> tensor<4x160xui8>
// CHECK-NEXT: llm.fusion_yield %[[INNER]]
// CHECK-DAG: llm.matmul %[[Q]], %{{.*}} quantized 64
// CHECK-DAG: llm.matmul %[[Q]], %{{.*}} transpose_rhs quantized 64
func.func @norm(%x: tensor<4x100xf32>) -> (tensor<4x16xf32>, tensor<4x8xf32>) {
  %s = llm.weight "s" : tensor<100xf32>
  %v = llm.weight "v" : tensor<100x16xf32, "int4:g64">
  %w = llm.weight "w" : tensor<8x100xf32, "int8">
  %n = llm.rms_norm %x scale %s axis 1 epsilon 1.0e-5 : tensor<4x100xf32>, tensor<100xf32> -> tensor<4x100xf32>
  %a = llm.matmul %n, %v : tensor<4x100xf32>, tensor<100x16xf32, "int4:g64"> -> tensor<4x16xf32>
  %b = llm.matmul %n, %w transpose_rhs : tensor<4x100xf32>, tensor<8x100xf32, "int8"> -> tensor<4x8xf32>
  return %a, %b : tensor<4x16xf32>, tensor<4x8xf32>
}

// A norm with other users gives both.
// CHECK-LABEL: func.func @kept
// CHECK: %[[R:.*]]:2 = llm.fusion -> tensor<?x192xui8, {{.*}}>, tensor<?x20xf32, {{.*}}>
// CHECK: llm.elementwise neg(%[[R]]#1)
// CHECK: llm.matmul %[[R]]#0, %{{.*}} quantized 32
func.func @kept(%x: tensor<?x20xf32, #llm.dims<[s0, 20]>>)
    -> (tensor<?x20xf32, #llm.dims<[s0, 20]>>, tensor<?x16xf32, #llm.dims<[s0, 16]>>) {
  %w = llm.weight "w" : tensor<20x16xf32, "int4:g32">
  %n = llm.layer_norm %x axis 1 epsilon 1.0e-5 : tensor<?x20xf32, #llm.dims<[s0, 20]>> -> tensor<?x20xf32, #llm.dims<[s0, 20]>>
  %m = llm.elementwise neg(%n) : (tensor<?x20xf32, #llm.dims<[s0, 20]>>) -> tensor<?x20xf32, #llm.dims<[s0, 20]>>
  %a = llm.matmul %n, %w : tensor<?x20xf32, #llm.dims<[s0, 20]>>, tensor<20x16xf32, "int4:g32"> -> tensor<?x16xf32, #llm.dims<[s0, 16]>>
  return %m, %a : tensor<?x20xf32, #llm.dims<[s0, 20]>>, tensor<?x16xf32, #llm.dims<[s0, 16]>>
}

// Float weights, and left sides that aren't f32, stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: llm.quantize
func.func @others(%x: tensor<4x8xf32>, %y: tensor<4x8xf16>) -> (tensor<4x16xf32>, tensor<4x16xf16>) {
  %v = llm.weight "v" : tensor<8x16xf32>
  %w = llm.weight "w" : tensor<8x16xf32, "int8">
  %a = llm.matmul %x, %v : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %b = llm.matmul %y, %w : tensor<4x8xf16>, tensor<8x16xf32, "int8"> -> tensor<4x16xf16>
  return %a, %b : tensor<4x16xf32>, tensor<4x16xf16>
}
