// RUN: llmc-opt %s --llmc-narrow-weights=format=bf16 | FileCheck %s
// RUN: llmc-opt %s --llmc-narrow-weights=format=bf16 --llmc-narrow-weights=format=bf16 | FileCheck %s
// RUN: llmc-opt %s --llmc-narrow-weights | FileCheck %s --check-prefix=PLAIN

// A product reads bf16, its result stays f32; the embedding that shares the weight is left alone.
// CHECK-LABEL: func.func @product_and_embedding
// CHECK: llm.weight "w" : tensor<16x8xf32>
// CHECK: %[[NARROW:.*]] = llm.weight "w" : tensor<16x8xbf16>
// CHECK: llm.matmul %{{.*}}, %[[NARROW]] transpose_rhs : tensor<2x8xf32>, tensor<16x8xbf16> -> tensor<2x16xf32>
// PLAIN-NOT: bf16
func.func @product_and_embedding(%ids: tensor<2xi64>) -> tensor<2x16xf32> {
  %w = llm.weight "w" : tensor<16x8xf32>
  %x = llm.gather %w[%ids] axis 0 : tensor<16x8xf32>, tensor<2xi64> -> tensor<2x8xf32>
  %r = llm.matmul %x, %w transpose_rhs : tensor<2x8xf32>, tensor<16x8xf32> -> tensor<2x16xf32>
  return %r : tensor<2x16xf32>
}
