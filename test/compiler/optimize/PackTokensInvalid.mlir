// RUN: sluice-opt %s --pack-tokens --split-input-file --verify-diagnostics

// expected-error @+1 {{has no batch argument; expected page-kv-cache before pack-tokens}}
func.func @no_batch(%ids: tensor<?x?xi64> {lm.role = "token_ids"}) {
  return
}

// -----

#in = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
#out = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
func.func @mixes(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %batch: !lm.batch {lm.role = "batch"}) -> (tensor<?x?x16xf32> {lm.role = "logits"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %w = lm.weight "embed" : tensor<16x16xf32>
  %x = lm.embedding %w, %ids : (tensor<16x16xf32>, tensor<?x?xi64>) -> tensor<?x?x16xf32>
  %b = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x16xf32>
  %empty = tensor.empty(%b, %s) : tensor<?x?x16xf32>
  // expected-error @+1 {{mixes tokens (linalg.generic is not token-wise)}}
  %sum = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x?x16xf32>) outs(%empty : tensor<?x?x16xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %m = arith.addf %a, %acc : f32
    linalg.yield %m : f32
  } -> tensor<?x?x16xf32>
  return %sum : tensor<?x?x16xf32>
}

// -----

func.func @mask(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %mask: tensor<?x?xi64> {lm.role = "attention_mask"}, %batch: !lm.batch {lm.role = "batch"}) -> (tensor<?x?x16xf32> {lm.role = "logits"}) {
  %w = lm.weight "embed" : tensor<16x16xf32>
  // expected-error @+1 {{computes with the attention mask}}
  %x = lm.embedding %w, %mask : (tensor<16x16xf32>, tensor<?x?xi64>) -> tensor<?x?x16xf32>
  return %x : tensor<?x?x16xf32>
}

// -----

// expected-error @+1 {{is packed already}}
func.func @twice(%ids: tensor<?xi32> {lm.role = "token_ids"}, %batch: !lm.batch {lm.role = "batch"}) {
  return
}
