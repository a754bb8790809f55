// RUN: sluice-opt %s -split-input-file -raise-linear -raise-activation -raise-moe -verify-diagnostics | FileCheck %s

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!rows = tensor<?x8xf32, #onnx.dims<"b*s", "">>
!logits = tensor<?x4xf32, #onnx.dims<"b*s", "">>
!top = tensor<?x2xf32, #onnx.dims<"b*s", "">>
!topIds = tensor<?x2xi64, #onnx.dims<"b*s", "">>
!one = tensor<?x1xf32, #onnx.dims<"b*s", "">>
!choices = tensor<?x8xf32, #onnx.dims<"2*b*s", "">>
!ids = tensor<?x1xi64, #onnx.dims<"2*b*s", "">>
!up = tensor<?x12xf32, #onnx.dims<"2*b*s", "">>
!gate = tensor<?x6xf32, #onnx.dims<"2*b*s", "">>
!gateUp = tensor<?x12x8xf32, #onnx.dims<"2*b*s", "", "">>
!down = tensor<?x8x6xf32, #onnx.dims<"2*b*s", "", "">>
// Rows repeated per choice, weights gathered by expert id, batched products; gate and up are halves of one product.
// CHECK-LABEL: func.func @gathered
// CHECK-SAME: %[[X:[^ :]+]]: tensor
// CHECK-DAG: %[[GU:.+]] = lm.weight "gate_up" : tensor<4x12x8xf32>
// CHECK-DAG: %[[G:.+]] = lm.weight_slice %[[GU]] offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<4x12x8xf32> -> tensor<4x6x8xf32>
// CHECK-DAG: %[[U:.+]] = lm.weight_slice %[[GU]] offsets = [0, 6, 0] strides = [1, 1, 1] : tensor<4x12x8xf32> -> tensor<4x6x8xf32>
// CHECK: %[[L:.+]] = lm.linear %[[X]]
// CHECK: %[[W:.+]], %[[IDS:.+]] = lm.route %[[L]] {normalize, score = #lm<score softmax_all>, top_k = 2 : i64}
// CHECK-NEXT: lm.probe "router_ids" 0, %[[IDS]]
// CHECK-NEXT: lm.probe "router_weights" 0, %[[W]]
// CHECK-DAG: %[[A:.+]] = lm.grouped_linear %[[X]], %[[IDS]], %[[G]] {{.*}} -> tensor<?x?x2x6xf32
// CHECK-DAG: %[[B:.+]] = lm.grouped_linear %[[X]], %[[IDS]], %[[U]]
// CHECK: %[[C:.+]] = lm.gated_activation %[[A]], %[[B]]
// CHECK: %[[D:.+]] = lm.grouped_linear %[[C]], %[[IDS]], %{{.+}} -> tensor<?x?x2x8xf32
// CHECK: %[[Y:.+]] = lm.combine %[[D]], %[[W]]
// CHECK-NEXT: return %[[Y]]
func.func @gathered(%x: !x) -> !x {
  %router = onnx.weight "router" : tensor<4x8xf32>
  %gateUp = onnx.weight "gate_up" : tensor<4x12x8xf32>
  %down = onnx.weight "down" : tensor<4x8x6xf32>
  %k = onnx.constant dense<2> : tensor<1xi64>
  %i1 = onnx.constant dense<1> : tensor<1xi64>
  %last = onnx.constant dense<-1> : tensor<1xi64>
  %flat = onnx.constant dense<[-1, 8]> : tensor<2xi64>
  %twice = onnx.constant dense<[1, 2, 1]> : tensor<3xi64>
  %0 = onnx.node "Reshape"(%x, %flat) : (!x, tensor<2xi64>) -> !rows
  %1 = onnx.node "Gemm"(%0, %router) {transB = 1 : i64} : (!rows, tensor<4x8xf32>) -> !logits
  %2 = onnx.node "Softmax"(%1) {axis = -1 : i64} : (!logits) -> !logits
  %values, %chosen = onnx.node "TopK"(%2, %k) {axis = -1 : i64} : (!logits, tensor<1xi64>) -> (!top, !topIds)
  %sum = onnx.node "ReduceSum"(%values, %last) {keepdims = 1 : i64} : (!top, tensor<1xi64>) -> !one
  %weights = onnx.node "Div"(%values, %sum) : (!top, !one) -> !top
  %3 = onnx.node "Unsqueeze"(%0, %i1) : (!rows, tensor<1xi64>) -> tensor<?x1x8xf32, #onnx.dims<"b*s", "", "">>
  %4 = onnx.node "Expand"(%3, %twice) : (tensor<?x1x8xf32, #onnx.dims<"b*s", "", "">>, tensor<3xi64>) -> tensor<?x2x8xf32, #onnx.dims<"b*s", "", "">>
  %5 = onnx.node "Reshape"(%4, %flat) : (tensor<?x2x8xf32, #onnx.dims<"b*s", "", "">>, tensor<2xi64>) -> !choices
  %6 = onnx.node "Reshape"(%chosen, %last) : (!topIds, tensor<1xi64>) -> tensor<?xi64, #onnx.dims<"2*b*s">>
  %ids = onnx.node "Unsqueeze"(%6, %last) : (tensor<?xi64, #onnx.dims<"2*b*s">>, tensor<1xi64>) -> !ids
  %7 = onnx.node "GatherND"(%gateUp, %ids) : (tensor<4x12x8xf32>, !ids) -> !gateUp
  %8 = onnx.node "Unsqueeze"(%5, %last) : (!choices, tensor<1xi64>) -> tensor<?x8x1xf32, #onnx.dims<"2*b*s", "", "">>
  %9 = onnx.node "MatMul"(%7, %8) : (!gateUp, tensor<?x8x1xf32, #onnx.dims<"2*b*s", "", "">>) -> tensor<?x12x1xf32, #onnx.dims<"2*b*s", "", "">>
  %10 = onnx.node "Squeeze"(%9, %last) : (tensor<?x12x1xf32, #onnx.dims<"2*b*s", "", "">>, tensor<1xi64>) -> !up
  %11, %12 = onnx.node "Split"(%10) {axis = 1 : i64, num_outputs = 2 : i64} : (!up) -> (!gate, !gate)
  %13 = onnx.node "Sigmoid"(%11) : (!gate) -> !gate
  %14 = onnx.node "Mul"(%11, %13) : (!gate, !gate) -> !gate
  %15 = onnx.node "Mul"(%14, %12) : (!gate, !gate) -> !gate
  %16 = onnx.node "GatherND"(%down, %ids) : (tensor<4x8x6xf32>, !ids) -> !down
  %17 = onnx.node "Unsqueeze"(%15, %last) : (!gate, tensor<1xi64>) -> tensor<?x6x1xf32, #onnx.dims<"2*b*s", "", "">>
  %18 = onnx.node "MatMul"(%16, %17) : (!down, tensor<?x6x1xf32, #onnx.dims<"2*b*s", "", "">>) -> tensor<?x8x1xf32, #onnx.dims<"2*b*s", "", "">>
  %19 = onnx.node "Squeeze"(%18, %last) : (tensor<?x8x1xf32, #onnx.dims<"2*b*s", "", "">>, tensor<1xi64>) -> !choices
  %20 = onnx.node "Reshape"(%weights, %last) : (!top, tensor<1xi64>) -> tensor<?xf32, #onnx.dims<"2*b*s">>
  %21 = onnx.node "Unsqueeze"(%20, %last) : (tensor<?xf32, #onnx.dims<"2*b*s">>, tensor<1xi64>) -> tensor<?x1xf32, #onnx.dims<"2*b*s", "">>
  %22 = onnx.node "Mul"(%19, %21) : (!choices, tensor<?x1xf32, #onnx.dims<"2*b*s", "">>) -> !choices
  %23 = onnx.node "Reshape"(%22, %twice) : (!choices, tensor<3xi64>) -> tensor<?x2x8xf32, #onnx.dims<"b*s", "", "">>
  %24 = onnx.node "ReduceSum"(%23, %i1) {keepdims = 0 : i64} : (tensor<?x2x8xf32, #onnx.dims<"b*s", "", "">>, tensor<1xi64>) -> !rows
  %25 = onnx.node "Reshape"(%24, %twice) : (!rows, tensor<3xi64>) -> !x
  return %25 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!inner = tensor<?x?x6xf32, #onnx.dims<"b", "s", "">>
!logits = tensor<?x?x2xf32, #onnx.dims<"b", "s", "">>
!top = tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>
!ids = tensor<?x?x1xi64, #onnx.dims<"b", "s", "">>
!hit = tensor<?x?x1xi1, #onnx.dims<"b", "s", "">>
// All experts computed, each weighed by the router where it chose them; expert 1 comes first in the sum.
// CHECK-LABEL: func.func @masked
// CHECK-SAME: %[[X:[^ :]+]]: tensor
// CHECK: %[[L:.+]] = lm.linear %[[X]]
// CHECK: %[[W:.+]], %[[IDS:.+]] = lm.route %[[L]] {score = #lm<score softmax_selected>, top_k = 1 : i64}
// CHECK: %[[A:.+]] = lm.grouped_linear %[[X]], %[[IDS]], %[[G:.+]] :
// CHECK: lm.combine
// CHECK-NOT: lm.linear
// CHECK-NOT: onnx.node
func.func @masked(%x: !x) -> !x {
  %router = onnx.weight "router" : tensor<8x2xf32>
  %g0 = onnx.weight "g0" : tensor<8x6xf32>
  %u0 = onnx.weight "u0" : tensor<8x6xf32>
  %d0 = onnx.weight "d0" : tensor<6x8xf32>
  %g1 = onnx.weight "g1" : tensor<8x6xf32>
  %u1 = onnx.weight "u1" : tensor<8x6xf32>
  %d1 = onnx.weight "d1" : tensor<6x8xf32>
  %k = onnx.constant dense<1> : tensor<1xi64>
  %zero = onnx.constant dense<0> : tensor<i64>
  %one = onnx.constant dense<1> : tensor<i64>
  %last = onnx.constant dense<-1> : tensor<1xi64>
  %0 = onnx.node "MatMul"(%x, %router) : (!x, tensor<8x2xf32>) -> !logits
  %values, %ids = onnx.node "TopK"(%0, %k) {axis = -1 : i64} : (!logits, tensor<1xi64>) -> (!top, !ids)
  %weights = onnx.node "Softmax"(%values) {axis = -1 : i64} : (!top) -> !top
  %1 = onnx.node "MatMul"(%x, %g0) : (!x, tensor<8x6xf32>) -> !inner
  %2 = onnx.node "Sigmoid"(%1) : (!inner) -> !inner
  %3 = onnx.node "Mul"(%1, %2) : (!inner, !inner) -> !inner
  %4 = onnx.node "MatMul"(%x, %u0) : (!x, tensor<8x6xf32>) -> !inner
  %5 = onnx.node "Mul"(%3, %4) : (!inner, !inner) -> !inner
  %6 = onnx.node "MatMul"(%5, %d0) : (!inner, tensor<6x8xf32>) -> !x
  %7 = onnx.node "Equal"(%ids, %zero) : (!ids, tensor<i64>) -> !hit
  %8 = onnx.node "Cast"(%7) {to = 1 : i64} : (!hit) -> !top
  %9 = onnx.node "Mul"(%weights, %8) : (!top, !top) -> !top
  %10 = onnx.node "ReduceSum"(%9, %last) {keepdims = 1 : i64} : (!top, tensor<1xi64>) -> !top
  %11 = onnx.node "Mul"(%6, %10) : (!x, !top) -> !x
  %12 = onnx.node "MatMul"(%x, %g1) : (!x, tensor<8x6xf32>) -> !inner
  %13 = onnx.node "Sigmoid"(%12) : (!inner) -> !inner
  %14 = onnx.node "Mul"(%12, %13) : (!inner, !inner) -> !inner
  %15 = onnx.node "MatMul"(%x, %u1) : (!x, tensor<8x6xf32>) -> !inner
  %16 = onnx.node "Mul"(%14, %15) : (!inner, !inner) -> !inner
  %17 = onnx.node "MatMul"(%16, %d1) : (!inner, tensor<6x8xf32>) -> !x
  %18 = onnx.node "Equal"(%ids, %one) : (!ids, tensor<i64>) -> !hit
  %19 = onnx.node "Cast"(%18) {to = 1 : i64} : (!hit) -> !top
  %20 = onnx.node "Mul"(%weights, %19) : (!top, !top) -> !top
  %21 = onnx.node "ReduceSum"(%20, %last) {keepdims = 1 : i64} : (!top, tensor<1xi64>) -> !top
  %22 = onnx.node "Mul"(%17, %21) : (!x, !top) -> !x
  %23 = onnx.node "Add"(%22, %11) : (!x, !x) -> !x
  return %23 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!inner = tensor<?x?x6xf32, #onnx.dims<"b", "s", "">>
!logits = tensor<?x?x3xf32, #onnx.dims<"b", "s", "">>
!top = tensor<?x?x1xf32, #onnx.dims<"b", "s", "">>
!ids = tensor<?x?x1xi32, #onnx.dims<"b", "s", "">>
!hit = tensor<?x?x1xi1, #onnx.dims<"b", "s", "">>
// Expert 0 alone of three.
func.func @missing(%x: !x, %shared: !x) -> !x {
  %router = lm.weight "router" : tensor<3x8xf32>
  %g = lm.weight "g" : tensor<6x8xf32>
  %d = lm.weight "d" : tensor<8x6xf32>
  %zero = onnx.constant dense<0> : tensor<i32>
  %last = onnx.constant dense<-1> : tensor<1xi64>
  %0 = lm.linear %x, %router : (!x, tensor<3x8xf32>) -> !logits
  %weights, %ids = lm.route %0 {score = #lm<score softmax_all>, top_k = 1 : i64} : (!logits) -> (!top, !ids)
  %1 = lm.linear %x, %g : (!x, tensor<6x8xf32>) -> !inner
  %2 = lm.gated_activation %1, %1 <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64> : (!inner, !inner) -> !inner
  %3 = lm.linear %2, %d : (!inner, tensor<8x6xf32>) -> !x
  %4 = onnx.node "Equal"(%ids, %zero) : (!ids, tensor<i32>) -> !hit
  %5 = onnx.node "Cast"(%4) {to = 1 : i64} : (!hit) -> !top
  %6 = onnx.node "Mul"(%weights, %5) : (!top, !top) -> !top
  %7 = onnx.node "ReduceSum"(%6, %last) {keepdims = 1 : i64} : (!top, tensor<1xi64>) -> !top
  %8 = onnx.node "Mul"(%3, %7) : (!x, !top) -> !x
  // expected-error @below {{Add: expert 1 is missing: the sum holds 1 of the 3 experts that the router chooses among}}
  %9 = onnx.node "Add"(%8, %shared) : (!x, !x) -> !x
  return %9 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!logits = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
!flat = tensor<?x4xf32, #onnx.dims<"b*s", "">>
// The operator: rows of gate and up alternate in fc1.
// CHECK-LABEL: func.func @operator
// CHECK-DAG: %[[GU:.+]] = lm.weight "fc1" : tensor<4x12x8xf16>
// CHECK-DAG: %[[G:.+]] = lm.weight_slice %[[GU]] offsets = [0, 0, 0] strides = [1, 2, 1] : tensor<4x12x8xf16> -> tensor<4x6x8xf16>
// CHECK-DAG: %[[U:.+]] = lm.weight_slice %[[GU]] offsets = [0, 1, 0] strides = [1, 2, 1] : tensor<4x12x8xf16> -> tensor<4x6x8xf16>
// CHECK: lm.route %{{.+}} {normalize, score = #lm<score softmax_all>, top_k = 2 : i64}
// CHECK: lm.grouped_linear %{{.+}}, %{{.+}}, %[[G]] :
// CHECK: lm.grouped_linear %{{.+}}, %{{.+}}, %[[U]] :
// CHECK: lm.gated_activation {{.+}} alpha = 1.0{{.*}}, beta = 0.0
func.func @operator(%x: !x) -> !x {
  %router = onnx.weight "router" : tensor<8x4xf16>
  %fc1 = onnx.weight "fc1" : tensor<4x12x8xf16>
  %fc2 = onnx.weight "fc2" : tensor<4x8x6xf16>
  %shape = onnx.constant dense<[-1, 4]> : tensor<2xi64>
  %none = onnx.none
  %0 = onnx.node "MatMul"(%x, %router) : (!x, tensor<8x4xf16>) -> !logits
  %1 = onnx.node "Reshape"(%0, %shape) : (!logits, tensor<2xi64>) -> !flat
  %2 = onnx.node "com.microsoft.MoE"(%x, %1, %fc1, %none, %fc2, %none)
      {k = 2 : i64, activation_type = "swiglu", swiglu_fusion = 1 : i64, activation_alpha = 1.0 : f32, activation_beta = 0.0 : f32, normalize_routing_weights = 1 : i64}
      : (!x, !flat, tensor<4x12x8xf16>, none, tensor<4x8x6xf16>, none) -> !x
  return %2 : !x
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!logits = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
func.func @width(%x: !x) -> !x {
  %router = onnx.weight "router" : tensor<8x4xf32>
  %fc1 = onnx.weight "fc1" : tensor<3x12x8xf32>
  %fc2 = onnx.weight "fc2" : tensor<3x8x6xf32>
  %none = onnx.none
  %0 = onnx.node "MatMul"(%x, %router) : (!x, tensor<8x4xf32>) -> !logits
  // expected-error @below {{MoE: has weights of 3 and 3 experts, the router chooses among 4}}
  %1 = onnx.node "com.microsoft.MoE"(%x, %0, %fc1, %none, %fc2, %none) {k = 2 : i64, activation_type = "swiglu", swiglu_fusion = 1 : i64}
      : (!x, !logits, tensor<3x12x8xf32>, none, tensor<3x8x6xf32>, none) -> !x
  return %1 : !x
}
