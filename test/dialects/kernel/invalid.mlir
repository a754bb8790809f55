// RUN: sluice-opt %s -split-input-file -verify-diagnostics

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!short = !kernel.buffer<tokens * 32 + 0 x f32>
!vector = !kernel.buffer<fixed * 0 + 64 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: !rows, %w: !vector, %o: !short):
  // expected-error @+1 {{out is '!kernel.buffer<tokens * 32 + 0 x f32>', expected '!kernel.buffer<tokens * 64 + 0 x f32>'}}
  kernel.rms_norm %x, %w, %o {features = 64 : i64, groups = 1 : i64, epsilon = 1.0e-5} : !rows, !vector, !short
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!vector = !kernel.buffer<fixed * 0 + 64 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: !rows, %w: !vector, %o: !rows):
  // expected-error @+1 {{groups do not divide the features}}
  kernel.rms_norm %x, %w, %o {features = 64 : i64, groups = 7 : i64, epsilon = 1.0e-5} : !rows, !vector, !rows
}

// -----

// Rows of two units in one kernel.
!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!last = !kernel.buffer<logit_rows * 64 + 0 x f32>
!panel = !kernel.buffer<fixed * 0 + 4096 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>] {
^bb0(%x: !rows, %w: !panel, %o: !last):
  // expected-error @+1 {{out is '!kernel.buffer<logit_rows * 64 + 0 x f32>', expected '!kernel.buffer<tokens * 64 + 0 x f32>'}}
  kernel.matmul %x, %w, %o {n = 64 : i64, k = 64 : i64, layout = #kernel.layout<panel, 64>} : !rows, !panel, !last
}

// -----

// 70 columns are two panels.
!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!out = !kernel.buffer<tokens * 70 + 0 x f32>
!panel = !kernel.buffer<fixed * 0 + 4480 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>] {
^bb0(%x: !rows, %w: !panel, %o: !out):
  // expected-error @+1 {{weight is '!kernel.buffer<fixed * 0 + 4480 x f32>', expected 8192 elements of a float type}}
  kernel.matmul %x, %w, %o {n = 70 : i64, k = 64 : i64, layout = #kernel.layout<panel, 64>} : !rows, !panel, !out
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!panel = !kernel.buffer<fixed * 0 + 4096 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>] {
^bb0(%x: !rows, %w: !panel, %o: !rows):
  // expected-error @+1 {{weight is '!kernel.buffer<fixed * 0 + 4096 x f32>', expected an addressable number of elements}}
  kernel.matmul %x, %w, %o {n = 9223372036854775807 : i64, k = 64 : i64, layout = #kernel.layout<panel, 64>} : !rows, !panel, !rows
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!panel = !kernel.buffer<fixed * 0 + 4096 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>] {
^bb0(%x: !rows, %w: !panel, %o: !rows):
  // expected-error @+1 {{needs a panel layout}}
  kernel.matmul %x, %w, %o {n = 64 : i64, k = 64 : i64, layout = #kernel.layout<plain, 0>} : !rows, !panel, !rows
}

// -----

!ids = !kernel.buffer<tokens * 1 + 0 x i32>
!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!table = !kernel.buffer<fixed * 0 + 100 x f16>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%i: !ids, %t: !table, %o: !rows):
  // expected-error @+1 {{table is no [vocabulary, features] weight}}
  kernel.embedding %i, %t, %o {features = 64 : i64} : !ids, !table, !rows
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!angles = !kernel.buffer<tokens * 9 + 0 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: !rows, %c: !angles, %s: !angles, %o: !rows):
  // expected-error @+1 {{rotates more than a head has}}
  kernel.rope %x, %c, %s, %o {heads = 4 : i64, head = 16 : i64, pairs = 9 : i64} : !rows, !angles, !angles, !rows
}

// -----

!scores = !kernel.buffer<tokens * 4 + 0 x f32>
!choice = !kernel.buffer<tokens * 5 + 0 x f32>
!chosen = !kernel.buffer<tokens * 5 + 0 x i32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%l: !scores, %w: !choice, %i: !chosen):
  // expected-error @+1 {{needs 1 <= top_k <= experts}}
  kernel.route %l, %w, %i {experts = 4 : i64, top_k = 5 : i64, score = #lm<score softmax_all>, scale = 1.0} : !scores, !choice, !chosen
}

// -----

