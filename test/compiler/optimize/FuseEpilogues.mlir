// RUN: sluice-opt %s --fuse-epilogues | FileCheck %s

// CHECK-LABEL: func.func @residual
// CHECK: %[[Y:.*]] = lm.linear %arg1, %{{.*}} bias(%{{.*}}) residual(%arg2)
// CHECK-NOT: arith.addf
// CHECK: return %[[Y]]
func.func @residual(%ids: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x8xf32>, %r: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %w = lm.weight "w" : tensor<16x8xf32>
  %b = lm.weight "b" : tensor<16xf32>
  %y = lm.linear %x, %w bias(%b) : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %s = arith.addf %r, %y : tensor<?x16xf32>
  return %s : tensor<?x16xf32>
}

// CHECK-LABEL: func.func @gate
// CHECK-DAG: %[[G:.*]] = lm.weight "gate"
// CHECK-DAG: %[[U:.*]] = lm.weight "up"
// CHECK: %[[W:.*]] = lm.weight_concat %[[G]], %[[U]] dim = 0
// CHECK: %[[A:.*]] = lm.gated_linear %arg1, %[[W]] <kind = gelu_tanh
// CHECK: lm.linear %[[A]], %{{.*}} residual(%arg1)
func.func @gate(%ids: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %gate = lm.weight "gate" : tensor<16x8xf32>
  %g = lm.linear %x, %gate : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %up = lm.weight "up" : tensor<16x8xf32>
  %u = lm.linear %x, %up : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = lm.gated_activation %g, %u <kind = gelu_tanh, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64> : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %down = lm.weight "down" : tensor<8x16xf32>
  %y = lm.linear %a, %down : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %s = arith.addf %y, %x : tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// Gate and up of different rows, and a linear that somebody else reads, stay.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: lm.gated_linear
// CHECK-NOT: residual
func.func @left_alone(%ids: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x8xf32>, %x2: tensor<?x8xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>) {
  %w = lm.weight "w" : tensor<16x8xf32>
  %g = lm.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %u = lm.linear %x2, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = lm.gated_activation %g, %u <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64> : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = lm.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %s = arith.addf %y, %a : tensor<?x16xf32>
  return %a, %y, %s : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>
}
