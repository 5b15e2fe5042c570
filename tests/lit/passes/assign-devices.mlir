// RUN: llmc-opt %s --llmc-assign-devices='map={layers[0-1]=cpu0; *=cpu1; *norm*=cpu2}' --mlir-print-debuginfo=false | FileCheck %s
// RUN: not llmc-opt %s --llmc-assign-devices='map={layers[7]=cpu1}' 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not llmc-opt %s --llmc-assign-devices='map={layers[2-1]=cpu1}' 2>&1 | FileCheck %s --check-prefix=RANGE

// The last rule that matches decides.
// CHECK: llm.elementwise {{ *}}neg(%{{.*}}) {llm.device = "cpu1"}
// CHECK: llm.elementwise {{ *}}abs(%{{.*}}) {llm.device = "cpu2"}
// UNUSED: LLMC1531{{.*}}'layers[7]=cpu1' matches no node
// RANGE: LLMC1530{{.*}}layers[FIRST-LAST]
func.func @layers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = llm.elementwise neg(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("/model/layers.0/mlp/Neg")
  %b = llm.elementwise abs(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("/model/layers.2/norm/Abs")
  return %b : tensor<4xf32>
}
