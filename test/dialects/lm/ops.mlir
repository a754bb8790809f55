// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Every operation is printed as it is parsed.

// CHECK-LABEL: func.func @recipes
func.func @recipes() -> tensor<8x3xf16> {
  // CHECK: %[[W:.*]] = lm.weight "model.w" : tensor<4x6xf32>
  %w = lm.weight "model.w" : tensor<4x6xf32>
  // CHECK: lm.weight "small" = dense<1.000000e+00> : tensor<2xf32> : tensor<2xf32>
  %small = lm.weight "small" = dense<1.0> : tensor<2xf32> : tensor<2xf32>
  // CHECK: %[[T:.*]] = lm.weight_transpose %[[W]] perm = [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %t = lm.weight_transpose %w perm = [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  // CHECK: %[[R:.*]] = lm.weight_reshape %[[T]] : tensor<6x4xf32> -> tensor<8x3xf32>
  %r = lm.weight_reshape %t : tensor<6x4xf32> -> tensor<8x3xf32>
  // CHECK: %[[S:.*]] = lm.weight_slice %[[R]] offsets = [1, 0] strides = [2, 1] : tensor<8x3xf32> -> tensor<4x3xf32>
  %s = lm.weight_slice %r offsets = [1, 0] strides = [2, 1] : tensor<8x3xf32> -> tensor<4x3xf32>
  // CHECK: %[[C:.*]] = lm.weight_concat %[[S]], %[[S]] dim = 0 : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<8x3xf32>
  %c = lm.weight_concat %s, %s dim = 0 : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<8x3xf32>
  // CHECK: lm.weight_convert %[[C]] : tensor<8x3xf32> -> tensor<8x3xf16>
  %h = lm.weight_convert %c : tensor<8x3xf32> -> tensor<8x3xf16>
  return %h : tensor<8x3xf16>
}

