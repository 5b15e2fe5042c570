// RUN: llmc-opt --llmc-fuse-elementwise %s | FileCheck %s
// RUN: llmc-opt --llmc-fuse-elementwise --llmc-fuse-elementwise %s | FileCheck %s
// RUN: llmc-opt --llmc-fuse-elementwise --llmc-outline-kernels %s | FileCheck %s --check-prefix=OUTLINE

// A product, its bias, an activation and the residual are one kernel.
// CHECK-LABEL: func @epilogue
// OUTLINE-LABEL: func @epilogue
func.func @epilogue(%a: tensor<4x8xf32>, %r: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK: %[[F:.*]] = llm.fusion -> tensor<4x16xf32> {
  // CHECK: llm.matmul
  // CHECK: add
  // CHECK: silu
  // CHECK: add
  // CHECK: llm.fusion_yield
  // CHECK: return %[[F]]
  // OUTLINE: rt.dispatch @matmul_0
  // OUTLINE-NEXT: return
  %w = llm.weight "w" : tensor<8x16xf32>
  %b = llm.weight "b" : tensor<16xf32>
  %p = llm.matmul %a, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %q = llm.elementwise add(%b, %p) : (tensor<16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %s = llm.elementwise silu(%q) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %t = llm.elementwise add(%s, %r) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %t : tensor<4x16xf32>
}

// exp would be worked out for each use: it stays a kernel of its own.
// CHECK-LABEL: func @heavy
func.func @heavy(%a: tensor<8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: llm.elementwise exp
  // CHECK-NEXT: llm.fusion
  %e = llm.elementwise exp(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %m = llm.elementwise mul(%b, %e) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %n = llm.elementwise neg(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// A result that is used twice is kept; an epilogue can't move elements.
// CHECK-LABEL: func @apart
func.func @apart(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) -> (tensor<16x4xf32>, tensor<4x16xf32>) {
  // CHECK-NOT: llm.fusion
  %p = llm.matmul %a, %b : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %t = llm.transpose %p [1, 0] : tensor<4x16xf32> -> tensor<16x4xf32>
  %s = llm.softmax %p axis 1 : tensor<4x16xf32> -> tensor<4x16xf32>
  return %t, %s : tensor<16x4xf32>, tensor<4x16xf32>
}

// A transpose after the epilogue's type check: the product may not join it.
// CHECK-LABEL: func @transposed
func.func @transposed(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<4x4xf32> {
  // CHECK: llm.matmul
  // CHECK-NEXT: llm.transpose
  // CHECK-NOT: llm.fusion
  %p = llm.matmul %a, %b : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %t = llm.transpose %p [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %t : tensor<4x4xf32>
}

// Reshapes at the edges are views.
// CHECK-LABEL: func @views
func.func @views(%a: tensor<4x8xf32>) -> tensor<32xf32> {
  // CHECK: llm.reshape
  // CHECK: llm.fusion
  // CHECK: neg
  // CHECK: transpose
  // CHECK: llm.reshape
  // CHECK-NEXT: return
  %r = llm.reshape %a : tensor<4x8xf32> -> tensor<2x2x8xf32>
  %n = llm.elementwise neg(%r) : (tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
  %t = llm.transpose %n [1, 0, 2] : tensor<2x2x8xf32> -> tensor<2x2x8xf32>
  %s = llm.reshape %t : tensor<2x2x8xf32> -> tensor<32xf32>
  return %s : tensor<32xf32>
}
