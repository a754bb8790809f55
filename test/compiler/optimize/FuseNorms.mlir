// RUN: sluice-opt %s --fuse-norms | FileCheck %s

// Who reads the sum, even in front of the norm, reads the norm's.
// CHECK-LABEL: func.func @sum
// CHECK: %[[W:.*]] = lm.weight "w"
// CHECK: %[[N:.*]], %[[S:.*]] = lm.rms_norm %arg1, %[[W]] residual(%arg2) {epsilon = 1.000000e-05 : f64, groups = 2 : i64}
// CHECK: %[[M:.*]] = arith.negf %[[S]]
// CHECK: return %[[N]], %[[S]], %[[M]]
func.func @sum(%ids: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x8xf32>, %r: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = arith.addf %x, %r : tensor<?x8xf32>
  %m = arith.negf %s : tensor<?x8xf32>
  %w = lm.weight "w" : tensor<4xf32>
  %n = lm.rms_norm %s, %w {epsilon = 1.0e-5, groups = 2 : i64} : (tensor<?x8xf32>, tensor<4xf32>) -> tensor<?x8xf32>
  return %n, %s, %m : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// A product, and a norm that has a residual already, stay.
// CHECK-LABEL: func.func @left_alone
// CHECK: arith.mulf
// CHECK: arith.addf
func.func @left_alone(%ids: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x8xf32>, %r: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %w = lm.weight "w" : tensor<8xf32>
  %p = arith.mulf %x, %r : tensor<?x8xf32>
  %n = lm.rms_norm %p, %w {epsilon = 1.0e-5} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %s = arith.addf %x, %r : tensor<?x8xf32>
  %n2, %s2 = lm.rms_norm %s, %w residual(%n) {epsilon = 1.0e-5} : (tensor<?x8xf32>, tensor<8xf32>, tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
  return %n, %n2, %s2 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
