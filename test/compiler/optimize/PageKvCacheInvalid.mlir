// RUN: sluice-opt %s --page-kv-cache --split-input-file --verify-diagnostics

func.func @not_cached(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %q: tensor<?x?x16xf32>, %k: tensor<?x2x?x8xf32>) -> (tensor<?x?x16xf32> {lm.role = "logits"}) {
  // expected-error @+1 {{keys are not new rows appended to a past that is an input of the model}}
  %o = lm.padded_attention %q, %k, %k {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.25}
    : (tensor<?x?x16xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x?x16xf32>
  return %o : tensor<?x?x16xf32>
}

// -----

func.func @read_elsewhere(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %p: tensor<?x2x?x8xf32> {lm.role = "past_key"},
                          %pv: tensor<?x2x?x8xf32> {lm.role = "past_value"}, %q: tensor<?x?x16xf32>)
    -> (tensor<?x?x16xf32> {lm.role = "logits"}, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) {
  %k = lm.padded_append %p, %q : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %v = lm.padded_append %pv, %q : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %o = lm.padded_attention %q, %k, %v {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.25}
    : (tensor<?x?x16xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x?x16xf32>
  // expected-error @+1 {{reads keys or values of the cache ('tensor<?x2x?x8xf32>'); only attention can}}
  %n = arith.negf %k : tensor<?x2x?x8xf32>
  return %o, %n, %v : tensor<?x?x16xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>
}

// -----

func.func @element(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %p: tensor<?x2x?x8xf32> {lm.role = "past_key", lm.element = f8E5M2},
                   %pv: tensor<?x2x?x8xf32> {lm.role = "past_value"}, %q: tensor<?x?x16xf32>) -> (tensor<?x?x16xf32> {lm.role = "logits"}) {
  // expected-error @+1 {{keeps its past in 'f8E5M2', expected f32, f16 or bf16}}
  %k = lm.padded_append %p, %q : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %v = lm.padded_append %pv, %q : (tensor<?x2x?x8xf32>, tensor<?x?x16xf32>) -> tensor<?x2x?x8xf32>
  %o = lm.padded_attention %q, %k, %v {heads = 2 : i64, kv_heads = 2 : i64, scale = 0.25}
    : (tensor<?x?x16xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x?x16xf32>
  return %o : tensor<?x?x16xf32>
}

// -----

// expected-error @+1 {{has a batch argument already}}
func.func @twice(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %b: !lm.batch {lm.role = "batch"}) {
  return
}
