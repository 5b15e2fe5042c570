// RUN: llmc-opt --llmc-fold-constants %s | FileCheck %s
// RUN: llmc-opt --llmc-fold-constants --llmc-fold-constants %s | FileCheck %s
// RUN: llmc-opt --llmc-fold-constants=max-bytes=4 %s | FileCheck %s --check-prefix=SMALL

// CHECK-LABEL: func @chain
func.func @chain() -> tensor<3x2xf32> {
  // CHECK: %[[R:.*]] = llm.constant dense<{{\[}}[-1.000000e+00, -4.000000e+00], [-2.000000e+00, -5.000000e+00], [-3.000000e+00, -6.000000e+00]]>
  // CHECK-NEXT: return %[[R]]
  // SMALL: llm.transpose
  %a = llm.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %t = llm.transpose %a [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %n = llm.elementwise neg(%t) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %n : tensor<3x2xf32>
}

// Each result is rounded to its own type: 1/3 in f16, and 300 wraps in i8.
// CHECK-LABEL: func @rounding
func.func @rounding() -> (tensor<f16>, tensor<i8>) {
  // CHECK-DAG: dense<3.332520e-01> : tensor<f16>
  // CHECK-DAG: dense<44> : tensor<i8>
  %one = llm.constant dense<1.0> : tensor<f16>
  %three = llm.constant dense<3.0> : tensor<f16>
  %q = llm.elementwise div(%one, %three) : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %i = llm.constant dense<300> : tensor<i64>
  %b = llm.elementwise cast(%i) : (tensor<i64>) -> tensor<i8>
  return %q, %b : tensor<f16>, tensor<i8>
}

// CHECK-LABEL: func @moves
func.func @moves() -> (tensor<4xi64>, tensor<2xi64>, tensor<2x2xi64>) {
  // CHECK-DAG: dense<[3, 2, 1, 7]> : tensor<4xi64>
  // CHECK-DAG: dense<[3, 1]> : tensor<2xi64>
  // CHECK-DAG: dense<{{\[}}[1, 2], [1, 2]]> : tensor<2x2xi64>
  %a = llm.constant dense<[1, 2, 3]> : tensor<3xi64>
  %s = llm.constant dense<7> : tensor<1xi64>
  %r = llm.slice %a <[2]> [-1] : tensor<3xi64> -> tensor<3xi64>
  %c = llm.concat axis 0 (%r, %s) : (tensor<3xi64>, tensor<1xi64>) -> tensor<4xi64>
  %i = llm.constant dense<[-1, 0]> : tensor<2xi64>
  %g = llm.gather %a[%i] axis 0 : tensor<3xi64>, tensor<2xi64> -> tensor<2xi64>
  %h = llm.slice %a <[0]> [1] : tensor<3xi64> -> tensor<2xi64>
  %b = llm.broadcast %h : tensor<2xi64> -> tensor<2x2xi64>
  return %c, %g, %b : tensor<4xi64>, tensor<2xi64>, tensor<2x2xi64>
}

// What is an error of the call stays one.
// CHECK-LABEL: func @errors
func.func @errors() -> (tensor<i64>, tensor<1xi64>) {
  // CHECK: llm.elementwise div
  // CHECK: llm.gather
  %a = llm.constant dense<1> : tensor<i64>
  %z = llm.constant dense<0> : tensor<i64>
  %q = llm.elementwise div(%a, %z) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %t = llm.constant dense<[1, 2]> : tensor<2xi64>
  %i = llm.constant dense<2> : tensor<1xi64>
  %g = llm.gather %t[%i] axis 0 : tensor<2xi64>, tensor<1xi64> -> tensor<1xi64>
  return %q, %g : tensor<i64>, tensor<1xi64>
}

// CHECK-LABEL: func @empty
func.func @empty() -> tensor<0x2xf32> {
  // CHECK: llm.constant dense<> : tensor<0x2xf32>
  // CHECK-NOT: transpose
  %a = llm.constant dense<> : tensor<2x0xf32>
  %t = llm.transpose %a [1, 0] : tensor<2x0xf32> -> tensor<0x2xf32>
  return %t : tensor<0x2xf32>
}
