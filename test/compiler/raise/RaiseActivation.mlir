// RUN: sluice-opt %s -split-input-file -raise-linear -raise-activation | FileCheck %s

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
// silu(gate) * up, factors in either order.
// CHECK-LABEL: func.func @swiglu
// CHECK: %[[G:.+]] = lm.linear
// CHECK: %[[U:.+]] = lm.linear
// CHECK: lm.gated_activation %[[G]], %[[U]] <kind = silu, alpha = 1.0{{.*}}, beta = 0.0{{.*}}, limit = 0x7FF0000000000000 : f64>
func.func @swiglu(%x: !x) -> !x {
  %g = onnx.weight "g" : tensor<8x8xf32>
  %u = onnx.weight "u" : tensor<8x8xf32>
  %0 = onnx.node "MatMul"(%x, %g) : (!x, tensor<8x8xf32>) -> !x
  %1 = onnx.node "MatMul"(%x, %u) : (!x, tensor<8x8xf32>) -> !x
  %2 = onnx.node "Sigmoid"(%0) : (!x) -> !x
  %3 = onnx.node "Mul"(%2, %0) : (!x, !x) -> !x
  %4 = onnx.node "Mul"(%1, %3) : (!x, !x) -> !x
  return %4 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!both = tensor<?x?x16xf32, #onnx.dims<"b", "s", "">>
// One linear whose rows alternate between gate and up; both clamped at 7, up + 1, sigmoid(1.702 * gate).
// CHECK-LABEL: func.func @clamped
// CHECK: %[[W:.+]] = lm.weight_transpose
// CHECK-DAG: %[[GW:.+]] = lm.weight_slice %[[W]] offsets = [0, 0] strides = [2, 1]
// CHECK-DAG: %[[UW:.+]] = lm.weight_slice %[[W]] offsets = [1, 0] strides = [2, 1]
// CHECK-DAG: %[[G:.+]] = lm.linear %{{.+}}, %[[GW]] :
// CHECK-DAG: %[[U:.+]] = lm.linear %{{.+}}, %[[UW]] :
// CHECK: lm.gated_activation %[[G]], %[[U]] <kind = silu, alpha = 1.70{{.*}}, beta = 1.0{{.*}}, limit = 7.0{{.*}}>
func.func @clamped(%x: !x) -> !x {
  %w = onnx.weight "w" : tensor<8x16xf32>
  %zero = onnx.constant dense<0> : tensor<1xi64>
  %one = onnx.constant dense<1> : tensor<1xi64>
  %two = onnx.constant dense<2> : tensor<1xi64>
  %end = onnx.constant dense<9223372036854775807> : tensor<1xi64>
  %low = onnx.constant dense<-7.0> : tensor<f32>
  %high = onnx.constant dense<7.0> : tensor<f32>
  %alpha = onnx.constant dense<1.702> : tensor<f32>
  %beta = onnx.constant dense<1.0> : tensor<f32>
  %none = onnx.none
  %0 = onnx.node "MatMul"(%x, %w) : (!x, tensor<8x16xf32>) -> !both
  %1 = onnx.node "Slice"(%0, %zero, %end, %two, %two) : (!both, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !x
  %2 = onnx.node "Slice"(%0, %one, %end, %two, %two) : (!both, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !x
  %3 = onnx.node "Clip"(%1, %none, %high) : (!x, none, tensor<f32>) -> !x
  %4 = onnx.node "Clip"(%2, %low, %high) : (!x, tensor<f32>, tensor<f32>) -> !x
  %5 = onnx.node "Mul"(%3, %alpha) : (!x, tensor<f32>) -> !x
  %6 = onnx.node "Sigmoid"(%5) : (!x) -> !x
  %7 = onnx.node "Mul"(%3, %6) : (!x, !x) -> !x
  %8 = onnx.node "Add"(%4, %beta) : (!x, tensor<f32>) -> !x
  %9 = onnx.node "Mul"(%8, %7) : (!x, !x) -> !x
  return %9 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
// The sigmoid of another value gates nothing.
// CHECK-LABEL: func.func @two_gates
// CHECK-NOT: lm.gated_activation
func.func @two_gates(%x: !x) -> !x {
  %g = onnx.weight "g" : tensor<8x8xf32>
  %u = onnx.weight "u" : tensor<8x8xf32>
  %0 = onnx.node "MatMul"(%x, %g) : (!x, tensor<8x8xf32>) -> !x
  %1 = onnx.node "MatMul"(%x, %u) : (!x, tensor<8x8xf32>) -> !x
  %2 = onnx.node "Sigmoid"(%1) : (!x) -> !x
  %3 = onnx.node "Mul"(%2, %0) : (!x, !x) -> !x
  %4 = onnx.node "Mul"(%1, %3) : (!x, !x) -> !x
  return %4 : !x
}
