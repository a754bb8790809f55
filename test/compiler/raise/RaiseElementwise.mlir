// RUN: sluice-opt %s -split-input-file -raise-elementwise | FileCheck %s

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!g = tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>
// Equal shapes are arith on tensors; a gate of one feature, a number or a vector is broadcast by linalg.generic.
// CHECK-LABEL: func.func @broadcasts
// CHECK-SAME: %[[X:[^ :]+]]: tensor{{[^%]+}}%[[Y:[^ :]+]]: tensor{{[^%]+}}%[[G:[^ :]+]]: tensor
// CHECK: %[[W:.+]] = lm.weight "w" : tensor<8xf16>
// CHECK: %[[SUM:.+]] = arith.addf %[[X]], %[[Y]]
// CHECK: linalg.generic {{.*}} ins(%[[G]] :
// CHECK: math.exp
// CHECK: %[[GATED:.+]] = linalg.generic {{.*}} ins(%{{.+}}, %[[SUM]] :
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}} ins(%[[GATED]], %[[W]] :
// CHECK: arith.extf
// CHECK: linalg.generic
// CHECK: arith.constant 3.000000e+00
// CHECK-NOT: onnx.node
func.func @broadcasts(%x: !x, %y: !x, %g: !g) -> !x {
  %w = onnx.weight "w" : tensor<8xf16>
  %three = onnx.constant dense<3.0> : tensor<f32>
  %0 = onnx.node "Add"(%x, %y) : (!x, !x) -> !x
  %1 = onnx.node "Sigmoid"(%g) : (!g) -> !g
  %2 = onnx.node "Mul"(%1, %0) : (!g, !x) -> !x
  %3 = onnx.node "Add"(%2, %w) : (!x, tensor<8xf16>) -> !x
  %4 = onnx.node "Div"(%3, %three) : (!x, tensor<f32>) -> !x
  return %4 : !x
}
