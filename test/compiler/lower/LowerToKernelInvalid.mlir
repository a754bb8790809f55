// RUN: sluice-opt %s -split-input-file -verify-diagnostics -lower-to-kernel

func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %batch: !lm.batch) -> tensor<?x8xf32> {
  %embed = lm.weight "embed" : tensor<32x8xf32>
  %h = lm.embedding %embed, %ids : (tensor<32x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d = tensor.dim %h, %c0 : tensor<?x8xf32>
  // expected-error @+1 {{'tensor.extract_slice' can't be compiled: found 'tensor<?x8xf32>' -> 'tensor<?x8xf32>', expected a part of a known language model operation or elementwise code on [tokens, features]; this operation mixes rows or has no kernel}}
  %s = tensor.extract_slice %h[%c1, 0] [%d, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// -----

// The operator's own name, as the file has it.
func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}) -> tensor<?x8xf32> {
  %embed = lm.weight "embed" : tensor<32x8xf32>
  %h = lm.embedding %embed, %ids : (tensor<32x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  // expected-error @+1 {{'CumSum' can't be compiled}}
  %s = onnx.node "CumSum"(%h, %h) version 14 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// -----

// Rows are transposed: elementwise in form, but row t reads others.
func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}) -> tensor<?x?xf32> {
  %embed = lm.weight "embed" : tensor<32x8xf32>
  %h = lm.embedding %embed, %ids : (tensor<32x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %h, %c0 : tensor<?x8xf32>
  %init = tensor.empty(%d) : tensor<8x?xf32>
  // expected-error @+1 {{reads 'tensor<?x8xf32>' while it computes 'tensor<8x?xf32>'}}
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%h : tensor<?x8xf32>) outs(%init : tensor<8x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<8x?xf32>
  %u = tensor.cast %t : tensor<8x?xf32> to tensor<?x?xf32>
  return %u : tensor<?x?xf32>
}

// -----

// Reductions over features have no kernel yet.
func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}) -> tensor<?xf32> {
  %embed = lm.weight "embed" : tensor<32x8xf32>
  %h = lm.embedding %embed, %ids : (tensor<32x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %h, %c0 : tensor<?x8xf32>
  %init = tensor.empty(%d) : tensor<?xf32>
  // expected-error @+1 {{'linalg.generic' can't be compiled}}
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%h : tensor<?x8xf32>) outs(%init : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.addf %a, %o : f32
    linalg.yield %n : f32
  } -> tensor<?xf32>
  return %t : tensor<?xf32>
}

// -----

// expected-error @+1 {{argument 1 of type 'tensor<?x?xi64>' and role 'attention_mask' is no input of a step}}
func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %mask: tensor<?x?xi64> {lm.role = "attention_mask"}) -> tensor<?x8xf32> {
  %embed = lm.weight "embed" : tensor<32x8xf32>
  %h = lm.embedding %embed, %ids : (tensor<32x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  return %h : tensor<?x8xf32>
}

// -----

// expected-error @+1 {{a block of 16 tokens of cache '!lm.cache<window = 0, element = f32, kvHeads = 1099511627776, keyHead = 1048576, valueHead = 16, layers = 4>' has no sensible size}}
func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %c: !lm.cache<window = 0, element = f32, kvHeads = 1099511627776, keyHead = 1048576, valueHead = 16, layers = 4>) -> tensor<?x8xf32> {
  %embed = lm.weight "embed" : tensor<32x8xf32>
  %h = lm.embedding %embed, %ids : (tensor<32x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  return %h : tensor<?x8xf32>
}

// -----

!c = !lm.cache<window = 0, element = f32, kvHeads = 1, keyHead = 4, valueHead = 4, layers = 1>
func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %batch: !lm.batch, %c: !c) -> (tensor<?x4xf32>, !c) {
  %embed = lm.weight "embed" : tensor<32x4xf32>
  %h = lm.embedding %embed, %ids : (tensor<32x4xf32>, tensor<?xi32>) -> tensor<?x4xf32>
  %d = lm.cache_append %c, %h, %h, %batch {layer = 0 : i64} : (!c, tensor<?x4xf32>, tensor<?x4xf32>, !lm.batch) -> !c
  // expected-error @+1 {{reads the cache from before an append}}
  %o = lm.attention %h, %c, %batch {heads = 1 : i64, kv_heads = 1 : i64, layer = 0 : i64, scale = 0.5} : (tensor<?x4xf32>, !c, !lm.batch) -> tensor<?x4xf32>
  return %o, %d : tensor<?x4xf32>, !c
}

// -----

// expected-error @+1 {{returns no logits}}
func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}) {
  return
}
