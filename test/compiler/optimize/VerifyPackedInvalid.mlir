// RUN: sluice-opt %s --verify-packed --split-input-file --verify-diagnostics

!cache = !lm.cache<window = 0, element = f32, kvHeads = 1, keyHead = 8, valueHead = 8, layers = 1>

// expected-error @+1 {{argument #1 is 'tensor<?xi64>' of role 'position_ids'}}
func.func @argument(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi64> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"}) {
  return
}

// -----

// expected-error @+1 {{has 0 arguments of role batch, expected one}}
func.func @missing(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}) {
  return
}

// -----

!cache = !lm.cache<window = 0, element = f32, kvHeads = 1, keyHead = 8, valueHead = 8, layers = 1>
func.func @stale(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"}, %c: !cache {lm.role = "cache"})
    -> (tensor<?x8xf32> {lm.role = "logits"}, !cache {lm.role = "cache"}) {
  %w = lm.weight "w" : tensor<8x8xf32>
  %x = lm.embedding %w, %ids : (tensor<8x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %d = lm.cache_append %c, %x, %x, %b {layer = 0 : i64} : (!cache, tensor<?x8xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  // expected-error @+1 {{reads layer 0 of the cache before this step's rows are appended}}
  %o = lm.attention %x, %c, %b {heads = 1 : i64, kv_heads = 1 : i64, layer = 0 : i64, scale = 1.0} : (tensor<?x8xf32>, !cache, !lm.batch) -> tensor<?x8xf32>
  %l = lm.logit_rows %o, %b : (tensor<?x8xf32>, !lm.batch) -> tensor<?x8xf32>
  return %l, %d : tensor<?x8xf32>, !cache
}

// -----

!cache = !lm.cache<window = 0, element = f32, kvHeads = 1, keyHead = 8, valueHead = 8, layers = 2>
func.func @after_append(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"}, %c: !cache {lm.role = "cache"})
    -> (tensor<?x8xf32> {lm.role = "logits"}, !cache {lm.role = "cache"}) {
  %w = lm.weight "w" : tensor<8x8xf32>
  %x = lm.embedding %w, %ids : (tensor<8x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %d = lm.cache_append %c, %x, %x, %b {layer = 0 : i64} : (!cache, tensor<?x8xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  %e = lm.cache_append %d, %x, %x, %b {layer = 1 : i64} : (!cache, tensor<?x8xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  // expected-error @+1 {{reads a cache value after it was appended to}}
  %o = lm.attention %x, %d, %b {heads = 1 : i64, kv_heads = 1 : i64, layer = 0 : i64, scale = 1.0} : (tensor<?x8xf32>, !cache, !lm.batch) -> tensor<?x8xf32>
  %l = lm.logit_rows %o, %b : (tensor<?x8xf32>, !lm.batch) -> tensor<?x8xf32>
  return %l, %e : tensor<?x8xf32>, !cache
}

// -----

!cache = !lm.cache<window = 0, element = f32, kvHeads = 1, keyHead = 8, valueHead = 8, layers = 2>
// expected-error @+1 {{cache argument #3 has 2 layers, 1 are appended to}}
func.func @layers(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"}, %c: !cache {lm.role = "cache"})
    -> (tensor<?x8xf32> {lm.role = "logits"}, !cache {lm.role = "cache"}) {
  %w = lm.weight "w" : tensor<8x8xf32>
  %x = lm.embedding %w, %ids : (tensor<8x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %d = lm.cache_append %c, %x, %x, %b {layer = 0 : i64} : (!cache, tensor<?x8xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  %l = lm.logit_rows %x, %b : (tensor<?x8xf32>, !lm.batch) -> tensor<?x8xf32>
  return %l, %d : tensor<?x8xf32>, !cache
}

// -----

!cache = !lm.cache<window = 0, element = f32, kvHeads = 1, keyHead = 8, valueHead = 8, layers = 1>
func.func @used_twice(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"}, %c: !cache {lm.role = "cache"})
    -> (tensor<?x8xf32> {lm.role = "logits"}, !cache {lm.role = "cache"}, !cache {lm.role = "cache"}) {
  %w = lm.weight "w" : tensor<8x8xf32>
  %x = lm.embedding %w, %ids : (tensor<8x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  // expected-error @+1 {{uses a cache value that is used up already}}
  %d = lm.cache_append %c, %x, %x, %b {layer = 0 : i64} : (!cache, tensor<?x8xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  %l = lm.logit_rows %x, %b : (tensor<?x8xf32>, !lm.batch) -> tensor<?x8xf32>
  return %l, %c, %d : tensor<?x8xf32>, !cache, !cache
}

// -----

func.func @all_logits(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"})
    -> (tensor<?x8xf32> {lm.role = "logits"}) {
  %w = lm.weight "w" : tensor<8x8xf32>
  %x = lm.embedding %w, %ids : (tensor<8x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  // expected-error @+1 {{gives logits of all tokens; expected those of lm.logit_rows}}
  return %x : tensor<?x8xf32>
}

// -----

#in = affine_map<(d0, d1, d2) -> (d2, d1)>
#out = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @mixes(%ids: tensor<?xi32> {lm.role = "token_ids"}, %p: tensor<?xi32> {lm.role = "position_ids"}, %b: !lm.batch {lm.role = "batch"})
    -> (tensor<?x8xf32> {lm.role = "logits"}) {
  %c0 = arith.constant 0 : index
  %w = lm.weight "w" : tensor<8x8xf32>
  %x = lm.embedding %w, %ids : (tensor<8x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %t = tensor.dim %x, %c0 : tensor<?x8xf32>
  %empty = tensor.empty(%t) : tensor<?x8xf32>
  // expected-error @+1 {{(linalg.generic) belongs to the padded form or mixes tokens}}
  %sum = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x8xf32>) outs(%empty : tensor<?x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %m = arith.addf %a, %acc : f32
    linalg.yield %m : f32
  } -> tensor<?x8xf32>
  %l = lm.logit_rows %sum, %b : (tensor<?x8xf32>, !lm.batch) -> tensor<?x8xf32>
  return %l : tensor<?x8xf32>
}
