// RUN: sluice-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @transposes
// CHECK: %[[W:.*]] = lm.weight "w"
// CHECK-NEXT: %[[T:.*]] = lm.weight_transpose %[[W]] perm = [2, 1, 0] : tensor<2x3x4xf32> -> tensor<4x3x2xf32>
// CHECK-NEXT: return %[[T]], %[[W]]
func.func @transposes() -> (tensor<4x3x2xf32>, tensor<2x3x4xf32>) {
  %w = lm.weight "w" : tensor<2x3x4xf32>
  %a = lm.weight_transpose %w perm = [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %b = lm.weight_transpose %a perm = [1, 0, 2] : tensor<3x4x2xf32> -> tensor<4x3x2xf32>
  %c = lm.weight_transpose %a perm = [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  return %b, %c : tensor<4x3x2xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @without_effect
// CHECK: %[[W:.*]] = lm.weight "w"
// CHECK-NEXT: return %[[W]], %[[W]], %[[W]], %[[W]]
func.func @without_effect() -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) {
  %w = lm.weight "w" : tensor<6x4xf32>
  %flat = lm.weight_reshape %w : tensor<6x4xf32> -> tensor<24xf32>
  %back = lm.weight_reshape %flat : tensor<24xf32> -> tensor<6x4xf32>
  %all = lm.weight_slice %w offsets = [0, 0] strides = [1, 1] : tensor<6x4xf32> -> tensor<6x4xf32>
  %same = lm.weight_convert %w : tensor<6x4xf32> -> tensor<6x4xf32>
  %one = lm.weight_concat %w dim = 1 : tensor<6x4xf32> -> tensor<6x4xf32>
  return %back, %all, %same, %one : tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
}

// Halves in order are the whole, halves in the other order are not.
// CHECK-LABEL: func.func @halves
// CHECK: %[[W:.*]] = lm.weight "w"
// CHECK: %[[C:.*]] = lm.weight_concat
// CHECK-NEXT: return %[[W]], %[[C]]
func.func @halves() -> (tensor<6x4xf32>, tensor<6x4xf32>) {
  %w = lm.weight "w" : tensor<6x4xf32>
  %a = lm.weight_slice %w offsets = [0, 0] strides = [1, 1] : tensor<6x4xf32> -> tensor<3x4xf32>
  %b = lm.weight_slice %w offsets = [3, 0] strides = [1, 1] : tensor<6x4xf32> -> tensor<3x4xf32>
  %ab = lm.weight_concat %a, %b dim = 0 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<6x4xf32>
  %ba = lm.weight_concat %b, %a dim = 0 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<6x4xf32>
  return %ab, %ba : tensor<6x4xf32>, tensor<6x4xf32>
}

// A probe stays though nothing reads it; a linear goes.
// CHECK-LABEL: func.func @probe
// CHECK-NOT: lm.linear
// CHECK: lm.probe "layer_output" 0
func.func @probe(%x: tensor<?x4xf32>) {
  %w = lm.weight "w" : tensor<6x4xf32>
  %y = lm.linear %x, %w : (tensor<?x4xf32>, tensor<6x4xf32>) -> tensor<?x6xf32>
  lm.probe "layer_output" 0, %x : tensor<?x4xf32>
  return
}
