// RUN: sluice-opt %s -split-input-file -raise-attention -verify-diagnostics | FileCheck %s

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!kv = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
!past = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p", "">>
!cache = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p + s", "">>
!split = tensor<?x?x2x4xf32, #onnx.dims<"b", "s", "", "">>
!heads = tensor<?x2x?x4xf32, #onnx.dims<"b", "", "s", "">>
!kvSplit = tensor<?x?x1x4xf32, #onnx.dims<"b", "s", "", "">>
!kvHeads = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "s", "">>
!wide = tensor<?x1x2x?x4xf32, #onnx.dims<"b", "", "", "p + s", "">>
!repeated = tensor<?x2x?x4xf32, #onnx.dims<"b", "", "p + s", "">>
!turned = tensor<?x2x4x?xf32, #onnx.dims<"b", "", "", "p + s">>
!scores = tensor<?x2x?x?xf32, #onnx.dims<"b", "", "s", "p + s">>
!seen = tensor<?x?xi1, #onnx.dims<"s", "p + s">>
!mask = tensor<?x?xi64, #onnx.dims<"b", "p + s">>
!shown = tensor<?x1x?x?xi1, #onnx.dims<"b", "", "s", "p + s">>
!added = tensor<?x1x?x?xf32, #onnx.dims<"b", "", "s", "p + s">>
!rank = tensor<?xi64, #onnx.dims<"p + s">>
!own = tensor<?x1xi64, #onnx.dims<"s", "">>
// Keys in the cache, one head read by two; scale 0.5 split between query and keys; causal, 16 keys, padding.
// CHECK-LABEL: func.func @arithmetic
// CHECK-SAME: %[[Q:[^ :]+]]: tensor{{[^%]+}}%[[K:[^ :]+]]: tensor{{[^%]+}}%[[V:[^ :]+]]: tensor{{[^%]+}}%[[PK:[^ :]+]]: tensor{{[^%]+}}%[[PV:[^ :]+]]: tensor{{[^%]+}}%[[M:[^ :]+]]: tensor{{.+}}
// CHECK-DAG: %[[KEYS:.+]] = lm.padded_append %[[PK]], %[[K]]
// CHECK-DAG: %[[VALUES:.+]] = lm.padded_append %[[PV]], %[[V]]
// CHECK-DAG: %[[KR:.+]] = lm.repeat_heads %[[KEYS]] {heads = 1 : i64, repeats = 2 : i64}
// CHECK-DAG: %[[VR:.+]] = lm.repeat_heads %[[VALUES]] {heads = 1 : i64, repeats = 2 : i64}
// CHECK: %[[Y:.+]] = lm.padded_attention %[[Q]], %[[KR]], %[[VR]] mask(%[[M]]) {heads = 2 : i64, kv_heads = 2 : i64, mask_window = 16 : i64, scale = 5.000000e-01 : f64}
// CHECK: return %[[Y]], %[[KEYS]], %[[VALUES]]
func.func @arithmetic(%q: !x, %k: !kv, %v: !kv, %pk: !past, %pv: !past, %mask: !mask) -> (!x, !cache, !cache) {
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %window = onnx.constant dense<16> : tensor<i64>
  %i1 = onnx.constant dense<1> : tensor<1xi64>
  %i2 = onnx.constant dense<2> : tensor<1xi64>
  %i12 = onnx.constant dense<[1, 2]> : tensor<2xi64>
  %root = onnx.constant dense<0.5> : tensor<f32>
  %half = onnx.constant dense<2.0> : tensor<f32>
  %f0 = onnx.constant dense<0.0> : tensor<f32>
  %hidden = onnx.constant dense<-3.4028235e+38> : tensor<f32>
  %shape = onnx.constant dense<[0, 0, 2, 4]> : tensor<4xi64>
  %kvShape = onnx.constant dense<[0, 0, 1, 4]> : tensor<4xi64>
  %join = onnx.constant dense<[0, 0, 8]> : tensor<3xi64>
  // places: key k, query p + q
  %sizes = onnx.node "Shape"(%mask) {start = 1 : i64} : (!mask) -> tensor<1xi64>
  %length = onnx.node "Squeeze"(%sizes) : (tensor<1xi64>) -> tensor<i64>
  %pastSizes = onnx.node "Shape"(%pk) {start = 2 : i64, end = 3 : i64} : (!past) -> tensor<1xi64>
  %pastLength = onnx.node "Squeeze"(%pastSizes) : (tensor<1xi64>) -> tensor<i64>
  %keys = onnx.node "Range"(%zero, %length, %one) : (tensor<i64>, tensor<i64>, tensor<i64>) -> !rank
  %queries = onnx.node "Range"(%pastLength, %length, %one) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, #onnx.dims<"s">>
  %own = onnx.node "Unsqueeze"(%queries, %i1) : (tensor<?xi64, #onnx.dims<"s">>, tensor<1xi64>) -> !own
  %causal = onnx.node "LessOrEqual"(%keys, %own) : (!rank, !own) -> !seen
  %first = onnx.node "Sub"(%own, %window) : (!own, tensor<i64>) -> !own
  %near = onnx.node "Less"(%first, %keys) : (!own, !rank) -> !seen
  %both = onnx.node "And"(%causal, %near) : (!seen, !seen) -> !seen
  %wide = onnx.node "Unsqueeze"(%mask, %i12) : (!mask, tensor<2xi64>) -> tensor<?x1x1x?xi64, #onnx.dims<"b", "", "", "p + s">>
  %real = onnx.node "Cast"(%wide) {to = 9 : i64} : (tensor<?x1x1x?xi64, #onnx.dims<"b", "", "", "p + s">>) -> tensor<?x1x1x?xi1, #onnx.dims<"b", "", "", "p + s">>
  %shown = onnx.node "And"(%both, %real) : (!seen, tensor<?x1x1x?xi1, #onnx.dims<"b", "", "", "p + s">>) -> !shown
  %bias = onnx.node "Where"(%shown, %f0, %hidden) : (!shown, tensor<f32>, tensor<f32>) -> !added
  // heads and cache
  %0 = onnx.node "Reshape"(%q, %shape) : (!x, tensor<4xi64>) -> !split
  %1 = onnx.node "Transpose"(%0) {perm = array<i64: 0, 2, 1, 3>} : (!split) -> !heads
  %2 = onnx.node "Mul"(%1, %root) : (!heads, tensor<f32>) -> !heads
  %3 = onnx.node "Reshape"(%k, %kvShape) : (!kv, tensor<4xi64>) -> !kvSplit
  %4 = onnx.node "Transpose"(%3) {perm = array<i64: 0, 2, 1, 3>} : (!kvSplit) -> !kvHeads
  %5 = onnx.node "Concat"(%pk, %4) {axis = 2 : i64} : (!past, !kvHeads) -> !cache
  %6 = onnx.node "Reshape"(%v, %kvShape) : (!kv, tensor<4xi64>) -> !kvSplit
  %7 = onnx.node "Transpose"(%6) {perm = array<i64: 0, 2, 1, 3>} : (!kvSplit) -> !kvHeads
  %8 = onnx.node "Concat"(%pv, %7) {axis = -2 : i64} : (!past, !kvHeads) -> !cache
  %9 = onnx.node "Unsqueeze"(%5, %i2) : (!cache, tensor<1xi64>) -> tensor<?x1x1x?x4xf32, #onnx.dims<"b", "", "", "p + s", "">>
  %10 = onnx.node "Expand"(%9, %shape) : (tensor<?x1x1x?x4xf32, #onnx.dims<"b", "", "", "p + s", "">>, tensor<4xi64>) -> !wide
  %11 = onnx.node "Reshape"(%10, %shape) : (!wide, tensor<4xi64>) -> !repeated
  %12 = onnx.node "Transpose"(%11) {perm = array<i64: 0, 1, 3, 2>} : (!repeated) -> !turned
  %13 = onnx.node "Div"(%12, %half) : (!turned, tensor<f32>) -> !turned
  %14 = onnx.node "MatMul"(%2, %13) : (!heads, !turned) -> !scores
  %15 = onnx.node "Mul"(%14, %half) : (!scores, tensor<f32>) -> !scores
  %16 = onnx.node "Add"(%15, %bias) : (!scores, !added) -> !scores
  %17 = onnx.node "Softmax"(%16) {axis = -1 : i64} : (!scores) -> !scores
  %18 = onnx.node "Unsqueeze"(%8, %i2) : (!cache, tensor<1xi64>) -> tensor<?x1x1x?x4xf32, #onnx.dims<"b", "", "", "p + s", "">>
  %19 = onnx.node "Expand"(%18, %shape) : (tensor<?x1x1x?x4xf32, #onnx.dims<"b", "", "", "p + s", "">>, tensor<4xi64>) -> !wide
  %20 = onnx.node "Reshape"(%19, %shape) : (!wide, tensor<4xi64>) -> !repeated
  %21 = onnx.node "MatMul"(%17, %20) : (!scores, !repeated) -> !heads
  %22 = onnx.node "Transpose"(%21) {perm = array<i64: 0, 2, 1, 3>} : (!heads) -> !split
  %23 = onnx.node "Reshape"(%22, %join) : (!split, tensor<3xi64>) -> !x
  return %23, %5, %8 : !x, !cache, !cache
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!kv = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
!past = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p", "">>
!cache = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p + s", "">>
!mask = tensor<?x?xi64, #onnx.dims<"b", "p + s">>
!row = tensor<?x1x?xi64, #onnx.dims<"b", "", "p + s">>
!column = tensor<?x?x1xi64, #onnx.dims<"b", "s", "">>
!seen = tensor<?x?x?xi1, #onnx.dims<"b", "s", "p + s">>
// Order by counts of real tokens, padding hidden: causal too. The default scale is 1 / sqrt(head size).
// CHECK-LABEL: func.func @counted
// CHECK: lm.padded_attention %{{.+}} mask(%{{.+}}) {heads = 2 : i64, kv_heads = 1 : i64, scale = 5.000000e-01 : f64}
func.func @counted(%q: !x, %k: !kv, %v: !kv, %pk: !past, %pv: !past, %mask: !mask) -> (!x, !cache, !cache) {
  %one = onnx.constant dense<1> : tensor<i64>
  %i1 = onnx.constant dense<1> : tensor<1xi64>
  %i2 = onnx.constant dense<2> : tensor<1xi64>
  %f0 = onnx.constant dense<0.0> : tensor<f32>
  %hidden = onnx.constant dense<-65504.0> : tensor<f16>
  %count = onnx.node "CumSum"(%mask, %one) : (!mask, tensor<i64>) -> !mask
  %all = onnx.node "Shape"(%mask) {start = 1 : i64, end = 2 : i64} : (!mask) -> tensor<1xi64>
  %new = onnx.node "Shape"(%q) {start = 1 : i64, end = 2 : i64} : (!x) -> tensor<1xi64>
  %from = onnx.node "Sub"(%all, %new) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %last = onnx.node "Slice"(%count, %from, %all, %i1) : (!mask, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xi64, #onnx.dims<"b", "s">>
  %column = onnx.node "Unsqueeze"(%last, %i2) : (tensor<?x?xi64, #onnx.dims<"b", "s">>, tensor<1xi64>) -> !column
  %row = onnx.node "Unsqueeze"(%count, %i1) : (!mask, tensor<1xi64>) -> !row
  %order = onnx.node "GreaterOrEqual"(%column, %row) : (!column, !row) -> !seen
  %wide = onnx.node "Unsqueeze"(%mask, %i1) : (!mask, tensor<1xi64>) -> !row
  %real = onnx.node "Cast"(%wide) {to = 9 : i64} : (!row) -> tensor<?x1x?xi1, #onnx.dims<"b", "", "p + s">>
  %shown = onnx.node "And"(%real, %order) : (tensor<?x1x?xi1, #onnx.dims<"b", "", "p + s">>, !seen) -> !seen
  %bias = onnx.node "Where"(%shown, %f0, %hidden) : (!seen, tensor<f32>, tensor<f16>) -> tensor<?x?x?xf32, #onnx.dims<"b", "s", "p + s">>
  %full = onnx.node "Unsqueeze"(%bias, %i1) : (tensor<?x?x?xf32, #onnx.dims<"b", "s", "p + s">>, tensor<1xi64>) -> tensor<?x1x?x?xf32, #onnx.dims<"b", "", "s", "p + s">>
  %y, %ck, %cv = onnx.node "Attention"(%q, %k, %v, %full, %pk, %pv) {q_num_heads = 2 : i64, kv_num_heads = 1 : i64}
      : (!x, !kv, !kv, tensor<?x1x?x?xf32, #onnx.dims<"b", "", "s", "p + s">>, !past, !past) -> (!x, !cache, !cache)
  return %y, %ck, %cv : !x, !cache, !cache
}

// -----

!packed = tensor<?x?x16xf32, #onnx.dims<"b", "s", "">>
!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!past = tensor<?x1x?x?xf32, #onnx.dims<"b", "", "p", "d">>
!cache = tensor<?x1x?x?xf32, #onnx.dims<"b", "", "t", "d">>
!ids = tensor<?x?xi64, #onnx.dims<"b", "s">>
!mask = tensor<?x?xi64, #onnx.dims<"b", "t">>
!lengths = tensor<?xi32, #onnx.dims<"b">>
// The operator with packed query, keys and values, its own rotation, a window of 3, lengths from the mask's rows.
// CHECK-LABEL: func.func @group_query
// CHECK-SAME: %[[X:[^ :]+]]: tensor{{[^%]+}}%[[IDS:[^ :]+]]: tensor{{[^%]+}}%[[M:[^ :]+]]: tensor{{[^%]+}}%[[PK:[^ :]+]]: tensor<?x1x?x4xf32
// CHECK-DAG: %[[Q:.+]] = lm.linear %[[X]], %{{.+}} -> tensor<?x?x8xf32
// CHECK-DAG: %[[POSITIONS:.+]] = lm.padded_positions %[[IDS]], %[[M]]
// CHECK-DAG: lm.rope_table %[[POSITIONS]] {frequencies = array<f64: {{1.0000[0-9e+]+|0.99999[0-9]+}}, {{2.500[0-9]+e-01|0.2500[0-9]+|0.24999[0-9]+}}>
// CHECK: %[[QR:.+]] = lm.rope %[[Q]], %{{.+}} {heads = 2 : i64}
// CHECK: %[[KR:.+]] = lm.rope %{{.+}} {heads = 1 : i64}
// CHECK: %[[KEYS:.+]] = lm.padded_append %[[PK]], %[[KR]]
// CHECK: lm.padded_attention %[[QR]], %[[KEYS]], %{{.+}} mask(%[[M]]) {heads = 2 : i64, kv_heads = 1 : i64, mask_window = 3 : i64, scale = 2.500000e-01 : f64, soft_cap = 3.000000e+01 : f64}
func.func @group_query(%x: !x, %ids: !ids, %mask: !mask, %pk: !past, %pv: !past) -> (!x, !x, !cache, !cache) {
  %table = lm.weight "embed" : tensor<32x8xf32>
  %w = lm.weight "w" : tensor<16x8xf32>
  %cos = onnx.constant dense<[[1.0, 1.0], [0.5403023, 0.9689124], [-0.41614684, 0.87758255]]> : tensor<3x2xf32>
  %sin = onnx.constant dense<[[0.0, 0.0], [0.84147096, 0.24740396], [0.9092974, 0.47942555]]> : tensor<3x2xf32>
  %one = onnx.constant dense<1> : tensor<1xi64>
  %none = onnx.none
  %embedded = lm.embedding %table, %ids : (tensor<32x8xf32>, !ids) -> !x
  %packed = lm.linear %x, %w : (!x, tensor<16x8xf32>) -> !packed
  %sum = onnx.node "ReduceSum"(%mask, %one) {keepdims = 0 : i64} : (!mask, tensor<1xi64>) -> tensor<?xi64, #onnx.dims<"b">>
  %less = onnx.node "Sub"(%sum, %one) : (tensor<?xi64, #onnx.dims<"b">>, tensor<1xi64>) -> tensor<?xi64, #onnx.dims<"b">>
  %lengths = onnx.node "Cast"(%less) {to = 6 : i64} : (tensor<?xi64, #onnx.dims<"b">>) -> !lengths
  %shape = onnx.node "Shape"(%mask) : (!mask) -> tensor<2xi64>
  %total = onnx.node "Gather"(%shape, %one) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<1xi64>
  %y, %ck, %cv = onnx.node "com.microsoft.GroupQueryAttention"(%packed, %none, %none, %pk, %pv, %lengths, %total, %cos, %sin)
      {num_heads = 2 : i64, kv_num_heads = 1 : i64, scale = 0.25 : f32, do_rotary = 1 : i64, local_window_size = 3 : i64, softcap = 30.0 : f32}
      : (!packed, none, none, !past, !past, !lengths, tensor<1xi64>, tensor<3x2xf32>, tensor<3x2xf32>) -> (!x, !cache, !cache)
  return %embedded, %y, %ck, %cv : !x, !x, !cache, !cache
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!kv = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
!past = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p", "">>
!cache = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p + s", "">>
!mask = tensor<?x1x?x?xi1, #onnx.dims<"b", "", "s", "p + s">>
// Whatever mask an input brings is not known to be causal.
func.func @any_mask(%q: !x, %k: !kv, %v: !kv, %pk: !past, %pv: !past, %mask: !mask) -> (!x, !cache, !cache) {
  // expected-error @below {{Attention: attention mask lets a key through where arg5[%0,0,%2,%3] != 0, expected causal order}}
  %y, %ck, %cv = onnx.node "Attention"(%q, %k, %v, %mask, %pk, %pv) {q_num_heads = 2 : i64, kv_num_heads = 1 : i64}
      : (!x, !kv, !kv, !mask, !past, !past) -> (!x, !cache, !cache)
  return %y, %ck, %cv : !x, !cache, !cache
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!kv = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
!past = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p", "">>
!cache = tensor<?x1x?x4xf32, #onnx.dims<"b", "", "p + s", "">>
func.func @sees_all(%q: !x, %k: !kv, %v: !kv, %pk: !past, %pv: !past) -> (!x, !cache, !cache) {
  %none = onnx.none
  // expected-error @below {{Attention: attention sees later tokens (mask: true), expected a causal mask}}
  %y, %ck, %cv = onnx.node "Attention"(%q, %k, %v, %none, %pk, %pv) {q_num_heads = 2 : i64, kv_num_heads = 1 : i64}
      : (!x, !kv, !kv, none, !past, !past) -> (!x, !cache, !cache)
  return %y, %ck, %cv : !x, !cache, !cache
}
