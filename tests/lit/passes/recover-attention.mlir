// RUN: llmc-opt --llmc-recover-attention --canonicalize %s | FileCheck %s
// RUN: llmc-opt --llmc-recover-attention --llmc-recover-attention --canonicalize %s | FileCheck %s
// RUN: llmc-opt --llmc-recover-attention=remarks=true %s 2>&1 | FileCheck %s --check-prefix=REMARK

module attributes {llm.symbols = [#llm.symbol<"s", input>, #llm.symbol<"p", input>]} {

// The scale on the query and on the key, keys repeated for two query heads each, and a mask made of
// positions.
// CHECK-LABEL: func @causal
func.func @causal(%q: tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0, 8]>>,
                  %k: tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + s1, 8]>>)
    -> tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0, 8]>> {
  // CHECK: llm.attention %arg0, %arg1, %arg1 scale 2.500000e-01 causal <[s1]>
  // CHECK-NOT: softmax
  %half = llm.constant dense<0.5> : tensor<f32>
  %zero = llm.constant dense<0.0> : tensor<f32>
  %low = llm.constant dense<-3.40282347E+38> : tensor<f32>
  %kr = llm.reshape %k : tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + s1, 8]>>
      -> tensor<1x2x1x?x8xf32, #llm.dims<[1, 2, 1, s0 + s1, 8]>>
  %kb = llm.broadcast %kr : tensor<1x2x1x?x8xf32, #llm.dims<[1, 2, 1, s0 + s1, 8]>>
      -> tensor<1x2x2x?x8xf32, #llm.dims<[1, 2, 2, s0 + s1, 8]>>
  %k4 = llm.reshape %kb : tensor<1x2x2x?x8xf32, #llm.dims<[1, 2, 2, s0 + s1, 8]>>
      -> tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0 + s1, 8]>>
  %qs = llm.elementwise mul(%q, %half) : (tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0, 8]>>, tensor<f32>)
      -> tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0, 8]>>
  %ks = llm.elementwise mul(%k4, %half) : (tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0 + s1, 8]>>, tensor<f32>)
      -> tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0 + s1, 8]>>
  %s = llm.matmul %qs, %ks transpose_rhs : tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0, 8]>>,
      tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0 + s1, 8]>> -> tensor<1x4x?x?xf32, #llm.dims<[1, 4, s0, s0 + s1]>>
  %i = llm.iota #llm.dims<[s1]> step 1 : tensor<?xi64, #llm.dims<[s0]>>
  %j = llm.iota #llm.dims<[0]> step 1 : tensor<?xi64, #llm.dims<[s0 + s1]>>
  %ic = llm.reshape %i : tensor<?xi64, #llm.dims<[s0]>> -> tensor<?x1xi64, #llm.dims<[s0, 1]>>
  %see = llm.elementwise le(%j, %ic) : (tensor<?xi64, #llm.dims<[s0 + s1]>>, tensor<?x1xi64, #llm.dims<[s0, 1]>>)
      -> tensor<?x?xi1, #llm.dims<[s0, s0 + s1]>>
  %m = llm.elementwise select(%see, %zero, %low) : (tensor<?x?xi1, #llm.dims<[s0, s0 + s1]>>, tensor<f32>, tensor<f32>)
      -> tensor<?x?xf32, #llm.dims<[s0, s0 + s1]>>
  %sm = llm.elementwise add(%s, %m) : (tensor<1x4x?x?xf32, #llm.dims<[1, 4, s0, s0 + s1]>>,
      tensor<?x?xf32, #llm.dims<[s0, s0 + s1]>>) -> tensor<1x4x?x?xf32, #llm.dims<[1, 4, s0, s0 + s1]>>
  %p = llm.softmax %sm axis 3 : tensor<1x4x?x?xf32, #llm.dims<[1, 4, s0, s0 + s1]>>
      -> tensor<1x4x?x?xf32, #llm.dims<[1, 4, s0, s0 + s1]>>
  %r = llm.matmul %p, %k4 : tensor<1x4x?x?xf32, #llm.dims<[1, 4, s0, s0 + s1]>>,
      tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0 + s1, 8]>> -> tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0, 8]>>
  return %r : tensor<1x4x?x8xf32, #llm.dims<[1, 4, s0, 8]>>
}

