// RUN: sluice-opt %s --split-input-file --verify-diagnostics

func.func @f() {
  // expected-error @+1 {{has an empty source}}
  %w = lm.weight "" : tensor<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{carries a value of type 'tensor<3xf32>', expected 'tensor<4xf32>'}}
  %w = lm.weight "w" = dense<1.0> : tensor<3xf32> : tensor<4xf32>
  return
}

// -----

func.func @f(%w: tensor<4x6xf32>) {
  // expected-error @+1 {{perm is no permutation of 2 dimensions}}
  %t = lm.weight_transpose %w perm = [1, 1] : tensor<4x6xf32> -> tensor<6x4xf32>
  return
}

// -----

func.func @f(%w: tensor<4x6xf32>) {
  // expected-error @+1 {{result 'tensor<4x6xf32>' is not the permuted 'tensor<4x6xf32>'}}
  %t = lm.weight_transpose %w perm = [1, 0] : tensor<4x6xf32> -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%w: tensor<4x6xf32>) {
  // expected-error @+1 {{result 'tensor<6x4xf16>' is not the permuted 'tensor<4x6xf32>'}}
  %t = lm.weight_transpose %w perm = [1, 0] : tensor<4x6xf32> -> tensor<6x4xf16>
  return
}

// -----

func.func @f(%w: tensor<4x6xf32>) {
  // expected-error @+1 {{cannot read 'tensor<4x6xf32>' as 'tensor<5x5xf32>'}}
  %t = lm.weight_reshape %w : tensor<4x6xf32> -> tensor<5x5xf32>
  return
}

// -----

func.func @f(%w: tensor<4x6xf32>) {
  // expected-error @+1 {{leaves dimension 1 of 'tensor<4x6xf32>'}}
  %t = lm.weight_slice %w offsets = [0, 1] strides = [1, 2] : tensor<4x6xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%w: tensor<4x6xf32>) {
  // expected-error @+1 {{joins 8 along dimension 0, the result has 9}}
  %t = lm.weight_concat %w, %w dim = 0 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<9x6xf32>
  return
}

// -----

func.func @f(%w: tensor<4xi32>) {
  // expected-error @+1 {{converts float types of equal shape}}
  %t = lm.weight_convert %w : tensor<4xi32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%ids: tensor<?xi32>, %w: tensor<4x6xf32>) {
  // expected-error @+1 {{result is 'tensor<?x5xf32>', expected [?, 6]}}
  %x = lm.embedding %w, %ids : (tensor<4x6xf32>, tensor<?xi32>) -> tensor<?x5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+1 {{weight is 'tensor<4x5xf32>', expected [outputs, 6]}}
  %y = lm.linear %x, %w : (tensor<?x6xf32>, tensor<4x5xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6xf32>, %w: tensor<4x6xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{bias is 'tensor<3xf32>', expected [4]}}
  %y = lm.linear %x, %w bias(%b) : (tensor<?x6xf32>, tensor<4x6xf32>, tensor<3xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{groups 4 do not divide 6 features}}
  %y = lm.rms_norm %x, %w {epsilon = 1.0e-5, groups = 4 : i64} : (tensor<?x6xf32>, tensor<3xf32>) -> tensor<?x6xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{gives sum exactly when it has a residual}}
  %y = lm.rms_norm %x, %w residual(%x) {epsilon = 1.0e-5} : (tensor<?x6xf32>, tensor<6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %c: tensor<?x3xf32>) {
  // expected-error @+1 {{8 features in 2 heads can't be rotated by 3 pairs}}
  %y = lm.rope %x, %c, %c {heads = 2 : i64} : (tensor<?x8xf32>, tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{3 heads do not divide 8}}
  %y = lm.repeat_heads %x {heads = 3 : i64, repeats = 2 : i64} : (tensor<?x8xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{top_k is 9, expected 1 to 8 (the number of experts)}}
  %w, %i = lm.route %x {top_k = 9 : i64, score = #lm<score softmax_all>} : (tensor<?x8xf32>) -> (tensor<?x9xf32>, tensor<?x9xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x3x8xf32>, %ids: tensor<?x2xi32>, %w: tensor<4x5x8xf32>) {
  // expected-error @+1 {{expected one row per token or per choice of 'tensor<?x2xi32>'}}
  %y = lm.grouped_linear %x, %ids, %w : (tensor<?x3x8xf32>, tensor<?x2xi32>, tensor<4x5x8xf32>) -> tensor<?x2x5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %p: tensor<?x2xf32>, %ids: tensor<?x2xi32>, %gu: tensor<4x10x8xf32>, %d: tensor<3x8x5xf32>) {
  // expected-error @+1 {{down is 'tensor<3x8x5xf32>', expected [4, outputs, 5]}}
  %y = lm.experts %x, %p, %ids, %gu, %d <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64>
    : (tensor<?x8xf32>, tensor<?x2xf32>, tensor<?x2xi32>, tensor<4x10x8xf32>, tensor<3x8x5xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%q: tensor<?x?x32xf32>, %k: tensor<?x3x?x8xf32>) {
  // expected-error @+1 {{heads (4) is not a multiple of kv_heads (3)}}
  %o = lm.padded_attention %q, %k, %k {heads = 4 : i64, kv_heads = 3 : i64, scale = 1.0} : (tensor<?x?x32xf32>, tensor<?x3x?x8xf32>, tensor<?x3x?x8xf32>) -> tensor<?x?x32xf32>
  return
}

// -----

!cache = !lm.cache<window = 9, element = f16, kvHeads = 2, keyHead = 8, valueHead = 4, layers = 3>
func.func @f(%b: !lm.batch, %c: !cache, %q: tensor<?x32xf32>) {
  // expected-error @+1 {{window 8 reads a cache that keeps 9}}
  %o = lm.attention %q, %c, %b {heads = 4 : i64, kv_heads = 2 : i64, layer = 2 : i64, scale = 1.0, window = 8 : i64} : (tensor<?x32xf32>, !cache, !lm.batch) -> tensor<?x16xf32>
  return
}

// -----

!cache = !lm.cache<window = 0, element = f16, kvHeads = 2, keyHead = 8, valueHead = 4, layers = 3>
func.func @f(%b: !lm.batch, %c: !cache, %k: tensor<?x16xf32>, %v: tensor<?x8xf32>) {
  // expected-error @+1 {{layer 3 is not in a cache of 3}}
  %d = lm.cache_append %c, %k, %v, %b {layer = 3 : i64} : (!cache, tensor<?x16xf32>, tensor<?x8xf32>, !lm.batch) -> !cache
  return
}

// -----

!cache = !lm.cache<window = 0, element = f16, kvHeads = 2, keyHead = 8, valueHead = 4, layers = 3>
func.func @f(%b: !lm.batch, %c: !cache, %k: tensor<?x16xf32>) {
  // expected-error @+1 {{do not fit}}
  %d = lm.cache_append %c, %k, %k, %b {layer = 0 : i64} : (!cache, tensor<?x16xf32>, tensor<?x16xf32>, !lm.batch) -> !cache
  return
}

// -----

func.func @f(%b: !lm.batch, %x: tensor<?x16xf32>) {
  // expected-error @+1 {{result is 'tensor<?x8xf32>', expected [?, 16]}}
  %y = lm.logit_rows %x, %b : (tensor<?x16xf32>, !lm.batch) -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%b: !lm.batch, %x: tensor<?xi32>) {
  // expected-error @+1 {{x is 'tensor<?xi32>', expected [tokens, features]}}
  %y = lm.logit_rows %x, %b : (tensor<?xi32>, !lm.batch) -> tensor<?xi32>
  return
}
