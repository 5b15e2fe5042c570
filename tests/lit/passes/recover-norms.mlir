// RUN: llmc-opt --llmc-recover-norms --canonicalize %s | FileCheck %s
// RUN: llmc-opt --llmc-recover-norms --llmc-recover-norms --canonicalize %s | FileCheck %s
// RUN: llmc-opt --llmc-recover-norms=remarks=true %s 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func @rms
func.func @rms(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[R:.*]] = llm.rms_norm %arg0 scale %arg1 axis 1 epsilon 9.9{{.*}}E-7
  // CHECK-NEXT: return %[[R]]
  %e = llm.constant dense<1.0e-6> : tensor<f32>
  %q = llm.elementwise mul(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = llm.reduce mean %q axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %v = llm.elementwise add(%e, %m) : (tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %s = llm.elementwise rsqrt(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = llm.elementwise mul(%x, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %r = llm.elementwise mul(%w, %n) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// The scale stays outside: it is applied to what was rounded to f16.
// CHECK-LABEL: func @rms_f16
func.func @rms_f16(%x: tensor<4x8xf16>, %w: tensor<8xf16>) -> tensor<4x8xf16> {
  // CHECK: %[[N:.*]] = llm.rms_norm %arg0 axis 1 {{.*}} : tensor<4x8xf16> -> tensor<4x8xf16>
  %c = llm.elementwise cast(%x) : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %e = llm.constant dense<1.0e-6> : tensor<f32>
  %q = llm.elementwise mul(%c, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = llm.reduce mean %q axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %v = llm.elementwise add(%m, %e) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = llm.elementwise sqrt(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = llm.elementwise div(%c, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %b = llm.elementwise cast(%n) : (tensor<4x8xf32>) -> tensor<4x8xf16>
  %r = llm.elementwise add(%b, %w) : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
  return %r : tensor<4x8xf16>
}

// CHECK-LABEL: func @layer
func.func @layer(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[R:.*]] = llm.layer_norm %arg0 scale %arg1 bias %arg2 axis 1
  // CHECK-NEXT: return %[[R]]
  %e = llm.constant dense<1.0e-5> : tensor<f32>
  %m = llm.reduce mean %x axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %d = llm.elementwise sub(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = llm.elementwise mul(%d, %d) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %k = llm.reduce mean %q axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %v = llm.elementwise add(%k, %e) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = llm.elementwise sqrt(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = llm.elementwise div(%d, %s) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %g = llm.elementwise mul(%n, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %r = llm.elementwise add(%g, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// The mean is over the first dimension.
// CHECK-LABEL: func @other_axis
func.func @other_axis(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: rms_norm
  // REMARK: remark: not a norm: the mean isn't over the last dimensions
  %e = llm.constant dense<1.0e-6> : tensor<f32>
  %q = llm.elementwise mul(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = llm.reduce mean %q axes [0] : tensor<4x8xf32> -> tensor<1x8xf32>
  %v = llm.elementwise add(%m, %e) : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %s = llm.elementwise rsqrt(%v) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %n = llm.elementwise mul(%x, %s) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}
