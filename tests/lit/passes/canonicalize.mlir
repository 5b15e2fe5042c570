// RUN: llmc-opt --canonicalize %s | FileCheck %s

// CHECK-LABEL: func @neutral
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // x + 0.0 would turn -0.0 into 0.0.
  // CHECK: %[[A:.*]] = llm.elementwise add(%arg0
  // CHECK-NEXT: return %arg0, %[[A]]
  %one = llm.constant dense<1.0> : tensor<f32>
  %zero = llm.constant dense<0.0> : tensor<f32>
  %m = llm.elementwise mul(%one, %x) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %n = llm.elementwise neg(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %r = llm.elementwise neg(%n) : (tensor<4xf32>) -> tensor<4xf32>
  %a = llm.elementwise add(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r, %a : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func @rsqrt
func.func @rsqrt(%x: tensor<4xf32>, %h: tensor<4xf16>) -> (tensor<4xf32>, tensor<4xf16>) {
  // CHECK: llm.elementwise rsqrt(%arg0)
  // The f16 root is rounded before it is inverted.
  // CHECK: llm.elementwise sqrt(%arg1)
  // CHECK: llm.elementwise reciprocal
  %one = llm.constant dense<1.0> : tensor<f32>
  %half = llm.constant dense<0.5> : tensor<f32>
  %s = llm.elementwise pow(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = llm.elementwise div(%one, %s) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %t = llm.elementwise sqrt(%h) : (tensor<4xf16>) -> tensor<4xf16>
  %u = llm.elementwise reciprocal(%t) : (tensor<4xf16>) -> tensor<4xf16>
  return %r, %u : tensor<4xf32>, tensor<4xf16>
}

// CHECK-LABEL: func @matmul
func.func @matmul(%a: tensor<4x8xf32>, %w: tensor<16x8xf32>) -> tensor<4x16xf32> {
  // CHECK: llm.matmul %arg0, %arg1 transpose_rhs
  %t = llm.transpose %w [1, 0] : tensor<16x8xf32> -> tensor<8x16xf32>
  %r = llm.matmul %a, %t : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// CHECK-LABEL: func @broadcast
func.func @broadcast(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // Without its broadcast the second result would have rank 1.
  // CHECK: %[[B:.*]] = llm.broadcast
  // CHECK: llm.elementwise add(%arg0, %arg1)
  // CHECK: llm.elementwise exp(%[[B]])
  %c = llm.broadcast %b : tensor<8xf32> -> tensor<4x8xf32>
  %r = llm.elementwise add(%a, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = llm.elementwise exp(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r, %s : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func @slices
func.func @slices(%a: tensor<20xf32>) -> tensor<3xf32> {
  // CHECK: llm.slice %arg0 <[17]> [-4] : tensor<20xf32> -> tensor<3xf32>
  %s = llm.slice %a <[1]> [2] : tensor<20xf32> -> tensor<9xf32>
  %r = llm.slice %s <[8]> [-2] : tensor<9xf32> -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// CHECK-LABEL: func @transposes
func.func @transposes(%a: tensor<1x4x8xf32>, %b: tensor<2x3x4xf32>) -> (tensor<4x1x8xf32>, tensor<4x2x3xf32>) {
  // CHECK: llm.reshape %arg0
  // CHECK: llm.transpose %arg1 [2, 0, 1]
  %r = llm.transpose %a [1, 0, 2] : tensor<1x4x8xf32> -> tensor<4x1x8xf32>
  %t = llm.transpose %b [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %u = llm.transpose %t [1, 2, 0] : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  return %r, %u : tensor<4x1x8xf32>, tensor<4x2x3xf32>
}

// A past that is known to count whole is concatenated: its length is what a mask of ones sums to.

// CHECK-LABEL: func.func @whole_past
// CHECK-NEXT: llm.concat axis 2(%arg0, %arg1)
func.func @whole_past(%p: tensor<1x2x?x16xf32, #llm.dims<[1, 2, s1, 16]>>, %f: tensor<1x2x?x16xf32, #llm.dims<[1, 2, s0, 16]>>) -> tensor<1x2x?x16xf32, #llm.dims<[1, 2, s0 + s1, 16]>> {
  %one = llm.constant dense<1> : tensor<1xi64>
  %zero = llm.constant dense<0> : tensor<i64>
  %c = llm.constant dense<1> : tensor<i64>
  %m = llm.broadcast %c : tensor<i64> -> tensor<1x?xi64, #llm.dims<[1, s0 + s1]>>
  %r = llm.reduce sum %m axes [1] : tensor<1x?xi64, #llm.dims<[1, s0 + s1]>> -> tensor<1x1xi64>
  %q = llm.reshape %r : tensor<1x1xi64> -> tensor<1xi64>
  %s = llm.elementwise sub(%q, %one) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %t = llm.elementwise cast(%s) : (tensor<1xi64>) -> tensor<1xi32>
  %u = llm.elementwise cast(%t) : (tensor<1xi32>) -> tensor<1xi64>
  %v = llm.reshape %u : tensor<1xi64> -> tensor<1x1xi64>
  %w = llm.sizes <[s0 * -1 + 1]> : tensor<i64>
  %x = llm.elementwise add(%v, %w) : (tensor<1x1xi64>, tensor<i64>) -> tensor<1x1xi64>
  %n = llm.elementwise max(%x, %zero) : (tensor<1x1xi64>, tensor<i64>) -> tensor<1x1xi64>
  %k = llm.kv_concat %p, %f lengths %n : tensor<1x2x?x16xf32, #llm.dims<[1, 2, s1, 16]>>, tensor<1x2x?x16xf32, #llm.dims<[1, 2, s0, 16]>>, tensor<1x1xi64> -> tensor<1x2x?x16xf32, #llm.dims<[1, 2, s0 + s1, 16]>>
  return %k : tensor<1x2x?x16xf32, #llm.dims<[1, 2, s0 + s1, 16]>>
}
