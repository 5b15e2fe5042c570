// RUN: llmc-opt %s --llmc-insert-transfers | FileCheck %s
// RUN: llmc-opt %s --llmc-insert-transfers --llmc-insert-transfers | FileCheck %s

// A value read twice on another device is copied once; a weight is placed there, not copied; the
// result comes back to the host.
// CHECK-LABEL: func.func @two_devices
// CHECK: rt.weight "w" layout "plain" {llm.device = "cpu1"}
// CHECK: rt.wait "cpu0"
// CHECK-NEXT: %[[MOVED:.*]] = rt.transfer %{{.*}} to "cpu1"
// CHECK: rt.dispatch @k on "cpu1" <[]>(%[[MOVED]], %{{.*}})
// CHECK-NOT: rt.transfer %{{.*}} to "cpu1"
// CHECK: %[[LAST:.*]] = rt.dispatch @k on "cpu1" <[]>(%[[MOVED]], %{{.*}})
// CHECK: rt.wait "cpu1"
// CHECK-NEXT: %[[BACK:.*]] = rt.transfer %[[LAST]] to "cpu0"
// CHECK: return %[[BACK]]
func.func @two_devices(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = rt.weight "w" layout "plain" : tensor<4xf32>
  %a = rt.dispatch @k on "cpu0" <[]>(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = rt.dispatch @k on "cpu1" <[]>(%a, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = rt.dispatch @k on "cpu1" <[]>(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// CHECK-LABEL: func.func @one_device
// CHECK-NOT: rt.transfer
// CHECK: return
func.func @one_device(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = rt.dispatch @k on "cpu0" <[]>(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

rt.kernel @k label "add" sizes 0 {
^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
  %r = llm.elementwise add(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  rt.yield %r : tensor<4xf32>
}
