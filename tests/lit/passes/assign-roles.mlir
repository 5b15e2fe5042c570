// RUN: llmc-opt %s --llmc-assign-roles | FileCheck %s

// CHECK-LABEL: func.func @by_name
// CHECK-SAME: llm.name = "input_ids", llm.role = "ids"
// CHECK-SAME: llm.cache_axis = 2 : i64, llm.name = "past_key_values.0.key", llm.pair = 1 : i64, llm.role = "past"
// CHECK-SAME: llm.name = "logits", llm.role = "logits"
// CHECK-SAME: llm.cache_axis = 2 : i64, llm.name = "present.0.key", llm.pair = 1 : i64, llm.role = "present"
func.func @by_name(%ids: tensor<1x4xi64> {llm.name = "input_ids"},
                   %past: tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0, 8]>> {llm.name = "past_key_values.0.key"},
                   %logits: tensor<1x4x16xf32>, %present: tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + 4, 8]>>)
    -> (tensor<1x4x16xf32> {llm.name = "logits"},
        tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + 4, 8]>> {llm.name = "present.0.key"}) {
  return %logits, %present : tensor<1x4x16xf32>, tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + 4, 8]>>
}

// Names tell nothing: a present is its past with something behind it, logits are the other rows.
// CHECK-LABEL: func.func @by_structure
// CHECK-SAME: llm.name = "x", llm.pair = 1 : i64, llm.role = "past"
// CHECK-SAME: llm.name = "linear_14", llm.role = "logits"
// CHECK-SAME: llm.name = "cat_7", llm.pair = 1 : i64, llm.role = "present"
func.func @by_structure(%ids: tensor<1x4xi64> {llm.name = "input_ids"},
                        %past: tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0, 8]>> {llm.name = "x"},
                        %logits: tensor<1x4x16xf32>, %new: tensor<1x2x4x8xf32>)
    -> (tensor<1x4x16xf32> {llm.name = "linear_14"},
        tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + 4, 8]>> {llm.name = "cat_7"}) {
  %present = llm.concat axis 2 (%past, %new)
      : (tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0, 8]>>, tensor<1x2x4x8xf32>)
      -> tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + 4, 8]>>
  return %logits, %present : tensor<1x4x16xf32>, tensor<1x2x?x8xf32, #llm.dims<[1, 2, s0 + 4, 8]>>
}

// An encoder's hidden states are no logits.
// CHECK-LABEL: func.func @encoder
// CHECK-NOT: logits
func.func @encoder(%ids: tensor<1x4xi64> {llm.name = "input_ids"}, %h: tensor<1x4x16xf32>)
    -> (tensor<1x4x16xf32> {llm.name = "last_hidden_state"}) {
  return %h : tensor<1x4x16xf32>
}
