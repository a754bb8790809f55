// RUN: sluice-opt %s --share-kv-heads --split-input-file | FileCheck %s

// Copies behind the cache: attention reads the cache itself.
// CHECK-LABEL: func.func @behind_cache
// CHECK-NOT: lm.repeat_heads
// CHECK: %[[K:.*]] = lm.padded_append %arg1
// CHECK: %[[V:.*]] = lm.padded_append %arg2
// CHECK: lm.padded_attention %{{.*}}, %[[K]], %[[V]] {heads = 4 : i64, kv_heads = 2 : i64
func.func @behind_cache(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %pk: tensor<?x2x?x8xf32> {lm.role = "past_key"},
                        %pv: tensor<?x2x?x8xf32> {lm.role = "past_value"}, %q: tensor<?x?x32xf32>, %k: tensor<?x?x16xf32>, %v: tensor<?x?x16xf32>)
    -> (tensor<?x?x32xf32> {lm.role = "logits"}, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) {
  %ka = lm.padded_append %pk, %k : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %va = lm.padded_append %pv, %v : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %kr = lm.repeat_heads %ka {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %vr = lm.repeat_heads %va {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %o = lm.padded_attention %q, %kr, %vr {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  return %o, %ka, %va : tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
}

// -----

// Copies in front of the cache: past and present lose them too.
// CHECK-LABEL: func.func @before_cache
// CHECK-SAME: %arg1: tensor<?x2x?x8xf32>
// CHECK-SAME: -> (tensor<?x?x32xf32> {lm.role = "logits"}, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>)
// CHECK-NOT: lm.repeat_heads
// CHECK: lm.padded_append %arg1, %arg4 : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
// CHECK: kv_heads = 2
func.func @before_cache(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %pk: tensor<?x4x?x8xf32> {lm.role = "past_key"},
                        %pv: tensor<?x4x?x8xf32> {lm.role = "past_value"}, %q: tensor<?x?x32xf32>, %k: tensor<?x?x16xf32>, %v: tensor<?x?x16xf32>)
    -> (tensor<?x?x32xf32> {lm.role = "logits"}, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) {
  %kr = lm.repeat_heads %k {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x?x16xf32>) -> tensor<?x?x32xf32>
  %vr = lm.repeat_heads %v {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x?x16xf32>) -> tensor<?x?x32xf32>
  %ka = lm.padded_append %pk, %kr : (tensor<?x4x?x8xf32>, tensor<?x?x32xf32>) -> tensor<?x4x?x8xf32>
  %va = lm.padded_append %pv, %vr : (tensor<?x4x?x8xf32>, tensor<?x?x32xf32>) -> tensor<?x4x?x8xf32>
  %o = lm.padded_attention %q, %ka, %va {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  return %o, %ka, %va : tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>
}

// -----

// Keys and values repeated differently stay.
// CHECK-LABEL: func.func @unlike
// CHECK: lm.repeat_heads %{{.*}} {heads = 2 : i64, repeats = 2 : i64}
// CHECK: kv_heads = 4
func.func @unlike(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %pk: tensor<?x2x?x8xf32> {lm.role = "past_key"},
                  %pv: tensor<?x4x?x8xf32> {lm.role = "past_value"}, %q: tensor<?x?x32xf32>, %k: tensor<?x?x16xf32>, %v: tensor<?x?x32xf32>)
    -> (tensor<?x?x32xf32> {lm.role = "logits"}, tensor<?x2x?x8xf32>, tensor<?x4x?x8xf32>) {
  %ka = lm.padded_append %pk, %k : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %va = lm.padded_append %pv, %v : (tensor<?x4x?x8xf32>, tensor<?x?x32xf32>) -> tensor<?x4x?x8xf32>
  %kr = lm.repeat_heads %ka {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %o = lm.padded_attention %q, %kr, %va {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  return %o, %ka, %va : tensor<?x?x32xf32>, tensor<?x2x?x8xf32>, tensor<?x4x?x8xf32>
}