!half = !kernel.buffer<tokens * 32 + 0 x f32>
!ids = !kernel.buffer<tokens * 1 + 0 x i32>
!blocks = !kernel.buffer<table * 1 + 0 x i32>
!pool = !kernel.buffer<blocks * 512 + 0 x f16>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%k: !half, %v: !half, %q: !ids, %i: !ids, %t: !blocks, %c: !pool):
  // expected-error @+1 {{cache is '!kernel.buffer<blocks * 512 + 0 x f16>', expected '!kernel.buffer<blocks * 1024 + 0 x f16>'}}
  kernel.cache_append %k, %v, %q, %i, %t, %c {layout = !lm.cache<window = 0, element = f16, kvHeads = 2, keyHead = 16, valueHead = 16, layers = 1>, block_tokens = 16 : i64, layer = 0 : i64} : !half, !half, !ids, !ids, !blocks, !pool
}

// -----

!half = !kernel.buffer<tokens * 32 + 0 x f32>
!ids = !kernel.buffer<tokens * 1 + 0 x i32>
!blocks = !kernel.buffer<table * 1 + 0 x i32>
!pool = !kernel.buffer<blocks * 1024 + 0 x f16>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%k: !half, %v: !half, %q: !ids, %i: !ids, %t: !blocks, %c: !pool):
  // expected-error @+1 {{layer is not in the cache}}
  kernel.cache_append %k, %v, %q, %i, %t, %c {layout = !lm.cache<window = 0, element = f16, kvHeads = 2, keyHead = 16, valueHead = 16, layers = 1>, block_tokens = 16 : i64, layer = 1 : i64} : !half, !half, !ids, !ids, !blocks, !pool
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!ids = !kernel.buffer<tokens * 1 + 0 x i32>
!blocks = !kernel.buffer<table * 1 + 0 x i32>
!pool = !kernel.buffer<blocks * 1024 + 0 x f16>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: !rows, %q: !ids, %i: !ids, %t: !blocks, %c: !pool, %o: !rows):
  // expected-error @+1 {{chunk is not a multiple of span}}
  kernel.attention %x, %q, %i, %t, %c, %o {layout = !lm.cache<window = 0, element = f16, kvHeads = 2, keyHead = 16, valueHead = 16, layers = 1>, block_tokens = 16 : i64, layer = 0 : i64, heads = 4 : i64, scale = 0.25, window = 0 : i64, mask_window = 0 : i64, soft_cap = 0.0, span = 64 : i64, chunk = 100 : i64} : !rows, !ids, !ids, !blocks, !pool, !rows
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!odd = !kernel.buffer<fixed * 0 + 7 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: !odd, %o: !rows):
  // expected-error @+1 {{is neither [rows, 64] nor one row nor one scalar}}
  kernel.elementwise(%x) -> %o {features = 64 : i64} : !odd -> <tokens * 64 + 0 x f32> {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: !rows, %o: !rows):
  // expected-error @+1 {{yields 'i1' into}}
  kernel.elementwise(%x) -> %o {features = 64 : i64} : !rows -> <tokens * 64 + 0 x f32> {
  ^bb0(%a: f32):
    %b = arith.cmpf olt, %a, %a : f32
    kernel.yield %b : i1
  }
}

// -----

// expected-error @+1 {{takes 'f32', expected buffers}}
kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: f32):
  %y = arith.negf %x : f32
}

// -----

kernel.program @step {
  %r = lm.weight "w" : tensor<70x64xf32>
  // expected-error @+1 {{expected 8192 elements in panels, the buffer has 4480}}
  %w = kernel.weight %r <panel, 64> : tensor<70x64xf32> -> <fixed * 0 + 4480 x f32>
}

// -----

kernel.program @step {
  %r = lm.weight "w" : tensor<70x64xf32>
  // expected-error @+1 {{gives '!kernel.buffer<fixed * 0 + 4480 x f16>' for a recipe of 'tensor<70x64xf32>'}}
  %w = kernel.weight %r <plain, 0> : tensor<70x64xf32> -> <fixed * 0 + 4480 x f16>
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
kernel.program @step {
  %x = kernel.workspace : <tokens * 64 + 0 x f32>
  // expected-error @+1 {{@absent is no kernel of this module}}
  kernel.launch @absent(%x) : !rows
}

// -----

!rows = !kernel.buffer<tokens * 64 + 0 x f32>
!half = !kernel.buffer<tokens * 32 + 0 x f32>
kernel.func @copy grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
^bb0(%x: !rows, %o: !rows):
  kernel.repeat_heads %x, %o {heads = 1 : i64, head = 64 : i64, repeats = 1 : i64} : !rows, !rows
}
kernel.program @step {
  %x = kernel.workspace : <tokens * 32 + 0 x f32>
  // expected-error @+1 {{buffers do not have the types that @copy takes}}
  kernel.launch @copy(%x, %x) : !half, !half
}
