// RUN: sluice-opt %s -split-input-file -raise-linear -raise-rope -verify-diagnostics | FileCheck %s

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!split = tensor<?x?x2x4xf32, #onnx.dims<"b", "s", "", "">>
!heads = tensor<?x2x?x4xf32, #onnx.dims<"b", "", "s", "">>
!half = tensor<?x2x?x2xf32, #onnx.dims<"b", "", "s", "">>
!ids = tensor<?x?xi64, #onnx.dims<"b", "s">>
!angle = tensor<?x?x2xf32, #onnx.dims<"b", "s", "">>
!full = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
!cos = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "s", "">>
// x * cos + concat(-hi, lo) * sin on [batch, heads, tokens, size]; angles are positions times frequencies, twice in a row.
// CHECK-LABEL: func.func @rotate_half
// CHECK-SAME: %[[X:[^ :]+]]: tensor{{[^%]+}}%[[IDS:[^ :]+]]: tensor
// CHECK: %[[COS:.+]], %[[SIN:.+]] = lm.rope_table %[[IDS]] {frequencies = array<f64: 1.000000e+00, 2.500000e-01>, scale = 1.000000e+00 : f64}
// CHECK: %[[Y:.+]] = lm.rope %[[X]], %[[COS]], %[[SIN]] {heads = 2 : i64}
func.func @rotate_half(%x: !x, %ids: !ids) -> !heads {
  %frequencies = onnx.constant dense<[1.0, 0.25]> : tensor<2xf32>
  %shape = onnx.constant dense<[0, 0, 2, 4]> : tensor<4xi64>
  %i0 = onnx.constant dense<0> : tensor<1xi64>
  %i1 = onnx.constant dense<1> : tensor<1xi64>
  %i2 = onnx.constant dense<2> : tensor<1xi64>
  %i3 = onnx.constant dense<3> : tensor<1xi64>
  %end = onnx.constant dense<9223372036854775807> : tensor<1xi64>
  %0 = onnx.node "Unsqueeze"(%ids, %i2) : (!ids, tensor<1xi64>) -> tensor<?x?x1xi64, #onnx.dims<"b", "s", "">>
  %1 = onnx.node "Cast"(%0) {to = 1 : i64} : (tensor<?x?x1xi64, #onnx.dims<"b", "s", "">>) -> tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>
  %2 = onnx.node "Mul"(%1, %frequencies) : (tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>, tensor<2xf32>) -> !angle
  %3 = onnx.node "Concat"(%2, %2) {axis = -1 : i64} : (!angle, !angle) -> !full
  %4 = onnx.node "Cos"(%3) : (!full) -> !full
  %5 = onnx.node "Sin"(%3) : (!full) -> !full
  %cos = onnx.node "Unsqueeze"(%4, %i1) : (!full, tensor<1xi64>) -> !cos
  %sin = onnx.node "Unsqueeze"(%5, %i1) : (!full, tensor<1xi64>) -> !cos
  %6 = onnx.node "Reshape"(%x, %shape) : (!x, tensor<4xi64>) -> !split
  %7 = onnx.node "Transpose"(%6) {perm = array<i64: 0, 2, 1, 3>} : (!split) -> !heads
  %8 = onnx.node "Mul"(%7, %cos) : (!heads, !cos) -> !heads
  %lo = onnx.node "Slice"(%7, %i0, %i2, %i3, %i1) : (!heads, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !half
  %hi = onnx.node "Slice"(%7, %i2, %end, %i3, %i1) : (!heads, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !half
  %9 = onnx.node "Neg"(%hi) : (!half) -> !half
  %10 = onnx.node "Concat"(%9, %lo) {axis = -1 : i64} : (!half, !half) -> !heads
  %11 = onnx.node "Mul"(%10, %sin) : (!heads, !cos) -> !heads
  %12 = onnx.node "Add"(%8, %11) : (!heads, !heads) -> !heads
  return %12 : !heads
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!ids = tensor<?x?xi64, #onnx.dims<"b", "s">>
!angle = tensor<?x?x2xf32, #onnx.dims<"b", "s", "">>
// The operator on tables: cos and sin of p * 1 and p * 0.25 for p < 4, times 1.5; both uses share one table.
// CHECK-LABEL: func.func @operator
// CHECK-SAME: %[[X:[^ :]+]]: tensor{{[^%]+}}%[[IDS:[^ :]+]]: tensor
// CHECK: %[[COS:.+]], %[[SIN:.+]] = lm.rope_table %[[IDS]] {frequencies = array<f64: {{1.0000[0-9e+]+|0.99999[0-9]+}}, {{2.500[0-9]+e-01|0.2500[0-9]+|0.24999[0-9]+}}>, lm.table_length = 4 : i64, scale = 1.500000e+00 : f64}
// CHECK-NOT: lm.rope_table
// CHECK: lm.rope %[[X]], %[[COS]], %[[SIN]] {heads = 2 : i64}
// CHECK: lm.rope %[[X]], %[[COS]], %[[SIN]] {heads = 2 : i64, interleaved}
func.func @operator(%x: !x, %ids: !ids) -> (!x, !x) {
  %cos = onnx.constant dense<[[1.5, 1.5], [0.81045346, 1.4533686], [-0.62422025, 1.3163738], [-1.4849887, 1.0975333]]> : tensor<4x2xf32>
  %sin = onnx.constant dense<[[0.0, 0.0], [1.2622065, 0.37110594], [1.3639461, 0.7191383], [0.21168001, 1.0224581]]> : tensor<4x2xf32>
  %0 = onnx.node "Gather"(%cos, %ids) : (tensor<4x2xf32>, !ids) -> !angle
  %1 = onnx.node "Gather"(%sin, %ids) : (tensor<4x2xf32>, !ids) -> !angle
  %2 = onnx.node "RotaryEmbedding"(%x, %0, %1) {num_heads = 2 : i64} : (!x, !angle, !angle) -> !x
  %3 = onnx.node "com.microsoft.RotaryEmbedding"(%x, %ids, %cos, %sin) {num_heads = 2 : i64, interleaved = 1 : i64}
      : (!x, !ids, tensor<4x2xf32>, tensor<4x2xf32>) -> !x
  return %2, %3 : !x, !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!ids = tensor<?x?xi64, #onnx.dims<"b", "s">>
// A table whose last row does not belong to it.
func.func @wrong_table(%x: !x, %ids: !ids) -> !x {
  %cos = onnx.constant dense<[[1.5, 1.5], [0.81045346, 1.4533686], [-0.62422025, 1.3163738], [-1.4849887, 1.0976333]]> : tensor<4x2xf32>
  %sin = onnx.constant dense<[[0.0, 0.0], [1.2622065, 0.37110594], [1.3639461, 0.7191383], [0.21168001, 1.0224581]]> : tensor<4x2xf32>
  // expected-error @below {{RotaryEmbedding: can't be raised: the cos and sin tables differ from any rotation by 0.00002}}
  %0 = onnx.node "com.microsoft.RotaryEmbedding"(%x, %ids, %cos, %sin) {num_heads = 2 : i64}
      : (!x, !ids, tensor<4x2xf32>, tensor<4x2xf32>) -> !x
  return %0 : !x
}
