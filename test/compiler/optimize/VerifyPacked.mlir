// RUN: sluice-opt %s --verify-packed | FileCheck %s

!cache = !lm.cache<window = 0, element = f32, kvHeads = 1, keyHead = 8, valueHead = 8, layers = 1>
// A sound model passes unchanged; functions that are no models are not looked at.
// CHECK-LABEL: func.func @model
func.func @model(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"}, %c: !cache {lm.role = "cache"})
    -> (tensor<?x8xf32> {lm.role = "logits"}, !cache {lm.role = "cache"}) {
  %w = lm.weight "w" : tensor<8x8xf32>
  %x = lm.embedding %w, %ids : (tensor<8x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %d = lm.cache_append %c, %x, %x, %b {layer = 0 : i64} : (!cache, tensor<?x8xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  %o = lm.attention %x, %d, %b {heads = 1 : i64, kv_heads = 1 : i64, layer = 0 : i64, scale = 1.0} : (tensor<?x8xf32>, !cache, !lm.batch) -> tensor<?x8xf32>
  %l = lm.logit_rows %o, %b : (tensor<?x8xf32>, !lm.batch) -> tensor<?x8xf32>
  %t = math.tanh %l : tensor<?x8xf32>
  return %t, %d : tensor<?x8xf32>, !cache
}

// CHECK-LABEL: func.func @other
func.func @other(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}
