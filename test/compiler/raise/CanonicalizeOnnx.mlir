// RUN: sluice-opt %s -split-input-file -canonicalize-onnx | FileCheck %s

// Activations become f32, the file's type of a cache stays known, casts between float types vanish; weights keep their type.
// CHECK-LABEL: func.func @half
// CHECK-SAME: %[[X:.+]]: tensor<?x8xf32, #onnx.dims<"n", "">> {lm.element = f16}
// CHECK: %[[W:.+]] = onnx.weight "w" : tensor<8x8xf16>
// CHECK-NEXT: %[[Y:.+]] = onnx.node "MatMul"(%[[X]], %[[W]]){{.*}} -> tensor<?x8xf32, #onnx.dims<"n", "">>
// CHECK-NEXT: return %[[Y]]
!h = tensor<?x8xf16, #onnx.dims<"n", "">>
!f = tensor<?x8xf32, #onnx.dims<"n", "">>
func.func @half(%x: !h) -> !f {
  %w = onnx.weight "w" : tensor<8x8xf16>
  %0 = onnx.node "Identity"(%x) : (!h) -> !h
  %1 = onnx.node "MatMul"(%0, %w) : (!h, tensor<8x8xf16>) -> !h
  %2 = onnx.node "Cast"(%1) {to = 1 : i64} : (!h) -> !f
  return %2 : !f
}

// -----

// A contraction joins `t` and `s + u`: t is their sum everywhere.
// CHECK-LABEL: func.func @equal_sizes
// CHECK-SAME: %{{.+}}: tensor<?x?xf32, #onnx.dims<"s", "s + u">>, %{{.+}}: tensor<?x4xf32, #onnx.dims<"u", "">>
!p = tensor<?x?xf32, #onnx.dims<"s", "t">>
!u = tensor<?x4xf32, #onnx.dims<"u", "">>
!s = tensor<?x4xf32, #onnx.dims<"s", "">>
!v = tensor<?x4xf32, #onnx.dims<"s + u", "">>
func.func @equal_sizes(%p: !p, %past: !u, %new: !s) -> !s {
  %v = onnx.node "Concat"(%past, %new) {axis = 0 : i64} : (!u, !s) -> !v
  %0 = onnx.node "MatMul"(%p, %v) : (!p, !v) -> !s
  return %0 : !s
}

// -----

// A cast that changes what a value means stays.
// CHECK-LABEL: func.func @kept
// CHECK: onnx.node "Cast"
// CHECK: onnx.node "Cast"
func.func @kept(%ids: tensor<4xi64>, %mask: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0 = onnx.node "Cast"(%ids) {to = 1 : i64} : (tensor<4xi64>) -> tensor<4xf32>
  %1 = onnx.node "Cast"(%mask) {to = 9 : i64} : (tensor<4xi64>) -> tensor<4xi1>
  return %0, %1 : tensor<4xf32>, tensor<4xi1>
}
