// RUN: llmc-opt %s --llmc-assign-weight-formats="rules={int4; *fc=bf16}" | FileCheck %s
// RUN: llmc-opt %s --llmc-assign-weight-formats | FileCheck %s --check-prefix=PLAIN

// What a product reads gets the format, and so does the gather of the same rows: stored once.
// PLAIN-NOT: int4
// PLAIN-NOT: bf16
// CHECK-LABEL: func.func @product_and_embedding
// CHECK: %[[W:.*]] = llm.weight "w" : tensor<16x8xf32, "int4:g64">
// CHECK-NOT: llm.weight
// CHECK: llm.gather %[[W]]
// CHECK: llm.matmul %{{.*}}, %[[W]] transpose_rhs : tensor<2x8xf32>, tensor<16x8xf32, "int4:g64"> -> tensor<2x16xf32>
func.func @product_and_embedding(%ids: tensor<2xi64>) -> tensor<2x16xf32> {
  %w = llm.weight "w" : tensor<16x8xf32>
  %x = llm.gather %w[%ids] axis 0 : tensor<16x8xf32>, tensor<2xi64> -> tensor<2x8xf32>
  %r = llm.matmul %x, %w transpose_rhs : tensor<2x8xf32>, tensor<16x8xf32> -> tensor<2x16xf32>
  return %r : tensor<2x16xf32>
}

// The rule for `fc` names the module around a node; a sum reads the weight as it was.
// CHECK-LABEL: func.func @module_of_a_node
// CHECK-DAG: llm.weight "v" : tensor<8x4xbf16>
// CHECK-DAG: llm.weight "v" : tensor<8x4xf32>
func.func @module_of_a_node(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %v = llm.weight "v" : tensor<8x4xf32>
  %r = llm.matmul %x, %v : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32> loc("/layers.0/fc/MatMul")
  %s = llm.elementwise add(%r, %v) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %s : tensor<8x4xf32>
}

// A table that only a gather reads is left alone by a format without a pattern; products of rank 3 are too.
// CHECK-LABEL: func.func @table
// CHECK: llm.weight "t" : tensor<16x8xf32>
// CHECK: llm.weight "b" : tensor<2x8x4xf32>
func.func @table(%ids: tensor<2xi64>, %x: tensor<2x3x8xf32>) -> (tensor<2x8xf32>, tensor<2x3x4xf32>) {
  %t = llm.weight "t" : tensor<16x8xf32>
  %b = llm.weight "b" : tensor<2x8x4xf32>
  %r = llm.gather %t[%ids] axis 0 : tensor<16x8xf32>, tensor<2xi64> -> tensor<2x8xf32>
  %s = llm.matmul %x, %b : tensor<2x3x8xf32>, tensor<2x8x4xf32> -> tensor<2x3x4xf32>
  return %r, %s : tensor<2x8xf32>, tensor<2x3x4xf32>
}

// A pattern reaches tables: rows of bf16 become f32 again.
// CHECK-LABEL: func.func @named_table
// CHECK: %[[T:.*]] = llm.weight "embed.fc" : tensor<16x8xbf16>
// CHECK: %[[G:.*]] = llm.gather %[[T]]{{.*}} -> tensor<2x8xbf16>
// CHECK: llm.elementwise cast(%[[G]]) : (tensor<2x8xbf16>) -> tensor<2x8xf32>
func.func @named_table(%ids: tensor<2xi64>) -> tensor<2x8xf32> {
  %t = llm.weight "embed.fc" : tensor<16x8xf32>
  %r = llm.gather %t[%ids] axis 0 : tensor<16x8xf32>, tensor<2xi64> -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}

// Products of f16 are computed in f32 with quantized weights; f16 stays f16 where bf16 was asked for.
// CHECK-LABEL: func.func @half
// CHECK: %[[X:.*]] = llm.elementwise cast(%{{.*}}) : (tensor<2x8xf16>) -> tensor<2x8xf32>
// CHECK: %[[P:.*]] = llm.matmul %[[X]], %{{.*}} : tensor<2x8xf32>, tensor<8x4xf32, "int4:g64"> -> tensor<2x4xf32>
// CHECK: llm.elementwise cast(%[[P]]) : (tensor<2x4xf32>) -> tensor<2x4xf16>
// CHECK: llm.weight "h.fc" : tensor<4x4xf16>
func.func @half(%x: tensor<2x8xf16>) -> tensor<2x4xf16> {
  %h = llm.weight "h" : tensor<8x4xf16>
  %r = llm.matmul %x, %h : tensor<2x8xf16>, tensor<8x4xf16> -> tensor<2x4xf16>
  %g = llm.weight "h.fc" : tensor<4x4xf16>
  %s = llm.matmul %r, %g : tensor<2x4xf16>, tensor<4x4xf16> -> tensor<2x4xf16>
  return %s : tensor<2x4xf16>
}
