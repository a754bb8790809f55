// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s -mlir-print-op-generic | sluice-opt | FileCheck %s

// Every operation and attribute of the dialect survives a round trip, also in generic form.
!ids = !kernel.buffer<tokens * 1 + 0 x i32>
!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!half = !kernel.buffer<tokens * 32 + 0 x f32>
!vector = !kernel.buffer<fixed * 0 + 64 x f32>
!panel = !kernel.buffer<fixed * 0 + 4096 x bf16>
!table = !kernel.buffer<fixed * 0 + 2048 x f16>
!angles = !kernel.buffer<tokens * 8 + 0 x f32>
!pool = !kernel.buffer<blocks * 1024 + 0 x f16>
!blocks = !kernel.buffer<table * 1 + 0 x i32>
!scores = !kernel.buffer<tokens * 4 + 0 x f32>
!choice = !kernel.buffer<tokens * 2 + 0 x f32>
!chosen = !kernel.buffer<tokens * 2 + 0 x i32>
!starts = !kernel.buffer<fixed * 0 + 5 x i32>
!four = !kernel.buffer<fixed * 0 + 4 x f32>
!expert = !kernel.buffer<fixed * 0 + 16384 x bf16>
!bias = !kernel.buffer<fixed * 0 + 256 x f32>
!y = !kernel.buffer<tokens * 128 + 0 x f32>
!cache = !lm.cache<window = 16, element = f16, kvHeads = 2, keyHead = 16, valueHead = 16, layers = 1>
#row = #kernel.grid_dim<tokens * 1 + 0 tile 1>
#one = #kernel.grid_dim<fixed * 0 + 1 tile 1>

