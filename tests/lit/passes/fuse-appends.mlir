// RUN: llmc-opt --llmc-fuse-appends %s | FileCheck %s
// RUN: llmc-opt --llmc-fuse-appends --llmc-fuse-elementwise --llmc-outline-kernels %s | FileCheck %s --check-prefix=OUTLINE

!rows = tensor<1x?x2x64xf32, #llm.dims<[1, s0, 2, 64]>>
!all = tensor<1x?x6x64xf32, #llm.dims<[1, s0, 6, 64]>>

// CHECK-LABEL: func @layer
// OUTLINE-LABEL: func @layer
func.func @layer(%x: !all) -> !rows {
  // CHECK: %[[Q:.*]] = llm.fusion -> tensor<1x?x2x64xf32, {{.*}}> {
  // CHECK: %[[S:.*]] = llm.slice %arg0 <[0, 0, 0, 0]>
  // CHECK: llm.slice %arg0 <[0, 0, 4, 0]>
  // CHECK: llm.kv_append
  // CHECK: llm.slice %arg0 <[0, 0, 2, 0]>
  // CHECK: llm.kv_append
  // CHECK: llm.fusion_yield %[[S]]
  // CHECK: llm.attention %[[Q]]
  // OUTLINE: rt.dispatch @kv_append_0
  // OUTLINE: rt.dispatch @attention_1
  // OUTLINE-NEXT: return
  %keys = rt.kv 0 : !llm.kv<2 x 64 x f32>
  %values = rt.kv 1 : !llm.kv<2 x 64 x f32>
  %q = llm.slice %x <[0, 0, 0, 0]> [1, 1, 1, 1] : !all -> !rows
  %k = llm.slice %x <[0, 0, 2, 0]> [1, 1, 1, 1] : !all -> !rows
  %v = llm.slice %x <[0, 0, 4, 0]> [1, 1, 1, 1] : !all -> !rows
  llm.kv_append %keys, %k past <[s1]> heads_last : !llm.kv<2 x 64 x f32>, !rows
  llm.kv_append %values, %v past <[s1]> heads_last : !llm.kv<2 x 64 x f32>, !rows
  %y = llm.attention %q, %keys, %values scale 1.25e-1 keys <[s0 + s1]> heads_last
      : (!rows, !llm.kv<2 x 64 x f32>, !llm.kv<2 x 64 x f32>) -> !rows
  return %y : !rows
}
