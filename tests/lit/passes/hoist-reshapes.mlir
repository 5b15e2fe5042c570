// RUN: llmc-opt --llmc-hoist-reshapes %s | FileCheck %s

// What an exporter wraps around a product cancels; bias and residual follow it directly.
// CHECK-LABEL: func @gemm
func.func @gemm(%x: tensor<1x?x8xf32, #llm.dims<[1, s0, 8]>>,
                %r: tensor<1x?x16xf32, #llm.dims<[1, s0, 16]>>)
    -> tensor<1x?x16xf32, #llm.dims<[1, s0, 16]>> {
  // CHECK-NOT: llm.reshape
  // CHECK: llm.matmul %{{.*}}, %{{.*}} : tensor<1x?x8xf32, {{.*}}>, tensor<8x16xf32> -> tensor<1x?x16xf32,
  // CHECK-NOT: llm.reshape
  // CHECK: return
  %w = llm.weight "w" : tensor<8x16xf32>
  %b = llm.weight "b" : tensor<16xf32>
  %f = llm.reshape %x : tensor<1x?x8xf32, #llm.dims<[1, s0, 8]>> -> tensor<?x8xf32, #llm.dims<[s0, 8]>>
  %p = llm.matmul %f, %w : tensor<?x8xf32, #llm.dims<[s0, 8]>>, tensor<8x16xf32> -> tensor<?x16xf32, #llm.dims<[s0, 16]>>
  %q = llm.elementwise add(%p, %b) : (tensor<?x16xf32, #llm.dims<[s0, 16]>>, tensor<16xf32>) -> tensor<?x16xf32, #llm.dims<[s0, 16]>>
  %u = llm.reshape %q : tensor<?x16xf32, #llm.dims<[s0, 16]>> -> tensor<1x?x16xf32, #llm.dims<[1, s0, 16]>>
  %t = llm.elementwise add(%u, %r) : (tensor<1x?x16xf32, #llm.dims<[1, s0, 16]>>, tensor<1x?x16xf32, #llm.dims<[1, s0, 16]>>) -> tensor<1x?x16xf32, #llm.dims<[1, s0, 16]>>
  return %t : tensor<1x?x16xf32, #llm.dims<[1, s0, 16]>>
}

// A reshape that changes the last dimension, or one of a product that others use, stays.
// CHECK-LABEL: func @stays
func.func @stays(%x: tensor<6x8xf32>) -> (tensor<6x4x4xf32>, tensor<2x3x16xf32>, tensor<6x16xf32>) {
  // CHECK: llm.matmul
  // CHECK: llm.reshape {{.*}} -> tensor<6x4x4xf32>
  // CHECK: llm.matmul
  // CHECK: llm.reshape {{.*}} -> tensor<2x3x16xf32>
  %w = llm.weight "w" : tensor<8x16xf32>
  %p = llm.matmul %x, %w : tensor<6x8xf32>, tensor<8x16xf32> -> tensor<6x16xf32>
  %r = llm.reshape %p : tensor<6x16xf32> -> tensor<6x4x4xf32>
  %q = llm.matmul %x, %w : tensor<6x8xf32>, tensor<8x16xf32> -> tensor<6x16xf32>
  %s = llm.reshape %q : tensor<6x16xf32> -> tensor<2x3x16xf32>
  return %r, %s, %q : tensor<6x4x4xf32>, tensor<2x3x16xf32>, tensor<6x16xf32>
}

// Heads are formed first, then cut apart; where a cut doesn't fall between heads, nothing changes.
// CHECK-LABEL: func @heads
func.func @heads(%x: tensor<1x?x24xf32, #llm.dims<[1, s0, 24]>>)
    -> (tensor<1x?x2x4xf32, #llm.dims<[1, s0, 2, 4]>>, tensor<1x?x2x4xf32, #llm.dims<[1, s0, 2, 4]>>) {
  // CHECK: llm.reshape %arg0 {{.*}} -> tensor<1x?x6x4xf32
  // CHECK: llm.slice {{.*}} <[0, 0, 2, 0]> [1, 1, 1, 1]
  // CHECK: llm.slice %arg0 <[0, 0, 6]>
  // CHECK: llm.reshape
  %k = llm.slice %x <[0, 0, 8]> [1, 1, 1] : tensor<1x?x24xf32, #llm.dims<[1, s0, 24]>> -> tensor<1x?x8xf32, #llm.dims<[1, s0, 8]>>
  %h = llm.reshape %k : tensor<1x?x8xf32, #llm.dims<[1, s0, 8]>> -> tensor<1x?x2x4xf32, #llm.dims<[1, s0, 2, 4]>>
  %o = llm.slice %x <[0, 0, 6]> [1, 1, 1] : tensor<1x?x24xf32, #llm.dims<[1, s0, 24]>> -> tensor<1x?x8xf32, #llm.dims<[1, s0, 8]>>
  %p = llm.reshape %o : tensor<1x?x8xf32, #llm.dims<[1, s0, 8]>> -> tensor<1x?x2x4xf32, #llm.dims<[1, s0, 2, 4]>>
  return %h, %p : tensor<1x?x2x4xf32, #llm.dims<[1, s0, 2, 4]>>, tensor<1x?x2x4xf32, #llm.dims<[1, s0, 2, 4]>>
}