// CHECK-LABEL: kernel.func @embedding grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>]
// CHECK: kernel.embedding %{{.*}} {features = 64 : i64} : !kernel.buffer<tokens * 1 + 0 x i32>, !kernel.buffer<fixed * 0 + 2048 x f16>, !kernel.buffer<tokens * 64 + 0 x f32>
kernel.func @embedding grid [#row] {
^bb0(%i: !ids, %t: !table, %o: !rows):
  kernel.embedding %i, %t, %o {features = 64 : i64} : !ids, !table, !rows
}
// CHECK-LABEL: kernel.func @rms_norm
// CHECK: kernel.rms_norm %[[X:.*]], %[[W:.*]], %[[O:.*]] residual %[[R:.*]] sum %[[S:.*]] {epsilon = 1.000000e-05 : f64, features = 64 : i64, groups = 1 : i64}
kernel.func @rms_norm grid [#row] {
^bb0(%x: !rows, %w: !vector, %r: !rows, %o: !rows, %s: !rows):
  kernel.rms_norm %x, %w, %o residual %r sum %s {features = 64 : i64, groups = 1 : i64, epsilon = 1.0e-5} : !rows, !vector, !rows, !rows, !rows
}
// CHECK-LABEL: kernel.func @layer_norm
// CHECK: kernel.layer_norm %{{.*}} bias %{{.*}}
kernel.func @layer_norm grid [#row] {
^bb0(%x: !rows, %w: !vector, %b: !vector, %o: !rows):
  kernel.layer_norm %x, %w, %o bias %b {features = 64 : i64, epsilon = 1.0e-5} : !rows, !vector, !vector, !rows
}
// CHECK-LABEL: kernel.func @rope_table
// CHECK: kernel.rope_table {{.*}} {frequencies = array<f64: 1.000000e+00, 0.333
kernel.func @rope_table grid [#row] {
^bb0(%p: !ids, %c: !half, %s: !half):
  kernel.rope_table %p, %c, %s {frequencies = array<f64: 1.0, 0.3333333333333333, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1>, scale = 1.0} : !ids, !half, !half
}
// CHECK-LABEL: kernel.func @rope grid
// CHECK: kernel.rope {{.*}} {head = 16 : i64, heads = 4 : i64, interleaved, pairs = 8 : i64}
kernel.func @rope grid [#row] {
^bb0(%x: !rows, %c: !angles, %s: !angles, %o: !rows):
  kernel.rope %x, %c, %s, %o {heads = 4 : i64, head = 16 : i64, pairs = 8 : i64, interleaved} : !rows, !angles, !angles, !rows
}
// CHECK-LABEL: kernel.func @repeat_heads
// CHECK: kernel.repeat_heads
kernel.func @repeat_heads grid [#row] {
^bb0(%x: !half, %o: !rows):
  kernel.repeat_heads %x, %o {heads = 2 : i64, head = 16 : i64, repeats = 2 : i64} : !half, !rows
}
// CHECK-LABEL: kernel.func @matmul grid
// CHECK: kernel.matmul %{{.*}} bias %{{.*}} residual %{{.*}} layout = #kernel.layout<panel, 64>, n = 64
kernel.func @matmul grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>, #one] {
^bb0(%x: !rows, %w: !panel, %b: !vector, %r: !rows, %o: !rows):
  kernel.matmul %x, %w, %o bias %b residual %r {n = 64 : i64, k = 64 : i64, layout = #kernel.layout<panel, 64>} : !rows, !panel, !vector, !rows, !rows
}
// CHECK-LABEL: kernel.func @gated_matmul
// CHECK: kernel.matmul {{.*}} {gated = #lm.gated<kind = gelu_tanh, {{.*}} layout = #kernel.layout<gated_panel, 64>, n = 32
kernel.func @gated_matmul grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>, #one] {
^bb0(%x: !rows, %w: !panel, %o: !half):
  kernel.matmul %x, %w, %o {n = 32 : i64, k = 64 : i64, layout = #kernel.layout<gated_panel, 64>, gated = #lm.gated<kind = gelu_tanh, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 7.0 : f64>} : !rows, !panel, !half
}
// CHECK-LABEL: kernel.func @route
// CHECK: kernel.route %{{.*}} correction %{{.*}} {experts = 4 : i64, normalize, scale = 2.500000e+00 : f64, score = #lm<score sigmoid>, top_k = 2 : i64}
kernel.func @route grid [#row] {
^bb0(%l: !scores, %c: !four, %w: !choice, %i: !chosen):
  kernel.route %l, %w, %i correction %c {experts = 4 : i64, top_k = 2 : i64, score = #lm<score sigmoid>, normalize, scale = 2.5} : !scores, !four, !choice, !chosen
}
// CHECK-LABEL: kernel.func @expert_plan grid [#kernel.grid_dim<fixed * 0 + 1 tile 1>]
// CHECK: kernel.expert_plan
kernel.func @expert_plan grid [#one] {
^bb0(%i: !chosen, %o: !chosen, %s: !starts):
  kernel.expert_plan %i, %o, %s {experts = 4 : i64, top_k = 2 : i64} : !chosen, !chosen, !starts
}
// CHECK-LABEL: kernel.func @grouped_matmul grid [#kernel.grid_dim<tokens * 2 + 128 tile 32>, #kernel.grid_dim<fixed * 0 + 1 tile 1>]
// CHECK: kernel.grouped_matmul %{{.*}} bias %{{.*}} per_choice
kernel.func @grouped_matmul grid [#kernel.grid_dim<tokens * 2 + 128 tile 32>, #one] {
^bb0(%x: !y, %w: !expert, %b: !bias, %r: !chosen, %s: !starts, %o: !y):
  kernel.grouped_matmul %x, %w, %r, %s, %o bias %b {experts = 4 : i64, top_k = 2 : i64, n = 64 : i64, k = 64 : i64, layout = #kernel.layout<panel, 64>, per_choice} : !y, !expert, !bias, !chosen, !starts, !y
}
// CHECK-LABEL: kernel.func @combine
// CHECK: kernel.combine %{{.*}} residual %{{.*}}
kernel.func @combine grid [#row] {
^bb0(%y: !y, %w: !choice, %r: !rows, %o: !rows):
  kernel.combine %y, %w, %o residual %r {top_k = 2 : i64, features = 64 : i64} : !y, !choice, !rows, !rows
}
// CHECK-LABEL: kernel.func @gated_activation
// CHECK: kernel.gated_activation
kernel.func @gated_activation grid [#row] {
^bb0(%g: !rows, %u: !rows, %o: !rows):
  kernel.gated_activation %g, %u, %o {features = 64 : i64, activation = #lm.gated<kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64>} : !rows, !rows, !rows
}
// CHECK-LABEL: kernel.func @row_index grid [#kernel.grid_dim<seqs * 1 + 0 tile 1>]
// CHECK: kernel.row_index
kernel.func @row_index grid [#kernel.grid_dim<seqs * 1 + 0 tile 1>] {
^bb0(%s: !kernel.buffer<seqs * 1 + 1 x i32>, %l: !kernel.buffer<seqs * 1 + 0 x i32>, %q: !ids, %i: !ids):
  kernel.row_index %s, %l, %q, %i : !kernel.buffer<seqs * 1 + 1 x i32>, !kernel.buffer<seqs * 1 + 0 x i32>, !ids, !ids
}
// CHECK-LABEL: kernel.func @cache_append
// CHECK: kernel.cache_append {{.*}} {block_tokens = 16 : i64, layer = 0 : i64, layout = !lm.cache<window = 16
kernel.func @cache_append grid [#row] {
^bb0(%k: !half, %v: !half, %q: !ids, %i: !ids, %t: !blocks, %c: !pool):
  kernel.cache_append %k, %v, %q, %i, %t, %c {layout = !cache, block_tokens = 16 : i64, layer = 0 : i64} : !half, !half, !ids, !ids, !blocks, !pool
}
// CHECK-LABEL: kernel.func @attention
// CHECK: kernel.attention %{{.*}} sinks %{{.*}}
kernel.func @attention grid [#row, #kernel.grid_dim<fixed * 0 + 2 tile 1>] {
^bb0(%x: !rows, %q: !ids, %i: !ids, %t: !blocks, %c: !pool, %s: !four, %o: !rows):
  kernel.attention %x, %q, %i, %t, %c, %o sinks %s {layout = !cache, block_tokens = 16 : i64, layer = 0 : i64, heads = 4 : i64, scale = 0.25, window = 16 : i64, mask_window = 16 : i64, soft_cap = 0.0, span = 64 : i64, chunk = 1024 : i64} : !rows, !ids, !ids, !blocks, !pool, !four, !rows
}
// CHECK-LABEL: kernel.func @logit_rows grid [#kernel.grid_dim<logit_rows * 1 + 0 tile 1>]
// CHECK: kernel.logit_rows
kernel.func @logit_rows grid [#kernel.grid_dim<logit_rows * 1 + 0 tile 1>] {
^bb0(%x: !rows, %r: !kernel.buffer<logit_rows * 1 + 0 x i32>, %o: !kernel.buffer<logit_rows * 64 + 0 x f32>):
  kernel.logit_rows %x, %r, %o {features = 64 : i64} : !rows, !kernel.buffer<logit_rows * 1 + 0 x i32>, !kernel.buffer<logit_rows * 64 + 0 x f32>
}
// CHECK-LABEL: kernel.func @elementwise
// CHECK: kernel.elementwise(%{{.*}}, %{{.*}}) -> %{{.*}} {features = 64 : i64}
// CHECK: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK: kernel.yield %{{.*}} : f32
kernel.func @elementwise grid [#row] {
^bb0(%x: !rows, %w: !vector, %o: !rows):
  kernel.elementwise(%x, %w) -> %o {features = 64 : i64} : !rows, !vector -> <tokens * 64 + 0 x f32> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    kernel.yield %s : f32
  }
}
// CHECK-LABEL: kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 256, seqs = 0, logitRows = 0>}
// CHECK: kernel.input {{ *}}token_ids : <tokens * 1 + 0 x i32>
// CHECK: kernel.input {{ *}}block_table {group = 1 : i64} : <table * 1 + 0 x i32>
// CHECK: kernel.cache 1, !lm.cache<window = 16{{.*}} {block_tokens = 16 : i64} : <blocks * 1024 + 0 x f16>
// CHECK: kernel.weight %{{.*}} <plain, 0> : tensor<32x64xf16> -> <fixed * 0 + 2048 x f16>
// CHECK: kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 64 + 0 x f32>
// CHECK: kernel.output "hidden" : <logit_rows * 64 + 0 x f32>
// CHECK: kernel.launch @embedding(%{{.*}}, %{{.*}}, %{{.*}}) few @embedding {few_rows = 4 : i64} :
// CHECK: kernel.probe "layer_output" 0, %{{.*}} : <tokens * 64 + 0 x f32>
kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 256, seqs = 0, logitRows = 0>} {
  %ids = kernel.input token_ids : <tokens * 1 + 0 x i32>
  %table = kernel.input block_table {group = 1 : i64} : <table * 1 + 0 x i32>
  %pool = kernel.cache 1, !cache {block_tokens = 16 : i64} : <blocks * 1024 + 0 x f16>
  %r = lm.weight "embed" : tensor<32x64xf16>
  %w = kernel.weight %r <plain, 0> : tensor<32x64xf16> -> <fixed * 0 + 2048 x f16>
  %x = kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 64 + 0 x f32>
  %o = kernel.output "hidden" : <logit_rows * 64 + 0 x f32>
  kernel.launch @embedding(%ids, %w, %x) few @embedding {few_rows = 4 : i64} : !ids, !table, !rows
  kernel.probe "layer_output" 0, %x : <tokens * 64 + 0 x f32>
}
