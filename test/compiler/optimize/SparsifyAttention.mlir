// RUN: sluice-opt %s --sparsify-attention | FileCheck %s

// CHECK-LABEL: func.func @windows
func.func @windows(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %q: tensor<?x?x32xf32>, %k: tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32> {
  // CHECK: lm.padded_attention %arg1, %arg2, %arg2 {heads = 4 : i64, kv_heads = 4 : i64, scale = 2.500000e-01 : f64, window = 7 : i64}
  %a = lm.padded_attention %q, %k, %k {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25, mask_window = 7 : i64}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  // The narrower of two windows.
  // CHECK: window = 5 : i64}
  %b = lm.padded_attention %a, %k, %k {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25, window = 5 : i64, mask_window = 7 : i64}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  // Without a mask's window nothing is imposed.
  // CHECK-NOT: window
  %c = lm.padded_attention %b, %k, %k {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.25}
    : (tensor<?x?x32xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x?x32xf32>
  return %c : tensor<?x?x32xf32>
}
