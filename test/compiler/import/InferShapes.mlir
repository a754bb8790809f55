// Inference rules on text: types, symbolic sizes and the values of shape computations.
// RUN: sluice-opt %s --infer-shapes --split-input-file | FileCheck %s

!x = tensor<?x?x64xf32, #onnx.dims<"b", "s", "">>
!u = tensor<*x!onnx.unknown>

// The chain that exporters write to reshape [b, s, 64] to [b, s, 4, 16] and back.
// CHECK-LABEL: func.func @split_heads
func.func @split_heads(%x: !x) -> (!u, !u) {
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %axis0 = onnx.constant dense<0> : tensor<1xi64>
  %heads = onnx.constant dense<[-1, 16]> : tensor<2xi64>
  %shape = onnx.node "Shape"(%x) : (!x) -> !u
  %b = onnx.node "Gather"(%shape, %zero) {axis = 0 : i64} : (!u, tensor<i64>) -> !u
  %s = onnx.node "Gather"(%shape, %one) {axis = 0 : i64} : (!u, tensor<i64>) -> !u
  %b1 = onnx.node "Unsqueeze"(%b, %axis0) : (!u, tensor<1xi64>) -> !u
  %s1 = onnx.node "Unsqueeze"(%s, %axis0) : (!u, tensor<1xi64>) -> !u
  %target = onnx.node "Concat"(%b1, %s1, %heads) {axis = 0 : i64} : (!u, !u, tensor<2xi64>) -> !u
  // CHECK: onnx.node "Reshape"{{.*}} -> tensor<?x?x4x16xf32, #onnx.dims<"b", "s", "", "">>
  %split = onnx.node "Reshape"(%x, %target) : (!x, !u) -> !u
  // CHECK: onnx.node "Transpose"{{.*}} -> tensor<?x4x?x16xf32, #onnx.dims<"b", "", "s", "">>
  %heads_first = onnx.node "Transpose"(%split) {perm = array<i64: 0, 2, 1, 3>} : (!u) -> !u
  %rows = onnx.constant dense<[-1, 64]> : tensor<2xi64>
  // CHECK: onnx.node "Reshape"{{.*}} -> tensor<?x64xf32, #onnx.dims<"b*s", "">>
  %flat = onnx.node "Reshape"(%split, %rows) : (!u, tensor<2xi64>) -> !u
  return %heads_first, %flat : !u, !u
}

// -----

!p = tensor<?x2x?x16xf32, #onnx.dims<"b", "", "past", "">>
!k = tensor<?x2x?x16xf32, #onnx.dims<"b", "", "s", "">>
!q = tensor<?x2x?x16xf32, #onnx.dims<"b", "", "s", "">>
!u = tensor<*x!onnx.unknown>

// CHECK-LABEL: func.func @cache
func.func @cache(%past: !p, %k: !k, %q: !q) -> !u {
  // CHECK: onnx.node "Concat"{{.*}} -> tensor<?x2x?x16xf32, #onnx.dims<"b", "", "past + s", "">>
  %all = onnx.node "Concat"(%past, %k) {axis = -2 : i64} : (!p, !k) -> !u
  %t = onnx.node "Transpose"(%all) {perm = array<i64: 0, 1, 3, 2>} : (!u) -> !u
  // CHECK: onnx.node "MatMul"{{.*}} -> tensor<?x2x?x?xf32, #onnx.dims<"b", "", "s", "past + s">>
  %scores = onnx.node "MatMul"(%q, %t) : (!q, !u) -> !u
  return %scores : !u
}

// -----

!x = tensor<?x4xf32, #onnx.dims<"n", "">>
!u = tensor<*x!onnx.unknown>

// Expand's target, guarded as TorchScript does: Where(shape == -1, 1, shape). A size is never -1, so it is the shape.
// CHECK-LABEL: func.func @guarded_expand
func.func @guarded_expand(%x: !x, %v: tensor<1x4xf32>) -> !u {
  %shape = onnx.node "Shape"(%x) : (!x) -> !u
  %minus = onnx.constant dense<-1> : tensor<i64>
  %two = onnx.constant dense<2> : tensor<1xi64>
  %ones = onnx.node "ConstantOfShape"(%two) {value = dense<1> : tensor<1xi64>} : (tensor<1xi64>) -> !u
  %equal = onnx.node "Equal"(%shape, %minus) : (!u, tensor<i64>) -> !u
  %target = onnx.node "Where"(%equal, %ones, %shape) : (!u, !u, !u) -> !u
  // CHECK: onnx.node "Expand"{{.*}} -> tensor<?x4xf32, #onnx.dims<"n", "">>
  %y = onnx.node "Expand"(%v, %target) : (tensor<1x4xf32>, !u) -> !u
  return %y : !u
}

