// RUN: sluice-opt %s -split-input-file -raise-embedding | FileCheck %s

!ids = tensor<?x?xi64, #onnx.dims<"b", "s">>
!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
// CHECK-LABEL: func.func @lookup
// CHECK-SAME: %[[IDS:[^ :]+]]: tensor
// CHECK: %[[W:.+]] = lm.weight "table" : tensor<32x8xf16>
// CHECK-NEXT: %[[X:.+]] = lm.embedding %[[W]], %[[IDS]] :
// CHECK-NEXT: return %[[X]]
func.func @lookup(%ids: !ids) -> !x {
  %w = onnx.weight "table" : tensor<32x8xf16>
  %0 = onnx.node "Gather"(%w, %ids) {axis = 0 : i64} : (tensor<32x8xf16>, !ids) -> !x
  return %0 : !x
}

// -----

!ids = tensor<?x?xi64, #onnx.dims<"b", "s">>
!x = tensor<8x?x?xf32, #onnx.dims<"", "b", "s">>
// Columns are not rows.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: lm.embedding
func.func @columns(%ids: !ids) -> !x {
  %w = onnx.weight "table" : tensor<8x32xf16>
  %0 = onnx.node "Gather"(%w, %ids) {axis = 1 : i64} : (tensor<8x32xf16>, !ids) -> !x
  return %0 : !x
}
