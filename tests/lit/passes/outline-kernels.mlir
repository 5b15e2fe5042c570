// RUN: llmc-opt %s --llmc-outline-kernels | FileCheck %s

// Two equal layers with different weights are one kernel called twice; sizes are the kernel's own.
// CHECK-LABEL: func.func @equal_layers
// CHECK: rt.weight "a"
// CHECK: rt.dispatch @[[K:matmul_[0-9]+]] on "cpu0" <[s1 * 2]>
// CHECK: rt.weight "b"
// CHECK: rt.dispatch @[[K]] on "cpu0" <[s1 * 2]>
func.func @equal_layers(%x: tensor<?x8xf32, #llm.dims<[s1 * 2, 8]>>) -> tensor<?x8xf32, #llm.dims<[s1 * 2, 8]>> {
  %a = llm.weight "a" : tensor<8x8xf32>
  %b = llm.weight "b" : tensor<8x8xf32>
  %y = llm.matmul %x, %a : tensor<?x8xf32, #llm.dims<[s1 * 2, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #llm.dims<[s1 * 2, 8]>>
  %z = llm.matmul %y, %b : tensor<?x8xf32, #llm.dims<[s1 * 2, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #llm.dims<[s1 * 2, 8]>>
  return %z : tensor<?x8xf32, #llm.dims<[s1 * 2, 8]>>
}

// Reshapes are views; a constant with one value lives in the kernel.
// CHECK-LABEL: func.func @views_and_constants
// CHECK: rt.view
// CHECK: rt.dispatch @mul_{{[0-9]+}} on "cpu0" <[]>(%{{[0-9]+}}) : (tensor<4xf32>) -> tensor<4xf32>
func.func @views_and_constants(%x: tensor<2x2xf32>) -> tensor<4xf32> {
  %two = llm.constant dense<2.0> : tensor<f32>
  %v = llm.reshape %x : tensor<2x2xf32> -> tensor<4xf32>
  %r = llm.elementwise mul(%v, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK: rt.kernel @matmul_0 label "matmul f32[?, 8]" sizes 1
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<?x8xf32, #llm.dims<[s0, 8]>>, %{{.*}}: tensor<8x8xf32{{.*}}>):
// CHECK-NOT: rt.kernel @matmul
