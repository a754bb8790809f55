// RUN: sluice-opt %s --pack-tokens --split-input-file | FileCheck %s

#row = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#feature = affine_map<(d0, d1, d2) -> (d2)>
#number = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
// Ids and positions lose the batch, the mask vanishes, loops over [batch, seq, features] become loops over [tokens, features],
// and behind the last attention only wanted rows are computed.
// CHECK-DAG: #[[$ROW:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[$FEATURE:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[$NUMBER:.*]] = affine_map<(d0, d1) -> (d0, 0)>
// CHECK-LABEL: func.func @model
// CHECK-SAME: (%[[IDS:arg[0-9]+]]: tensor<?xi32> {lm.role = "token_ids"}, %[[POS:arg[0-9]+]]: tensor<?xi32> {lm.role = "position_ids"}, %[[BATCH:arg[0-9]+]]: !lm.batch
// CHECK-SAME: -> (tensor<?x16xf32> {lm.role = "logits"}
// CHECK: %[[W:.*]] = lm.weight
// CHECK: %[[E:.*]] = lm.embedding %[[W]], %[[IDS]] : (tensor<16x16xf32>, tensor<?xi32>) -> tensor<?x16xf32>
// CHECK: %[[T:.*]] = tensor.dim %[[E]], %{{.*}}
// CHECK: %[[EMPTY:.*]] = tensor.empty(%[[T]]) : tensor<?x16xf32>
// CHECK: lm.rope_table %[[POS]] {{.*}} : (tensor<?xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
// CHECK: %[[G:.*]] = linalg.generic {indexing_maps = [#[[$ROW]], #[[$FEATURE]], #[[$NUMBER]], #[[$ROW]]], iterator_types = ["parallel", "parallel"]} {{.*}} outs(%[[EMPTY]]
// CHECK: %[[CHOSENG:.*]] = lm.logit_rows %[[G]], %[[BATCH]]
// CHECK: %[[A:.*]] = lm.attention
// CHECK: %[[CHOSEN:.*]] = lm.logit_rows %[[A]], %[[BATCH]]
// CHECK: %[[SUM:.*]] = arith.addf %[[CHOSEN]], %[[CHOSENG]] : tensor<?x16xf32>
// CHECK: lm.probe "layer_output" 0, %[[SUM]]
// CHECK: lm.linear %[[SUM]]
func.func @model(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %mask: tensor<?x?xi64> {lm.role = "attention_mask"}, %batch: !lm.batch {lm.role = "batch"},
                 %c: !lm.cache<window = 0, element = f32, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 1> {lm.role = "cache"})
    -> (tensor<?x?x16xf32> {lm.role = "logits"}, !lm.cache<window = 0, element = f32, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 1> {lm.role = "cache"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %p = lm.padded_positions %ids, %mask : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %w = lm.weight "embed" : tensor<16x16xf32>
  %scale = lm.weight "scale" : tensor<16xf32>
  %x = lm.embedding %w, %ids : (tensor<16x16xf32>, tensor<?x?xi64>) -> tensor<?x?x16xf32>
  %one = lm.weight "one" : tensor<1x16xf32>
  %factor = lm.linear %x, %one : (tensor<?x?x16xf32>, tensor<1x16xf32>) -> tensor<?x?x1xf32>
  %cos, %sin = lm.rope_table %p {frequencies = array<f64: 1.0, 0.1, 0.01, 0.001>, scale = 1.0} : (tensor<?x?xi64>) -> (tensor<?x?x4xf32>, tensor<?x?x4xf32>)
  %b = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x16xf32>
  %empty = tensor.empty(%b, %s) : tensor<?x?x16xf32>
  %g = linalg.generic {indexing_maps = [#row, #feature, #number, #row], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %scale, %factor : tensor<?x?x16xf32>, tensor<16xf32>, tensor<?x?x1xf32>) outs(%empty : tensor<?x?x16xf32>) {
  ^bb0(%in: f32, %in1: f32, %in2: f32, %out: f32):
    %m = arith.mulf %in, %in1 : f32
    %n = arith.mulf %m, %in2 : f32
    linalg.yield %n : f32
  } -> tensor<?x?x16xf32>
  %q = lm.rope %g, %cos, %sin {heads = 2 : i64} : (tensor<?x?x16xf32>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x16xf32>
  %d = lm.cache_append %c, %q, %g, %batch {layer = 0 : i64}
    : (!lm.cache<window = 0, element = f32, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 1>, tensor<?x?x16xf32>, tensor<?x?x16xf32>, !lm.batch)
    -> !lm.cache<window = 0, element = f32, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 1>
  %a = lm.attention %q, %d, %batch {heads = 2 : i64, kv_heads = 2 : i64, layer = 0 : i64, scale = 0.25}
    : (tensor<?x?x16xf32>, !lm.cache<window = 0, element = f32, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 1>, !lm.batch) -> tensor<?x?x16xf32>
  %sum = arith.addf %a, %g : tensor<?x?x16xf32>
  lm.probe "layer_output" 0, %sum : tensor<?x?x16xf32>
  %l = lm.linear %sum, %w : (tensor<?x?x16xf32>, tensor<16x16xf32>) -> tensor<?x?x16xf32>
  return %l, %d : tensor<?x?x16xf32>, !lm.cache<window = 0, element = f32, kvHeads = 2, keyHead = 8, valueHead = 8, layers = 1>
}

// -----

// A position input stays; code that is not lm's gets it as wide as it was. Views behind the rows are kept.
// CHECK-LABEL: func.func @positions
// CHECK-SAME: %[[POS:arg[0-9]+]]: tensor<?xi32> {lm.role = "position_ids"}
// CHECK: %[[WIDE:.*]] = arith.extsi %[[POS]] : tensor<?xi32> to tensor<?xi64>
// CHECK: arith.addi %[[WIDE]], %[[WIDE]] : tensor<?xi64>
// CHECK: lm.rope_table %[[POS]]
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]] output_shape [%{{.*}}, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1, 2]] : tensor<?x2x8xf32> into tensor<?x16xf32>
func.func @positions(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %pos: tensor<?x?xi64> {lm.role = "position_ids"}, %batch: !lm.batch {lm.role = "batch"})
    -> (tensor<?x?x16xf32> {lm.role = "logits"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %twice = arith.addi %pos, %pos : tensor<?x?xi64>
  %w = lm.weight "embed" : tensor<16x16xf32>
  %x = lm.embedding %w, %twice : (tensor<16x16xf32>, tensor<?x?xi64>) -> tensor<?x?x16xf32>
  %cos, %sin = lm.rope_table %pos {frequencies = array<f64: 1.0>, scale = 1.0} : (tensor<?x?xi64>) -> (tensor<?x?x1xf32>, tensor<?x?x1xf32>)
  %r = lm.rope %x, %cos, %sin {heads = 2 : i64} : (tensor<?x?x16xf32>, tensor<?x?x1xf32>, tensor<?x?x1xf32>) -> tensor<?x?x16xf32>
  %b = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x16xf32>
  %heads = tensor.expand_shape %r [[0], [1], [2, 3]] output_shape [%b, %s, 2, 8] : tensor<?x?x16xf32> into tensor<?x?x2x8xf32>
  %n = arith.negf %heads : tensor<?x?x2x8xf32>
  %flat = tensor.collapse_shape %n [[0], [1], [2, 3]] : tensor<?x?x2x8xf32> into tensor<?x?x16xf32>
  return %flat : tensor<?x?x16xf32>
}

// -----

#row = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// Elementwise code behind the choice of rows gets a result of as many rows.
// CHECK-LABEL: func.func @code_behind
// CHECK: %[[E:.*]] = lm.embedding
// CHECK: %[[CHOSEN:.*]] = lm.logit_rows %[[E]]
// CHECK: %[[R:.*]] = tensor.dim %[[CHOSEN]]
// CHECK: %[[EMPTY:.*]] = tensor.empty(%[[R]])
// CHECK: linalg.generic {{.*}} ins(%[[CHOSEN]] : tensor<?x16xf32>) outs(%[[EMPTY]] : tensor<?x16xf32>)
func.func @code_behind(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %batch: !lm.batch {lm.role = "batch"}) -> (tensor<?x?x16xf32> {lm.role = "logits"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %w = lm.weight "embed" : tensor<16x16xf32>
  %x = lm.embedding %w, %ids : (tensor<16x16xf32>, tensor<?x?xi64>) -> tensor<?x?x16xf32>
  %b = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x16xf32>
  %empty = tensor.empty(%b, %s) : tensor<?x?x16xf32>
  %g = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x?x16xf32>) outs(%empty : tensor<?x?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = math.tanh %in : f32
    linalg.yield %m : f32
  } -> tensor<?x?x16xf32>
  return %g : tensor<?x?x16xf32>
}
