// RUN: sluice-opt %s -split-input-file -raise-norm | FileCheck %s

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!r = tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>
// weight * (x * reciprocal(sqrt(mean(x^2) + epsilon))).
// CHECK-LABEL: func.func @reciprocal_root
// CHECK-SAME: %[[X:.+]]: tensor
// CHECK: %[[W:.+]] = lm.weight "w"
// CHECK-NEXT: %[[Y:.+]] = lm.rms_norm %[[X]], %[[W]] {epsilon = 9.99{{[0-9]+}}E-7 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @reciprocal_root(%x: !x) -> !x {
  %w = onnx.weight "w" : tensor<8xf32>
  %two = onnx.constant dense<2.0> : tensor<f32>
  %eps = onnx.constant dense<1.0e-6> : tensor<f32>
  %axes = onnx.constant dense<-1> : tensor<1xi64>
  %0 = onnx.node "Pow"(%x, %two) : (!x, tensor<f32>) -> !x
  %1 = onnx.node "ReduceMean"(%0, %axes) {keepdims = 1 : i64} : (!x, tensor<1xi64>) -> !r
  %2 = onnx.node "Add"(%1, %eps) : (!r, tensor<f32>) -> !r
  %3 = onnx.node "Sqrt"(%2) : (!r) -> !r
  %4 = onnx.node "Reciprocal"(%3) : (!r) -> !r
  %5 = onnx.node "Mul"(%x, %4) : (!x, !r) -> !x
  %6 = onnx.node "Mul"(%w, %5) : (tensor<8xf32>, !x) -> !x
  return %6 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!r = tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>
// x / sqrt(mean(x * x) + epsilon) * weight, the epsilon first.
// CHECK-LABEL: func.func @division
// CHECK: lm.rms_norm
// CHECK-NOT: onnx.node
func.func @division(%x: !x) -> !x {
  %w = onnx.weight "w" : tensor<8xf32>
  %eps = onnx.constant dense<1.0e-6> : tensor<f32>
  %axes = onnx.constant dense<2> : tensor<1xi64>
  %0 = onnx.node "Mul"(%x, %x) : (!x, !x) -> !x
  %1 = onnx.node "ReduceMean"(%0, %axes) {keepdims = 1 : i64} : (!x, tensor<1xi64>) -> !r
  %2 = onnx.node "Add"(%eps, %1) : (tensor<f32>, !r) -> !r
  %3 = onnx.node "Sqrt"(%2) : (!r) -> !r
  %4 = onnx.node "Div"(%x, %3) : (!x, !r) -> !x
  %5 = onnx.node "Mul"(%4, %w) : (!x, tensor<8xf32>) -> !x
  return %5 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!heads = tensor<?x?x2x4xf32, #onnx.dims<"b", "s", "", "">>
// The norm of each head of 4 features is one norm in 2 groups.
// CHECK-LABEL: func.func @per_head
// CHECK-SAME: %[[X:.+]]: tensor
// CHECK: %[[Y:.+]] = lm.rms_norm %[[X]], %{{.+}} {epsilon = {{.+}} : f64, groups = 2 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @per_head(%x: !x) -> !x {
  %w = onnx.weight "w" : tensor<4xf32>
  %split = onnx.constant dense<[0, 0, 2, 4]> : tensor<4xi64>
  %join = onnx.constant dense<[0, 0, 8]> : tensor<3xi64>
  %0 = onnx.node "Reshape"(%x, %split) : (!x, tensor<4xi64>) -> !heads
  %1 = onnx.node "SimplifiedLayerNormalization"(%0, %w) {epsilon = 1.0e-5 : f32} : (!heads, tensor<4xf32>) -> !heads
  %2 = onnx.node "Reshape"(%1, %join) : (!heads, tensor<3xi64>) -> !x
  return %2 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
// The fused residual is its own addition, which the graph may use again.
// CHECK-LABEL: func.func @skip
// CHECK-SAME: %[[X:[^ :]+]]: tensor{{[^%]+}}%[[SKIP:[^ :]+]]: tensor
// CHECK: %[[SUM:.+]] = arith.addf %[[X]], %[[SKIP]]
// CHECK-NEXT: %[[Y:.+]] = lm.rms_norm %[[SUM]]
// CHECK-NEXT: return %[[Y]], %[[SUM]]
func.func @skip(%x: !x, %skip: !x) -> (!x, !x) {
  %w = onnx.weight "w" : tensor<8xf32>
  %y, %a, %b, %sum = onnx.node "com.microsoft.SkipSimplifiedLayerNormalization"(%x, %skip, %w) {epsilon = 1.0e-5 : f32}
      : (!x, !x, tensor<8xf32>) -> (!x, none, none, !x)
  return %y, %sum : !x, !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!r = tensor<1x?x8xf32, #onnx.dims<"", "s", "">>
// A mean over the batch is not a norm of rows; x and the mean's operand must be one value.
// CHECK-LABEL: func.func @not_a_norm
// CHECK-NOT: lm.rms_norm
func.func @not_a_norm(%x: !x, %z: !x) -> !x {
  %w = onnx.weight "w" : tensor<8xf32>
  %two = onnx.constant dense<2.0> : tensor<f32>
  %axes = onnx.constant dense<0> : tensor<1xi64>
  %0 = onnx.node "Pow"(%x, %two) : (!x, tensor<f32>) -> !x
  %1 = onnx.node "ReduceMean"(%0, %axes) {keepdims = 1 : i64} : (!x, tensor<1xi64>) -> !r
  %2 = onnx.node "Sqrt"(%1) : (!r) -> !r
  %3 = onnx.node "Div"(%x, %2) : (!x, !r) -> !x
  %4 = onnx.node "Mul"(%w, %3) : (tensor<8xf32>, !x) -> !x
  return %4 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!r = tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>
// CHECK-LABEL: func.func @two_values
// CHECK-NOT: lm.rms_norm
func.func @two_values(%x: !x, %z: !x) -> !x {
  %w = onnx.weight "w" : tensor<8xf32>
  %two = onnx.constant dense<2.0> : tensor<f32>
  %axes = onnx.constant dense<2> : tensor<1xi64>
  %0 = onnx.node "Pow"(%z, %two) : (!x, tensor<f32>) -> !x
  %1 = onnx.node "ReduceMean"(%0, %axes) {keepdims = 1 : i64} : (!x, tensor<1xi64>) -> !r
  %2 = onnx.node "Sqrt"(%1) : (!r) -> !r
  %3 = onnx.node "Div"(%x, %2) : (!x, !r) -> !x
  %4 = onnx.node "Mul"(%w, %3) : (tensor<8xf32>, !x) -> !x
  return %4 : !x
}
