// RUN: sluice-opt %s -split-input-file -lower-to-kernel="kv-block-tokens=16" | FileCheck %s

// One dense layer: norm, linear with bias and residual, gated linear, logit rows, tied head.
// CHECK-LABEL: module @dense
// Equal norms share a kernel, so do the linears of one shape; logit rows are another unit.
// CHECK: kernel.func @embedding_0 grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>]
// CHECK: kernel.func @rms_norm_0
// CHECK: kernel.func @matmul_0 grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>, #kernel.grid_dim<fixed * 0 + 1 tile 1>]
// CHECK: kernel.matmul {{.*}} bias {{.*}} residual {{.*}} {k = 64 : i64, layout = #kernel.layout<panel, 64>, n = 64 : i64}
// CHECK: kernel.func @gated_matmul_0 grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>, #kernel.grid_dim<fixed * 0 + 3 tile 1>]
// CHECK: gated = #lm.gated<kind = silu{{.*}} layout = #kernel.layout<gated_panel, 64>, n = 96
// CHECK: kernel.func @rms_norm_1 grid [#kernel.grid_dim<logit_rows * 1 + 0 tile 1>]
// CHECK-NOT: kernel.func @rms_norm_2
// CHECK: kernel.program @step
// CHECK: %[[IDS:.+]] = kernel.input {{ *}}token_ids : <tokens * 1 + 0 x i32>
// The table lies plain for the embedding and in panels for the head; vectors become f32.
// CHECK: %[[TABLE:.+]] = lm.weight "embed" : tensor<320x64xbf16>
// CHECK: %[[PLAIN:.+]] = kernel.weight %[[TABLE]] <plain, 0> {{.*}} -> <fixed * 0 + 20480 x bf16>
// CHECK: %[[NORM:.+]] = lm.weight "norm" : tensor<64xbf16>
// CHECK: %[[NORM32:.+]] = lm.weight_convert %[[NORM]]
// CHECK: %[[NORMW:.+]] = kernel.weight %[[NORM32]] <plain, 0> {{.*}} -> <fixed * 0 + 64 x f32>
// CHECK: kernel.weight %{{.+}} <gated_panel, 64> : tensor<192x64xbf16> -> <fixed * 0 + 12288 x bf16>
// CHECK: kernel.weight %[[TABLE]] <panel, 64> {{.*}} -> <fixed * 0 + 20480 x bf16>
// CHECK: %[[LOGITS:.+]] = kernel.output "logits" : <logit_rows * 320 + 0 x f32>
// CHECK: kernel.launch @embedding_0(%[[IDS]], %[[PLAIN]], %[[H:.+]]) :
// CHECK: kernel.launch @rms_norm_0(%[[H]], %[[NORMW]], %[[N:.+]]) :
// CHECK: kernel.launch @matmul_0(%[[N]], %{{.+}}, %{{.+}}, %[[H]], %[[O:.+]]) :
// CHECK: kernel.launch @rms_norm_0(%[[O]], %[[NORMW]], %{{.+}}) :
// CHECK: kernel.launch @gated_matmul_0
// CHECK: kernel.launch @logit_rows_0(
// CHECK: kernel.launch @rms_norm_1(
// CHECK: kernel.launch @matmul_{{[0-9]}}(%{{.+}}, %{{.+}}, %[[LOGITS]]) :
module @dense {
  func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %positions: tensor<?xi32> {lm.role = "position_ids"},
                  %batch: !lm.batch) -> (tensor<?x320xf32> {lm.role = "logits"}) {
    %embed = lm.weight "embed" : tensor<320x64xbf16>
    %norm = lm.weight "norm" : tensor<64xbf16>
    %w = lm.weight "w" : tensor<64x64xbf16>
    %b = lm.weight "b" : tensor<64xbf16>
    %gu = lm.weight "gu" : tensor<192x64xbf16>
    %dn = lm.weight "dn" : tensor<64x96xbf16>
    %h = lm.embedding %embed, %ids : (tensor<320x64xbf16>, tensor<?xi32>) -> tensor<?x64xf32>
    %n = lm.rms_norm %h, %norm {epsilon = 1.0e-5} : (tensor<?x64xf32>, tensor<64xbf16>) -> tensor<?x64xf32>
    %o = lm.linear %n, %w bias(%b) residual(%h) : (tensor<?x64xf32>, tensor<64x64xbf16>, tensor<64xbf16>, tensor<?x64xf32>) -> tensor<?x64xf32>
    %m = lm.rms_norm %o, %norm {epsilon = 1.0e-5} : (tensor<?x64xf32>, tensor<64xbf16>) -> tensor<?x64xf32>
    %g = lm.gated_linear %m, %gu <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64> : (tensor<?x64xf32>, tensor<192x64xbf16>) -> tensor<?x96xf32>
    %d = lm.linear %g, %dn residual(%o) : (tensor<?x96xf32>, tensor<64x96xbf16>, tensor<?x64xf32>) -> tensor<?x64xf32>
    %r = lm.logit_rows %d, %batch : (tensor<?x64xf32>, !lm.batch) -> tensor<?x64xf32>
    %f = lm.rms_norm %r, %norm {epsilon = 1.0e-5} : (tensor<?x64xf32>, tensor<64xbf16>) -> tensor<?x64xf32>
    %logits = lm.linear %f, %embed : (tensor<?x64xf32>, tensor<320x64xbf16>) -> tensor<?x320xf32>
    return %logits : tensor<?x320xf32>
  }
}

