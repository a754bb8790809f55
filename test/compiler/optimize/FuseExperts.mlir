// RUN: sluice-opt %s --fuse-experts --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @experts
// CHECK-DAG: %[[GATE:.*]] = lm.weight "gate"
// CHECK-DAG: %[[UP:.*]] = lm.weight "up"
// CHECK-DAG: %[[DOWN:.*]] = lm.weight "down"
// CHECK-DAG: %[[BOTH:.*]] = lm.weight_concat %[[GATE]], %[[UP]] dim = 1 : {{.*}} -> tensor<4x40x16xf32>
// CHECK-DAG: %[[BIAS:.*]] = lm.weight_concat {{.*}} dim = 1 : {{.*}} -> tensor<4x40xf32>
// CHECK-NOT: lm.grouped_linear
// CHECK: %[[Y:.*]] = lm.experts %arg1, %arg2, %arg3, %[[BOTH]], %[[DOWN]] gate_up_bias(%[[BIAS]]) <kind = silu
// CHECK: return %[[Y]]
func.func @experts(%tokens: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x16xf32>, %w: tensor<?x2xf32>, %ids: tensor<?x2xi32>) -> tensor<?x16xf32> {
  %gate = lm.weight "gate" : tensor<4x20x16xf32>
  %gb = lm.weight "gate.bias" : tensor<4x20xf32>
  %g = lm.grouped_linear %x, %ids, %gate bias(%gb) : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x20x16xf32>, tensor<4x20xf32>) -> tensor<?x2x20xf32>
  %up = lm.weight "up" : tensor<4x20x16xf32>
  %ub = lm.weight "up.bias" : tensor<4x20xf32>
  %u = lm.grouped_linear %x, %ids, %up bias(%ub) : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x20x16xf32>, tensor<4x20xf32>) -> tensor<?x2x20xf32>
  %a = lm.gated_activation %g, %u <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64> : (tensor<?x2x20xf32>, tensor<?x2x20xf32>) -> tensor<?x2x20xf32>
  %down = lm.weight "down" : tensor<4x16x20xf32>
  %d = lm.grouped_linear %a, %ids, %down : (tensor<?x2x20xf32>, tensor<?x2xi32>, tensor<4x16x20xf32>) -> tensor<?x2x16xf32>
  %y = lm.combine %d, %w : (tensor<?x2x16xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}

// -----

// Halves of one stacked weight are that weight again, in the padded form too.
// CHECK-LABEL: func.func @stacked
// CHECK: %[[BOTH:.*]] = lm.weight "gate_up"
// CHECK-NOT: lm.weight_concat
// CHECK: lm.experts %arg1, %arg2, %arg3, %[[BOTH]], %{{.*}} : (tensor<?x?x16xf32>
func.func @stacked(%tokens: tensor<?x?xi64> {lm.role = "token_ids"}, %x: tensor<?x?x16xf32>, %w: tensor<?x?x2xf32>, %ids: tensor<?x?x2xi32>) -> tensor<?x?x16xf32> {
  %both = lm.weight "gate_up" : tensor<4x40x16xf32>
  %gate = lm.weight_slice %both offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<4x40x16xf32> -> tensor<4x20x16xf32>
  %up = lm.weight_slice %both offsets = [0, 20, 0] strides = [1, 1, 1] : tensor<4x40x16xf32> -> tensor<4x20x16xf32>
  %down = lm.weight "down" : tensor<4x16x20xf32>
  %g = lm.grouped_linear %x, %ids, %gate : (tensor<?x?x16xf32>, tensor<?x?x2xi32>, tensor<4x20x16xf32>) -> tensor<?x?x2x20xf32>
  %u = lm.grouped_linear %x, %ids, %up : (tensor<?x?x16xf32>, tensor<?x?x2xi32>, tensor<4x20x16xf32>) -> tensor<?x?x2x20xf32>
  %a = lm.gated_activation %g, %u <kind = relu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64> : (tensor<?x?x2x20xf32>, tensor<?x?x2x20xf32>) -> tensor<?x?x2x20xf32>
  %d = lm.grouped_linear %a, %ids, %down : (tensor<?x?x2x20xf32>, tensor<?x?x2xi32>, tensor<4x16x20xf32>) -> tensor<?x?x2x16xf32>
  %y = lm.combine %d, %w : (tensor<?x?x2x16xf32>, tensor<?x?x2xf32>) -> tensor<?x?x16xf32>
  return %y : tensor<?x?x16xf32>
}

// -----

// Up chooses by other ids; the activation of the second has another reader.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: lm.experts
func.func @left_alone(%tokens: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x16xf32>, %w: tensor<?x2xf32>, %ids: tensor<?x2xi32>, %other: tensor<?x2xi32>)
    -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2x20xf32>) {
  %gate = lm.weight "gate" : tensor<4x20x16xf32>
  %up = lm.weight "up" : tensor<4x20x16xf32>
  %down = lm.weight "down" : tensor<4x16x20xf32>
  %g = lm.grouped_linear %x, %ids, %gate : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x20x16xf32>) -> tensor<?x2x20xf32>
  %u = lm.grouped_linear %x, %other, %up : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x20x16xf32>) -> tensor<?x2x20xf32>
  %a = lm.gated_activation %g, %u <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64> : (tensor<?x2x20xf32>, tensor<?x2x20xf32>) -> tensor<?x2x20xf32>
  %d = lm.grouped_linear %a, %ids, %down : (tensor<?x2x20xf32>, tensor<?x2xi32>, tensor<4x16x20xf32>) -> tensor<?x2x16xf32>
  %y = lm.combine %d, %w : (tensor<?x2x16xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
  %g2 = lm.grouped_linear %x, %ids, %gate : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x20x16xf32>) -> tensor<?x2x20xf32>
  %u2 = lm.grouped_linear %x, %ids, %up : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x20x16xf32>) -> tensor<?x2x20xf32>
  %a2 = lm.gated_activation %g2, %u2 <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64> : (tensor<?x2x20xf32>, tensor<?x2x20xf32>) -> tensor<?x2x20xf32>
  %d2 = lm.grouped_linear %a2, %ids, %down : (tensor<?x2x20xf32>, tensor<?x2xi32>, tensor<4x16x20xf32>) -> tensor<?x2x16xf32>
  %y2 = lm.combine %d2, %w : (tensor<?x2x16xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
  return %y, %y2, %a2 : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2x20xf32>
}
