// RUN: llmc-opt --llmc-recover-activations --canonicalize %s | FileCheck %s
// RUN: llmc-opt --llmc-recover-activations --llmc-recover-activations --canonicalize %s | FileCheck %s
// RUN: llmc-opt --llmc-recover-activations=remarks=true %s 2>&1 | FileCheck %s --check-prefix=REMARK

// x / sqrt(2), with 0.5 at the front.
// CHECK-LABEL: func @erf
func.func @erf(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: llm.elementwise gelu(%arg0)
  // CHECK-NEXT: return
  %c = llm.constant dense<1.41421354> : tensor<f32>
  %one = llm.constant dense<1.0> : tensor<f32>
  %half = llm.constant dense<0.5> : tensor<f32>
  %d = llm.elementwise div(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = llm.elementwise erf(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %a = llm.elementwise add(%e, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %h = llm.elementwise mul(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = llm.elementwise mul(%h, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// x * sqrt(1/2), with 0.5 at the end.
// CHECK-LABEL: func @erf_last
func.func @erf_last(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: llm.elementwise gelu(%arg0)
  %c = llm.constant dense<0.707106769> : tensor<f32>
  %one = llm.constant dense<1.0> : tensor<f32>
  %half = llm.constant dense<0.5> : tensor<f32>
  %d = llm.elementwise mul(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = llm.elementwise erf(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %a = llm.elementwise add(%one, %e) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %h = llm.elementwise mul(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = llm.elementwise mul(%h, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func @tanh_pow
func.func @tanh_pow(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: llm.elementwise gelu_tanh(%arg0)
  %three = llm.constant dense<3.0> : tensor<f32>
  %k = llm.constant dense<0.044715> : tensor<f32>
  %s = llm.constant dense<0.797884583> : tensor<f32>
  %one = llm.constant dense<1.0> : tensor<f32>
  %half = llm.constant dense<0.5> : tensor<f32>
  %p = llm.elementwise pow(%x, %three) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = llm.elementwise mul(%p, %k) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %u = llm.elementwise add(%x, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v = llm.elementwise mul(%u, %s) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = llm.elementwise tanh(%v) : (tensor<4xf32>) -> tensor<4xf32>
  %a = llm.elementwise add(%t, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %h = llm.elementwise mul(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = llm.elementwise mul(%h, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// (1 + 0.044715 x x) * (0.79788 x), as Megatron multiplies.
// CHECK-LABEL: func @tanh_factored
func.func @tanh_factored(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: llm.elementwise gelu_tanh(%arg0)
  %k = llm.constant dense<0.044715> : tensor<f32>
  %s = llm.constant dense<0.797884583> : tensor<f32>
  %one = llm.constant dense<1.0> : tensor<f32>
  %half = llm.constant dense<0.5> : tensor<f32>
  %p = llm.elementwise mul(%x, %k) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = llm.elementwise mul(%x, %p) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u = llm.elementwise add(%q, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %w = llm.elementwise mul(%x, %s) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %v = llm.elementwise mul(%w, %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = llm.elementwise tanh(%v) : (tensor<4xf32>) -> tensor<4xf32>
  %a = llm.elementwise add(%t, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %h = llm.elementwise mul(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = llm.elementwise mul(%h, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func @silu
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: llm.elementwise silu(%arg0)
  %s = llm.elementwise sigmoid(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = llm.elementwise mul(%s, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Quick GELU stays as it is.
// CHECK-LABEL: func @quick
func.func @quick(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: silu
  %c = llm.constant dense<1.702> : tensor<f32>
  %m = llm.elementwise mul(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = llm.elementwise sigmoid(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %r = llm.elementwise mul(%s, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func @other_constant
func.func @other_constant(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: gelu
  // REMARK: remark: not a GELU: the constants inside are others
  %c = llm.constant dense<0.6> : tensor<f32>
  %one = llm.constant dense<1.0> : tensor<f32>
  %half = llm.constant dense<0.5> : tensor<f32>
  %d = llm.elementwise mul(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = llm.elementwise erf(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %a = llm.elementwise add(%e, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %h = llm.elementwise mul(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = llm.elementwise mul(%h, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