// -----

// Two cache groups: each its pool, its block table and its own kernels; one row_index for all.
// CHECK-LABEL: module @attention
// CHECK: kernel.func @row_index_0 grid [#kernel.grid_dim<seqs * 1 + 0 tile 1>]
// CHECK: kernel.cache_append {{.*}} {block_tokens = 16 : i64, layer = 0 : i64, layout = !lm.cache<window = 16
// CHECK: kernel.func @attention_0 grid [#kernel.grid_dim<tokens * 1 + 0 tile 8>, #kernel.grid_dim<fixed * 0 + 2 tile 1>]
// CHECK: kernel.attention {{.*}} sinks {{.*}} chunk = 1024 : i64, {{.*}} span = 64 : i64, window = 16
// CHECK: kernel.attention {{.*}} layer = 1 : i64, layout = !lm.cache<window = 0
// CHECK: kernel.program @step
// 16 tokens * 1 layer * 2 heads * (16 + 16), then the same for two layers.
// CHECK: %[[POOL0:.+]] = kernel.cache 0, {{.*}} {block_tokens = 16 : i64} : <blocks * 1024 + 0 x f16>
// CHECK: %[[TABLE0:.+]] = kernel.input {{ *}}block_table : <table * 1 + 0 x i32>
// CHECK: %[[POOL1:.+]] = kernel.cache 1, {{.*}} : <blocks * 2048 + 0 x f16>
// CHECK: %[[TABLE1:.+]] = kernel.input {{ *}}block_table {group = 1 : i64} : <table * 1 + 0 x i32>
// CHECK: kernel.launch @row_index_0(%{{.+}}, %{{.+}}, %[[SEQ:.+]], %[[INDEX:.+]]) :
// CHECK: kernel.launch @cache_append_0(%{{.+}}, %{{.+}}, %[[SEQ]], %[[INDEX]], %[[TABLE0]], %[[POOL0]]) :
// CHECK: kernel.launch @attention_0(%{{.+}}, %[[SEQ]], %[[INDEX]], %[[TABLE0]], %[[POOL0]], %{{.+}}, %{{.+}}) :
// CHECK-NOT: row_index
// CHECK: kernel.launch @cache_append_1(%{{.+}}, %{{.+}}, %[[SEQ]], %[[INDEX]], %[[TABLE1]], %[[POOL1]]) :
// CHECK: kernel.launch @attention_1(
!c0 = !lm.cache<window = 16, element = f16, kvHeads = 2, keyHead = 16, valueHead = 16, layers = 1>
!c1 = !lm.cache<window = 0, element = f16, kvHeads = 2, keyHead = 16, valueHead = 16, layers = 2>
module @attention {
  func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %batch: !lm.batch, %c0: !c0, %c1: !c1)
      -> (tensor<?x64xf32> {lm.role = "logits"}, !c0, !c1) {
    %embed = lm.weight "embed" : tensor<320x64xf32>
    %k = lm.weight "k" : tensor<32x64xf32>
    %sinks = lm.weight "sinks" : tensor<4xf32>
    %h = lm.embedding %embed, %ids : (tensor<320x64xf32>, tensor<?xi32>) -> tensor<?x64xf32>
    %kv = lm.linear %h, %k : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
    %d0 = lm.cache_append %c0, %kv, %kv, %batch {layer = 0 : i64} : (!c0, tensor<?x32xf32>, tensor<?x32xf32>, !lm.batch) -> !c0
    %a = lm.attention %h, %d0, %batch sinks(%sinks) {heads = 4 : i64, kv_heads = 2 : i64, layer = 0 : i64, scale = 0.25, window = 16 : i64} : (tensor<?x64xf32>, !c0, !lm.batch, tensor<4xf32>) -> tensor<?x64xf32>
    %d1 = lm.cache_append %c1, %kv, %kv, %batch {layer = 1 : i64} : (!c1, tensor<?x32xf32>, tensor<?x32xf32>, !lm.batch) -> !c1
    %o = lm.attention %a, %d1, %batch {heads = 4 : i64, kv_heads = 2 : i64, layer = 1 : i64, scale = 0.25} : (tensor<?x64xf32>, !c1, !lm.batch) -> tensor<?x64xf32>
    %r = lm.logit_rows %o, %batch : (tensor<?x64xf32>, !lm.batch) -> tensor<?x64xf32>
    return %r, %d0, %d1 : tensor<?x64xf32>, !c0, !c1
  }
}

