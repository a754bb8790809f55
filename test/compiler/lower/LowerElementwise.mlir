// RUN: sluice-opt %s -split-input-file -lower-to-kernel | FileCheck %s

// Connected operations become one kernel; a value that a norm reads as well is written once and read by the second kernel.
// CHECK-LABEL: module @connected
// CHECK: kernel.func @elementwise_0 grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>]
// CHECK-NEXT: ^bb0(%[[W:.+]]: !kernel.buffer<fixed * 0 + 8 x f32>, %[[X:.+]]: !kernel.buffer<tokens * 8 + 0 x f32>, %[[OUT:.+]]: !kernel.buffer<tokens * 8 + 0 x f32>):
// CHECK: kernel.elementwise(%[[W]], %[[X]]) -> %[[OUT]] {features = 8 : i64}
// CHECK: ^bb0(%[[B:.+]]: f32, %[[A:.+]]: f32):
// CHECK: %[[E:.+]] = math.exp %[[A]] : f32
// CHECK: %[[TWO:.+]] = arith.constant 2.000000e+00 : f32
// CHECK: %[[M:.+]] = arith.mulf %{{.+}}, %[[TWO]] : f32
// CHECK: %[[S:.+]] = arith.addf %[[M]], %[[B]] : f32
// CHECK: kernel.yield %[[S]] : f32
// CHECK: kernel.func @elementwise_1
// CHECK: kernel.elementwise(%{{.+}}, %{{.+}}) -> %{{.+}} {features = 8 : i64}
// CHECK: arith.negf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: kernel.yield
// CHECK: kernel.launch @elementwise_0(%{{.+}}, %{{.+}}, %[[SUM:.+]]) :
// CHECK: kernel.launch @rms_norm_0(%[[SUM]], %{{.+}}, %[[N:.+]]) :
// CHECK: kernel.launch @elementwise_1(%{{.+}}, %{{.+}}, %{{.+}}) :
// CHECK-NOT: kernel.launch @elementwise
#same = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
module @connected {
  func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %batch: !lm.batch) -> tensor<?x8xf32> {
    %embed = lm.weight "embed" : tensor<32x8xf32>
    %w = lm.weight "w" : tensor<8xf32>
    %h = lm.embedding %embed, %ids : (tensor<32x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
    %e = math.exp %h : tensor<?x8xf32>
    %c0 = arith.constant 0 : index
    %d = tensor.dim %h, %c0 : tensor<?x8xf32>
    %init = tensor.empty(%d) : tensor<?x8xf32>
    %s = linalg.generic {indexing_maps = [#same, #row, #same], iterator_types = ["parallel", "parallel"]}
        ins(%e, %w : tensor<?x8xf32>, tensor<8xf32>) outs(%init : tensor<?x8xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %two = arith.constant 2.0 : f32
      %m = arith.mulf %a, %two : f32
      %t = arith.addf %m, %b : f32
      linalg.yield %t : f32
    } -> tensor<?x8xf32>
    %n = lm.rms_norm %s, %w {epsilon = 1.0e-5} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
    %neg = arith.negf %n : tensor<?x8xf32>
    %y = arith.addf %neg, %s : tensor<?x8xf32>
    %r = lm.logit_rows %y, %batch : (tensor<?x8xf32>, !lm.batch) -> tensor<?x8xf32>
    return %r : tensor<?x8xf32>
  }
}

// -----

// A value per row is spread over the row first; a row of constants becomes a weight; the output is written in place.
// CHECK-LABEL: module @broadcast
// CHECK: kernel.repeat_heads %{{.+}}, %{{.+}} {head = 1 : i64, heads = 1 : i64, repeats = 4 : i64}
// CHECK: %[[K:.+]] = lm.weight "constant" = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
// CHECK: %[[KW:.+]] = kernel.weight %[[K]] <plain, 0>
// CHECK: %[[OUT:.+]] = kernel.output "logits"
// CHECK: kernel.launch @repeat_heads_0(%[[GATE:.+]], %[[WIDE:.+]]) :
// CHECK: kernel.launch @elementwise_0(%{{.+}}, %[[WIDE]], %[[KW]], %[[OUT]]) :
#same = affine_map<(d0, d1) -> (d0, d1)>
#first = affine_map<(d0, d1) -> (d0, 0)>
#row = affine_map<(d0, d1) -> (d1)>
module @broadcast {
  func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %batch: !lm.batch) -> tensor<?x4xf32> {
    %embed = lm.weight "embed" : tensor<32x4xf32>
    %w = lm.weight "w" : tensor<1x4xf32>
    %h = lm.embedding %embed, %ids : (tensor<32x4xf32>, tensor<?xi32>) -> tensor<?x4xf32>
    %r = lm.logit_rows %h, %batch : (tensor<?x4xf32>, !lm.batch) -> tensor<?x4xf32>
    %g = lm.linear %r, %w : (tensor<?x4xf32>, tensor<1x4xf32>) -> tensor<?x1xf32>
    %k = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %y = linalg.generic {indexing_maps = [#same, #first, #row, #same], iterator_types = ["parallel", "parallel"]}
        ins(%r, %g, %k : tensor<?x4xf32>, tensor<?x1xf32>, tensor<4xf32>) outs(%r : tensor<?x4xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %m, %c : f32
      linalg.yield %s : f32
    } -> tensor<?x4xf32>
    return %y : tensor<?x4xf32>
  }
}
