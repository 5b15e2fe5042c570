// RUN: llmc-opt --llmc-layout-kv-cache %s | FileCheck %s
// RUN: llmc-opt --llmc-layout-kv-cache=format=f16 %s | FileCheck %s --check-prefix=HALF
// RUN: not llmc-opt --llmc-layout-kv-cache=format=f8 %s 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: [LLMC1521] caches can be stored as f32, f16 or bf16, not 'f8'

// CHECK-LABEL: func @layer
// CHECK-DAG: rt.kv 0 : {{.*}}<2 x 64 x f32, columns = true>
// CHECK-DAG: rt.kv 1 : {{.*}}<2 x 64 x f32>
// HALF-LABEL: func @layer
// HALF-DAG: rt.kv 0 : {{.*}}<2 x 64 x f16, columns = true>
// HALF-DAG: rt.kv 1 : {{.*}}<2 x 64 x f16>
func.func @layer(%x: tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>)
    -> tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>> {
  %k = rt.kv 0 : !llm.kv<2 x 64 x f32>
  %v = rt.kv 1 : !llm.kv<2 x 64 x f32>
  llm.kv_append %k, %x past <[s1]> : !llm.kv<2 x 64 x f32>, tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>
  llm.kv_append %v, %x past <[s1]> : !llm.kv<2 x 64 x f32>, tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>
  %y = llm.attention %x, %k, %v scale 1.25e-1 keys <[s0 + s1]>
      : (tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>, !llm.kv<2 x 64 x f32>, !llm.kv<2 x 64 x f32>)
      -> tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>
  return %y : tensor<1x2x?x64xf32, #llm.dims<[1, 2, s0, 64]>>
}