// -----

// Experts: one plan for equal ids, gate and up in one grouped matmul, the residual in combine. The probe stands in order.
// CHECK-LABEL: module @experts
// CHECK: kernel.func @expert_plan_0 grid [#kernel.grid_dim<fixed * 0 + 1 tile 1>]
// CHECK: kernel.func @gated_grouped_matmul_0 grid [#kernel.grid_dim<tokens * 2 + 128 tile 32>, #kernel.grid_dim<fixed * 0 + 3 tile 1>]
// CHECK: kernel.grouped_matmul {{.*}} {experts = 4 : i64, gated = {{.*}} k = 64 : i64, layout = #kernel.layout<gated_panel, 64>, n = 96 : i64, top_k = 2
// CHECK: kernel.grouped_matmul {{.*}} {experts = 4 : i64, k = 96 : i64, layout = #kernel.layout<panel, 64>, n = 64 : i64, per_choice, top_k = 2
// CHECK: kernel.func @combine_0
// CHECK: kernel.combine {{.*}} residual
// CHECK: kernel.program @step
// CHECK-COUNT-1: kernel.launch @expert_plan_0(
// CHECK-NOT: kernel.launch @expert_plan
// CHECK: kernel.probe "router_ids" 3, %{{.+}} : <tokens * 2 + 0 x i32>
// CHECK-NOT: kernel.launch @elementwise
module @experts {
  func.func @main(%ids: tensor<?xi32> {lm.role = "token_ids"}, %batch: !lm.batch) -> tensor<?x64xf32> {
    %embed = lm.weight "embed" : tensor<320x64xf32>
    %router = lm.weight "router" : tensor<4x64xf32>
    %gu = lm.weight "gate_up" : tensor<4x192x64xf16>
    %dn = lm.weight "down" : tensor<4x64x96xf16>
    %up = lm.weight "up" : tensor<4x96x64xf16>
    %h = lm.embedding %embed, %ids : (tensor<320x64xf32>, tensor<?xi32>) -> tensor<?x64xf32>
    %l = lm.linear %h, %router : (tensor<?x64xf32>, tensor<4x64xf32>) -> tensor<?x4xf32>
    %w, %i = lm.route %l {top_k = 2 : i64, score = #lm<score softmax_all>, normalize} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>)
    %e = lm.experts %h, %w, %i, %gu, %dn <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64> : (tensor<?x64xf32>, tensor<?x2xf32>, tensor<?x2xi32>, tensor<4x192x64xf16>, tensor<4x64x96xf16>) -> tensor<?x64xf32>
    %s = arith.addf %h, %e : tensor<?x64xf32>
    lm.probe "router_ids" 3, %i : tensor<?x2xi32>
    // Not fused: the same kernels, the same plan.
    %g = lm.grouped_linear %s, %i, %up : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<4x96x64xf16>) -> tensor<?x2x96xf32>
    %a = lm.gated_activation %g, %g <kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64> : (tensor<?x2x96xf32>, tensor<?x2x96xf32>) -> tensor<?x2x96xf32>
    %y = lm.grouped_linear %a, %i, %dn : (tensor<?x2x96xf32>, tensor<?x2xi32>, tensor<4x64x96xf16>) -> tensor<?x2x64xf32>
    %c = lm.combine %y, %w : (tensor<?x2x64xf32>, tensor<?x2xf32>) -> tensor<?x64xf32>
    %r = lm.logit_rows %c, %batch : (tensor<?x64xf32>, !lm.batch) -> tensor<?x64xf32>
    return %r : tensor<?x64xf32>
  }
}

// -----

// All rows where the graph selects none: the output takes the wanted ones.
// CHECK-LABEL: module @all_rows
// CHECK: kernel.func @logit_rows_0
// CHECK: %[[OUT:.+]] = kernel.output "logits" : <logit_rows * 64 + 0 x f32>
// CHECK: kernel.launch @logit_rows_0(%{{.+}}, %{{.+}}, %[[OUT]]) :
module @all_rows {
  func.func @main(%ids: tensor<?xi64> {lm.role = "token_ids"}) -> tensor<?x64xf32> {
    %embed = lm.weight "embed" : tensor<320x64xf32>
    %h = lm.embedding %embed, %ids : (tensor<320x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
    return %h : tensor<?x64xf32>
  }
}