// CHECK-LABEL: func.func @token_wise
func.func @token_wise(%ids: tensor<?xi32>, %table: tensor<32x16xbf16>, %square: tensor<16x16xf32>, %v: tensor<16xf32>, %e: tensor<4xf32>,
                      %gate: tensor<4x8x16xf32>, %gb: tensor<4x8xf32>, %gu: tensor<4x16x16xf32>, %gub: tensor<4x16xf32>, %down: tensor<4x16x8xf32>, %db: tensor<4x16xf32>,
                      %router: tensor<4x16xf32>) {
  // CHECK: lm.embedding %{{.*}}, %{{.*}} : (tensor<32x16xbf16>, tensor<?xi32>) -> tensor<?x16xf32>
  %x = lm.embedding %table, %ids : (tensor<32x16xbf16>, tensor<?xi32>) -> tensor<?x16xf32>
  // CHECK: lm.linear %{{.*}}, %{{.*}} : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  %a = lm.linear %x, %square : (tensor<?x16xf32>, tensor<16x16xf32>) -> tensor<?x16xf32>
  // CHECK: lm.linear %{{.*}}, %{{.*}} bias(%{{.*}}) residual(%{{.*}}) :
  %b = lm.linear %x, %square bias(%v) residual(%a) : (tensor<?x16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: lm.linear %{{.*}}, %{{.*}} residual(%{{.*}}) :
  %b2 = lm.linear %x, %square residual(%a) : (tensor<?x16xf32>, tensor<16x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: lm.rms_norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64, groups = 4 : i64}
  %n = lm.rms_norm %x, %e {epsilon = 1.0e-5, groups = 4 : i64} : (tensor<?x16xf32>, tensor<4xf32>) -> tensor<?x16xf32>
  // CHECK: lm.rms_norm %{{.*}}, %{{.*}} residual(%{{.*}}) {epsilon = 1.000000e-05 : f64} : (tensor<?x16xf32>, tensor<16xf32>, tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>)
  %m, %sum = lm.rms_norm %x, %v residual(%n) {epsilon = 1.0e-5} : (tensor<?x16xf32>, tensor<16xf32>, tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>)
  // CHECK: lm.layer_norm %{{.*}}, %{{.*}} bias(%{{.*}}) {epsilon = 1.000000e-05 : f64}
  %l = lm.layer_norm %x, %v bias(%v) {epsilon = 1.0e-5} : (tensor<?x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  // CHECK: lm.rope_table %{{.*}} {frequencies = array<f64: 1.000000e+00, 1.000000e-01>, scale = 1.000000e+00 : f64}
  %cos, %sin = lm.rope_table %ids {frequencies = array<f64: 1.0, 0.1>, scale = 1.0} : (tensor<?xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
  // CHECK: lm.rope %{{.*}}, %{{.*}}, %{{.*}} {heads = 4 : i64, interleaved}
  %rope = lm.rope %x, %cos, %sin {heads = 4 : i64, interleaved} : (tensor<?x16xf32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
  // CHECK: lm.repeat_heads %{{.*}} {heads = 2 : i64, repeats = 3 : i64} : (tensor<?x16xf32>) -> tensor<?x48xf32>
  %rep = lm.repeat_heads %x {heads = 2 : i64, repeats = 3 : i64} : (tensor<?x16xf32>) -> tensor<?x48xf32>
  // CHECK: lm.gated_activation %{{.*}}, %{{.*}} <kind = gelu_erf, alpha = 1.000000e+00 : f64, beta = 5.000000e-01 : f64, limit = 7.000000e+00 : f64>
  %act = lm.gated_activation %x, %a <kind = gelu_erf, alpha = 1.0 : f64, beta = 0.5 : f64, limit = 7.0 : f64> : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: lm.gated_linear %{{.*}}, %{{.*}} bias(%{{.*}}) <kind = silu
  %gl = lm.gated_linear %x, %square bias(%v) <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64> : (tensor<?x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<?x8xf32>
  %logits = lm.linear %x, %router : (tensor<?x16xf32>, tensor<4x16xf32>) -> tensor<?x4xf32>
  // CHECK: lm.route %{{.*}} correction(%{{.*}}) {normalize, scale = 2.500000e+00 : f64, score = #lm<score sigmoid>, top_k = 2 : i64}
  %w, %choice = lm.route %logits correction(%e) {top_k = 2 : i64, score = #lm<score sigmoid>, normalize, scale = 2.5} : (tensor<?x4xf32>, tensor<4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>)
  // CHECK: lm.grouped_linear %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}}) :
  %g = lm.grouped_linear %x, %choice, %gate bias(%gb) : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<4x8x16xf32>, tensor<4x8xf32>) -> tensor<?x2x8xf32>
  // CHECK: lm.grouped_linear {{.*}} : (tensor<?x2x8xf32>, tensor<?x2xi32>, tensor<4x16x8xf32>) -> tensor<?x2x16xf32>
  %d = lm.grouped_linear %g, %choice, %down : (tensor<?x2x8xf32>, tensor<?x2xi32>, tensor<4x16x8xf32>) -> tensor<?x2x16xf32>
  // CHECK: lm.combine %{{.*}}, %{{.*}} :
  %y = lm.combine %d, %w : (tensor<?x2x16xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
  // CHECK: lm.experts %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} gate_up_bias(%{{.*}}) down_bias(%{{.*}}) <kind = relu
  %ex = lm.experts %x, %w, %choice, %gu, %down gate_up_bias(%gub) down_bias(%db) <kind = relu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64>
    : (tensor<?x16xf32>, tensor<?x2xf32>, tensor<?x2xi32>, tensor<4x16x16xf32>, tensor<4x16x8xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<?x16xf32>
  // CHECK: lm.probe "router_ids" 3, %{{.*}} : tensor<?x2xi32>
  lm.probe "router_ids" 3, %choice : tensor<?x2xi32>
  return
}

// CHECK-LABEL: func.func @padded
func.func @padded(%ids: tensor<?x?xi64>, %mask: tensor<?x?xi64>, %past: tensor<?x2x?x8xf32>, %rows: tensor<?x?x16xf32>, %q: tensor<?x?x32xf32>, %sinks: tensor<4xf32>) {
  // CHECK: lm.padded_positions %{{.*}}, %{{.*}} :
  %p = lm.padded_positions %ids, %mask : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  // CHECK: lm.padded_append %{{.*}}, %{{.*}} :
  %k = lm.padded_append %past, %rows : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  // CHECK: lm.padded_attention %{{.*}}, %{{.*}}, %{{.*}} mask(%{{.*}}) sinks(%{{.*}}) {heads = 4 : i64, kv_heads = 2 : i64, mask_window = 9 : i64, scale = 3.500000e-01 : f64, soft_cap = 3.000000e+01 : f64}
  %o = lm.padded_attention %q, %k, %k mask(%mask) sinks(%sinks) {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.35, mask_window = 9 : i64, soft_cap = 30.0}
    : (tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x?xi64>, tensor<4xf32>) -> tensor<?x?x32xf32>
  return
}

!cache = !lm.cache<window = 9, element = f16, kvHeads = 2, keyHead = 8, valueHead = 4, layers = 3>
// CHECK-LABEL: func.func @packed
// CHECK-SAME: !lm.batch
// CHECK-SAME: !lm.cache<window = 9, element = f16, kvHeads = 2, keyHead = 8, valueHead = 4, layers = 3>
func.func @packed(%batch: !lm.batch, %c: !cache, %k: tensor<?x16xf32>, %v: tensor<?x8xf32>, %q: tensor<?x32xf32>, %sinks: tensor<4xf32>) -> (tensor<?x16xf32>, !cache) {
  // CHECK: lm.cache_append %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {layer = 2 : i64}
  %d = lm.cache_append %c, %k, %v, %batch {layer = 2 : i64} : (!cache, tensor<?x16xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  // CHECK: lm.attention %{{.*}}, %{{.*}}, %{{.*}} sinks(%{{.*}}) {heads = 4 : i64, kv_heads = 2 : i64, layer = 2 : i64, scale = 3.500000e-01 : f64, window = 9 : i64}
  %o = lm.attention %q, %d, %batch sinks(%sinks) {heads = 4 : i64, kv_heads = 2 : i64, layer = 2 : i64, scale = 0.35, window = 9 : i64}
    : (tensor<?x32xf32>, !cache, !lm.batch, tensor<4xf32>) -> tensor<?x16xf32>
  // CHECK: lm.logit_rows %{{.*}}, %{{.*}} : (tensor<?x16xf32>, !lm.batch) -> tensor<?x16xf32>
  %l = lm.logit_rows %o, %batch : (tensor<?x16xf32>, !lm.batch) -> tensor<?x16xf32>
  return %l, %d : tensor<?x16xf32>, !cache
}