// A mask that an input decides stays.
// CHECK-LABEL: func @input_mask
func.func @input_mask(%q: tensor<1x4x3x8xf32>, %k: tensor<1x4x5x8xf32>, %m: tensor<1x1x3x5xf32>)
    -> tensor<1x4x3x8xf32> {
  // CHECK: llm.attention %arg0, %arg1, %arg1 mask %arg2 scale 1.000000e+00
  // REMARK: remark: not a causal mask: the mask depends on an input's values
  %s = llm.matmul %q, %k transpose_rhs : tensor<1x4x3x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x3x5xf32>
  %a = llm.elementwise add(%s, %m) : (tensor<1x4x3x5xf32>, tensor<1x1x3x5xf32>) -> tensor<1x4x3x5xf32>
  %p = llm.softmax %a axis 3 : tensor<1x4x3x5xf32> -> tensor<1x4x3x5xf32>
  %r = llm.matmul %p, %k : tensor<1x4x3x5xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x3x8xf32>
  return %r : tensor<1x4x3x8xf32>
}

// A softmax over the queries is no attention.
// CHECK-LABEL: func @other_axis
func.func @other_axis(%q: tensor<1x4x3x8xf32>, %k: tensor<1x4x5x8xf32>) -> tensor<1x4x3x8xf32> {
  // CHECK-NOT: llm.attention
  // REMARK: remark: not an attention: the softmax isn't over the keys
  %s = llm.matmul %q, %k transpose_rhs : tensor<1x4x3x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x3x5xf32>
  %p = llm.softmax %s axis 2 : tensor<1x4x3x5xf32> -> tensor<1x4x3x5xf32>
  %r = llm.matmul %p, %k : tensor<1x4x3x5xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x3x8xf32>
  return %r : tensor<1x4x3x8xf32>
}

// CHECK-LABEL: func @rope
func.func @rope(%x: tensor<1x4x3x8xf32>, %f: tensor<1x1x3x4xf32>) -> tensor<1x4x3x8xf32> {
  // CHECK: llm.rope %arg0
  %d = llm.concat axis 3 (%f, %f) : (tensor<1x1x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x1x3x8xf32>
  %c = llm.elementwise cos(%d) : (tensor<1x1x3x8xf32>) -> tensor<1x1x3x8xf32>
  %s = llm.elementwise sin(%d) : (tensor<1x1x3x8xf32>) -> tensor<1x1x3x8xf32>
  %a = llm.slice %x <[0, 0, 0, 0]> [1, 1, 1, 1] : tensor<1x4x3x8xf32> -> tensor<1x4x3x4xf32>
  %b = llm.slice %x <[0, 0, 0, 4]> [1, 1, 1, 1] : tensor<1x4x3x8xf32> -> tensor<1x4x3x4xf32>
  %n = llm.elementwise neg(%b) : (tensor<1x4x3x4xf32>) -> tensor<1x4x3x4xf32>
  %t = llm.concat axis 3 (%n, %a) : (tensor<1x4x3x4xf32>, tensor<1x4x3x4xf32>) -> tensor<1x4x3x8xf32>
  %l = llm.elementwise mul(%x, %c) : (tensor<1x4x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x4x3x8xf32>
  %r = llm.elementwise mul(%t, %s) : (tensor<1x4x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x4x3x8xf32>
  %y = llm.elementwise add(%l, %r) : (tensor<1x4x3x8xf32>, tensor<1x4x3x8xf32>) -> tensor<1x4x3x8xf32>
  return %y : tensor<1x4x3x8xf32>
}

// Tables whose halves may differ aren't a rotation.
// CHECK-LABEL: func @free_tables
func.func @free_tables(%x: tensor<1x4x3x8xf32>, %c: tensor<1x1x3x8xf32>, %s: tensor<1x1x3x8xf32>) -> tensor<1x4x3x8xf32> {
  // CHECK-NOT: llm.rope
  %a = llm.slice %x <[0, 0, 0, 0]> [1, 1, 1, 1] : tensor<1x4x3x8xf32> -> tensor<1x4x3x4xf32>
  %b = llm.slice %x <[0, 0, 0, 4]> [1, 1, 1, 1] : tensor<1x4x3x8xf32> -> tensor<1x4x3x4xf32>
  %n = llm.elementwise neg(%b) : (tensor<1x4x3x4xf32>) -> tensor<1x4x3x4xf32>
  %t = llm.concat axis 3 (%n, %a) : (tensor<1x4x3x4xf32>, tensor<1x4x3x4xf32>) -> tensor<1x4x3x8xf32>
  %l = llm.elementwise mul(%x, %c) : (tensor<1x4x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x4x3x8xf32>
  %r = llm.elementwise mul(%t, %s) : (tensor<1x4x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x4x3x8xf32>
  %y = llm.elementwise add(%l, %r) : (tensor<1x4x3x8xf32>, tensor<1x4x3x8xf32>) -> tensor<1x4x3x8xf32>
  return %y : tensor<1x4x3x8xf32>
}
}
