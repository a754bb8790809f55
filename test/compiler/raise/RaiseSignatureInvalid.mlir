// RUN: sluice-opt %s -raise-signature -verify-diagnostics

// Positions read from the mask are another model than positions: never taken for position ids.
func.func @one_input_two_roles(%ids: tensor<?x?xi64>, %both: tensor<?x?xi64>, %k: tensor<?x1x?x4xf32>, %v: tensor<?x1x?x4xf32>) -> tensor<?x?x4xf32> {
  %t = lm.weight "t" : tensor<8x4xf32>
  %x = lm.embedding %t, %ids : (tensor<8x4xf32>, tensor<?x?xi64>) -> tensor<?x?x4xf32>
  %cos, %sin = lm.rope_table %both {frequencies = array<f64: 1.0, 0.1>, scale = 1.0 : f64} : (tensor<?x?xi64>) -> (tensor<?x?x2xf32>, tensor<?x?x2xf32>)
  %q = lm.rope %x, %cos, %sin {heads = 1 : i64} : (tensor<?x?x4xf32>, tensor<?x?x2xf32>, tensor<?x?x2xf32>) -> tensor<?x?x4xf32>
  %pk = lm.padded_append %k, %q : (tensor<?x1x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x1x?x4xf32>
  %pv = lm.padded_append %v, %x : (tensor<?x1x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x1x?x4xf32>
  // expected-error @below {{reads one graph input as attention_mask that another node reads as position_ids}}
  %o = lm.padded_attention %q, %pk, %pv mask(%both) {heads = 1 : i64, kv_heads = 1 : i64, scale = 0.5 : f64} : (tensor<?x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x?xi64>) -> tensor<?x?x4xf32>
  return %o : tensor<?x?x4xf32>
}
