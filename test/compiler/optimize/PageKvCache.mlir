// RUN: sluice-opt %s --page-kv-cache --split-input-file | FileCheck %s
// RUN: sluice-opt %s --page-kv-cache=kv-type=bf16 --split-input-file | FileCheck %s --check-prefix=BF16

// Two layers of window 16 are one group, the global one another; the cache has the file's element type.
// CHECK-LABEL: func.func @groups(
// CHECK-SAME: %arg0: tensor<?x?xi64> {lm.role = "token_ids"}
// CHECK-SAME: %[[BATCH:arg[0-9]+]]: !lm.batch {lm.role = "batch"}
// CHECK-SAME: %[[W:arg[0-9]+]]: !lm.cache<window = 16, element = f16, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 2> {lm.role = "cache"}
// CHECK-SAME: %[[G:arg[0-9]+]]: !lm.cache<window = 0, element = f16, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 1> {lm.role = "cache"}
// CHECK-SAME: -> (tensor<?x?x32xf32> {lm.role = "logits"}, !lm.cache<window = 16{{.*}}> {lm.role = "cache"}, !lm.cache<window = 0
// CHECK: %[[W1:.*]] = lm.cache_append %[[W]], %{{.*}}, %{{.*}}, %[[BATCH]] {layer = 0 : i64}
// CHECK: lm.attention %{{.*}}, %[[W1]], %[[BATCH]] {heads = 4 : i64, kv_heads = 2 : i64, layer = 0 : i64, scale = 2.500000e-01 : f64, window = 16 : i64}
// CHECK: %[[G1:.*]] = lm.cache_append %[[G]]
// CHECK: lm.attention %{{.*}}, %[[G1]]
// CHECK: %[[W2:.*]] = lm.cache_append %[[W1]], %{{.*}} {layer = 1 : i64}
// CHECK: lm.attention %{{.*}}, %[[W2]]
// CHECK: return %{{.*}}, %[[W2]], %[[G1]]
// BF16: !lm.cache<window = 16, element = bf16
func.func @groups(%ids: tensor<?x?xi64> {lm.role = "token_ids"},
                  %p0: tensor<?x2x?x8xf32> {lm.role = "past_key", lm.element = f16}, %p1: tensor<?x2x?x8xf32> {lm.role = "past_value", lm.element = f16},
                  %p2: tensor<?x2x?x8xf32> {lm.role = "past_key", lm.element = f16}, %p3: tensor<?x2x?x8xf32> {lm.role = "past_value", lm.element = f16},
                  %p4: tensor<?x2x?x8xf32> {lm.role = "past_key", lm.element = f16}, %p5: tensor<?x2x?x8xf32> {lm.role = "past_value", lm.element = f16},
                  %q: tensor<?x?x32xf32>, %r: tensor<?x?x16xf32>)
    -> (tensor<?x?x32xf32> {lm.role = "logits"}, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) {
  %k0 = lm.padded_append %p0, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %v0 = lm.padded_append %p1, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %a = lm.padded_attention %q, %k0, %v0 {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.25, window = 16 : i64}
    : (tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x?x32xf32>
  %k1 = lm.padded_append %p2, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %v1 = lm.padded_append %p3, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %b = lm.padded_attention %a, %k1, %v1 {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.25}
    : (tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x?x32xf32>
  %k2 = lm.padded_append %p4, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %v2 = lm.padded_append %p5, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %c = lm.padded_attention %b, %k2, %v2 {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.25, window = 16 : i64}
    : (tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x?x32xf32>
  return %c, %k0, %v0, %k1, %v1, %k2, %v2 : tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
}

// -----

// Copies of heads that are left are made in front of the cache; two attentions over the same keys share a layer.
// CHECK-LABEL: func.func @repeated
// CHECK-SAME: !lm.cache<window = 0, element = f32, kvHeads = 4, keyHead = 8, valueHead = 8, layers = 1>
// CHECK: %[[R:.*]] = lm.repeat_heads %{{.*}} {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x?x16xf32>) -> tensor<?x?x32xf32>
// CHECK: %[[C:.*]] = lm.cache_append
// CHECK: lm.attention %{{.*}}, %[[C]]
// CHECK-NOT: lm.cache_append
// CHECK: lm.attention %{{.*}}, %[[C]]
// BF16-LABEL: func.func @repeated
func.func @repeated(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %pk: tensor<?x2x?x8xf32> {lm.role = "past_key"},
                    %pv: tensor<?x2x?x8xf32> {lm.role = "past_value"}, %q: tensor<?x?x32xf32>, %r: tensor<?x?x16xf32>)
    -> (tensor<?x?x32xf32> {lm.role = "logits"}, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) {
  %k = lm.padded_append %pk, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %v = lm.padded_append %pv, %r : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %kr = lm.repeat_heads %k {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %vr = lm.repeat_heads %v {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %a = lm.padded_attention %q, %kr, %vr {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  %b = lm.padded_attention %a, %kr, %vr {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  return %b, %k, %v : tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
}