// -----

!x = tensor<?x8xf32, #onnx.dims<"n", "">>
!u = tensor<*x!onnx.unknown>

// CHECK-LABEL: func.func @slices
func.func @slices(%x: !x) -> (!u, !u, !u, !u, !u) {
  %a0 = onnx.constant dense<0> : tensor<1xi64>
  %a1 = onnx.constant dense<1> : tensor<1xi64>
  %m1 = onnx.constant dense<-1> : tensor<1xi64>
  %three = onnx.constant dense<3> : tensor<1xi64>
  %end = onnx.constant dense<9223372036854775807> : tensor<1xi64>
  // CHECK: "Slice"{{.*}} -> tensor<?x5xf32, #onnx.dims<"n", "">>
  %0 = onnx.node "Slice"(%x, %three, %end, %a1) : (!x, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !u
  // CHECK: "Slice"{{.*}} -> tensor<1x8xf32>
  %1 = onnx.node "Slice"(%x, %m1, %end, %a0) : (!x, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !u
  // CHECK: "Slice"{{.*}} -> tensor<?x8xf32, #onnx.dims<"min(3, n)", "">>
  %2 = onnx.node "Slice"(%x, %a0, %three, %a0) : (!x, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !u
  // CHECK: "Slice"{{.*}} -> tensor<?x3xf32, #onnx.dims<"n", "">>
  %3 = onnx.node "Slice"(%x, %a0, %end, %a1, %three) : (!x, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !u
  %min = onnx.constant dense<-9223372036854775807> : tensor<1xi64>
  // CHECK: "Slice"{{.*}} -> tensor<?x8xf32, #onnx.dims<"n", "">>
  %4 = onnx.node "Slice"(%x, %m1, %min, %a0, %m1) : (!x, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> !u
  return %0, %1, %2, %3, %4 : !u, !u, !u, !u, !u
}

// -----

!x = tensor<?x8xf32, #onnx.dims<"n", "">>
!u = tensor<*x!onnx.unknown>

// CHECK-LABEL: func.func @select
func.func @select(%x: !x, %ids: tensor<?xi64, #onnx.dims<"m">>) -> (!u, !u, !u, !u) {
  %k = onnx.constant dense<2> : tensor<1xi64>
  // CHECK: "TopK"{{.*}} -> (tensor<?x2xf32, #onnx.dims<"n", "">>, tensor<?x2xi64, #onnx.dims<"n", "">>)
  %v, %i = onnx.node "TopK"(%x, %k) : (!x, tensor<1xi64>) -> (!u, !u)
  // CHECK: "Gather"{{.*}} -> tensor<?x8xf32, #onnx.dims<"m", "">>
  %g = onnx.node "Gather"(%x, %ids) : (!x, tensor<?xi64, #onnx.dims<"m">>) -> !u
  // A size that the data decide has a name of its own, the same wherever it goes.
  // CHECK: "NonZero"{{.*}} -> tensor<1x?xi64, #onnx.dims<"", "[[N:nonzero[^"]*]]">>
  %nz = onnx.node "NonZero"(%ids) : (tensor<?xi64, #onnx.dims<"m">>) -> !u
  // CHECK: "Transpose"{{.*}} -> tensor<?x1xi64, #onnx.dims<"[[N]]", "">>
  %t = onnx.node "Transpose"(%nz) : (!u) -> !u
  return %i, %g, %nz, %t : !u, !u, !u, !u
}

// -----

!u = tensor<*x!onnx.unknown>

// The four results of operators with caches.
// CHECK-LABEL: func.func @group_query_attention
func.func @group_query_attention(%qkv: tensor<?x?x192xf16, #onnx.dims<"b", "s", "">>, %past: tensor<?x2x?x16xf16, #onnx.dims<"b", "", "p", "">>, %mask: tensor<?x?xi64, #onnx.dims<"b", "total">>,
    %lengths: tensor<?xi32, #onnx.dims<"b">>, %n: none) -> (!u, !u, !u) {
  %one = onnx.constant dense<1> : tensor<i64>
  %shape = onnx.node "Shape"(%mask) : (tensor<?x?xi64, #onnx.dims<"b", "total">>) -> !u
  %total = onnx.node "Gather"(%shape, %one) : (!u, tensor<i64>) -> !u
  %total32 = onnx.node "Cast"(%total) {to = 6 : i64} : (!u) -> !u
  // CHECK: "com.microsoft.GroupQueryAttention"{{.*}} -> (tensor<?x?x128xf16, #onnx.dims<"b", "s", "">>, tensor<?x2x?x16xf16, #onnx.dims<"b", "", "total", "">>, tensor<?x2x?x16xf16, #onnx.dims<"b", "", "total", "">>)
  %y:3 = onnx.node "com.microsoft.GroupQueryAttention"(%qkv, %n, %n, %past, %past, %lengths, %total32) {num_heads = 8 : i64, kv_num_heads = 2 : i64}
      : (tensor<?x?x192xf16, #onnx.dims<"b", "s", "">>, none, none, tensor<?x2x?x16xf16, #onnx.dims<"b", "", "p", "">>, tensor<?x2x?x16xf16, #onnx.dims<"b", "", "p", "">>, tensor<?xi32, #onnx.dims<"b">>, !u) -> (!u, !u, !u)
  return %y#0, %y#1, %y#2 : !u, !u, !u
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x64xf32, #onnx.dims<"b", "s", "">>, %k: tensor<?x?x32xf32, #onnx.dims<"b", "s", "">>, %past: tensor<?x2x?x16xf32, #onnx.dims<"b", "", "p", "">>, %n: none) -> (!u, !u, !u) {
  // CHECK: "Attention"{{.*}} -> (tensor<?x?x64xf32, #onnx.dims<"b", "s", "">>, tensor<?x2x?x16xf32, #onnx.dims<"b", "", "p + s", "">>, tensor<?x2x?x16xf32, #onnx.dims<"b", "", "p + s", "">>)
  %y:3 = onnx.node "Attention"(%q, %k, %k, %n, %past, %past) {q_num_heads = 4 : i64, kv_num_heads = 2 : i64}
      : (tensor<?x?x64xf32, #onnx.dims<"b", "s", "">>, tensor<?x?x32xf32, #onnx.dims<"b", "s", "">>, tensor<?x?x32xf32, #onnx.dims<"b", "s", "">>, none, tensor<?x2x?x16xf32, #onnx.dims<"b", "", "p", "">>, tensor<?x2x?x16xf32, #onnx.dims<"b", "", "p", "">>) -> (!u, !u, !u)
  return %y#0, %y#1, %y#2 : !u, !u, !u
}

// -----

!u = tensor<*x!onnx.unknown>

// A loop's carried value keeps its element type and the sizes that do not change; a scanned row gets a leading dimension.
// CHECK-LABEL: func.func @loop
func.func @loop(%count: tensor<i64>, %go: tensor<i1>, %x: tensor<?x4xf32, #onnx.dims<"n", "">>) -> (!u, !u) {
  // CHECK: ({
  // CHECK: ^bb0(%{{.*}}: tensor<i64>, %{{.*}}: tensor<i1>, %{{.*}}: tensor<?x4xf32, #onnx.dims<"n", "">>):
  // CHECK: }) : (tensor<i64>, tensor<i1>, tensor<?x4xf32, #onnx.dims<"n", "">>) -> (tensor<?x4xf32, #onnx.dims<"n", "">>, tensor<?x?x4xf32, #onnx.dims<"", "n", "">>)
  %y:2 = onnx.node "Loop"(%count, %go, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<?x4xf32, #onnx.dims<"n", "">>):
    %w = onnx.node "Neg"(%v) : (tensor<?x4xf32, #onnx.dims<"n", "">>) -> !u
    onnx.yield %c, %w, %v : tensor<i1>, !u, tensor<?x4xf32, #onnx.dims<"n", "">>
  }) : (tensor<i64>, tensor<i1>, tensor<?x4xf32, #onnx.dims<"n", "">>) -> (!u, !u)
  return %y#0, %y#1 : !u, !u
}
