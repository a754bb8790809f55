// RUN: sluice-opt %s --convert-weights=weights=bf16 --split-input-file | FileCheck %s
// RUN: sluice-opt %s --convert-weights --split-input-file | FileCheck %s --check-prefix=KEEP
// RUN: not sluice-opt %s --convert-weights=weights=int3 --split-input-file 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: weights cannot be stored as 'int3'; expected keep, f32, f16 or bf16

// The tied table is converted once, the norm becomes f32, the router stays as the file has it.
// CHECK-LABEL: func.func @model
// CHECK-DAG: %[[TABLE:.*]] = lm.weight "embed" : tensor<32x8xf16>
// CHECK-DAG: %[[NARROW:.*]] = lm.weight_convert %[[TABLE]] : tensor<32x8xf16> -> tensor<32x8xbf16>
// CHECK-DAG: %[[NORM:.*]] = lm.weight_convert %{{.*}} : tensor<8xf16> -> tensor<8xf32>
// CHECK-DAG: %[[ROUTER:.*]] = lm.weight "router" : tensor<4x8xf16>
// CHECK-NOT: lm.weight_convert
// CHECK: lm.embedding %[[NARROW]]
// CHECK: lm.rms_norm %{{.*}}, %[[NORM]]
// CHECK: lm.linear %{{.*}}, %[[ROUTER]]
// CHECK: lm.linear %{{.*}}, %[[NARROW]]
// KEEP-LABEL: func.func @model
// KEEP: lm.weight_convert %{{.*}} : tensor<8xf16> -> tensor<8xf32>
// KEEP-NOT: lm.weight_convert
// KEEP: lm.embedding %{{.*}} : (tensor<32x8xf16>
func.func @model(%ids: tensor<?xi32> {lm.role = "token_ids"}) -> (tensor<?x32xf32>, tensor<?x2xf32>) {
  %table = lm.weight "embed" : tensor<32x8xf16>
  %x = lm.embedding %table, %ids : (tensor<32x8xf16>, tensor<?xi32>) -> tensor<?x8xf32>
  %w = lm.weight "norm" : tensor<8xf16>
  %n = lm.rms_norm %x, %w {epsilon = 1.0e-5} : (tensor<?x8xf32>, tensor<8xf16>) -> tensor<?x8xf32>
  %router = lm.weight "router" : tensor<4x8xf16>
  %l = lm.linear %n, %router : (tensor<?x8xf32>, tensor<4x8xf16>) -> tensor<?x4xf32>
  %weights, %chosen = lm.route %l {top_k = 2 : i64, score = #lm<score sigmoid>} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>)
  %y = lm.linear %n, %table : (tensor<?x8xf32>, tensor<32x8xf16>) -> tensor<?x32xf32>
  return %y, %weights : tensor<?x32xf32>, tensor<?x2xf32>
}

// -----

// Experts' matrices are converted, their biases are vectors; f64 cannot be kept.
// CHECK-LABEL: func.func @experts
// CHECK-DAG: lm.weight_convert %{{.*}} : tensor<4x20x16xf64> -> tensor<4x20x16xbf16>
// CHECK-DAG: lm.weight_convert %{{.*}} : tensor<4x20xf64> -> tensor<4x20xf32>
// KEEP-LABEL: func.func @experts
// KEEP-DAG: lm.weight_convert %{{.*}} : tensor<4x20x16xf64> -> tensor<4x20x16xf32>
func.func @experts(%tokens: tensor<?xi32> {lm.role = "token_ids"}, %x: tensor<?x16xf32>, %ids: tensor<?x2xi32>) -> tensor<?x2x20xf32> {
  %w = lm.weight "gate" : tensor<4x20x16xf64>
  %b = lm.weight "gate.bias" : tensor<4x20xf64>
  %g = lm.grouped_linear %x, %ids, %w bias(%b) : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x20x16xf64>, tensor<4x20xf64>) -> tensor<?x2x20xf32>
  return %g : tensor<?x2x20xf32>
}
