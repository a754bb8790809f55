// RUN: sluice-opt %s -split-input-file -verify-diagnostics -verify-kernel

// expected-error @+1 {{has 0 kernel programs; expected one}}
module {
}

// -----

module {
  // expected-error @+1 {{is left in kernel form}}
  func.func @main() {
    return
  }
  kernel.program @step {
  }
}

// -----

!row = !kernel.buffer<tokens * 32 + 0 x f32>
module {
  kernel.func @copy grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
  ^bb0(%x: !row, %y: !row):
    kernel.repeat_heads %x, %y {heads = 1 : i64, head = 32 : i64, repeats = 1 : i64} : !row, !row
  }
  kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 256, seqs = 0, logitRows = 0>} {
    %a = kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
    %b = kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 128, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
    // expected-error @+1 {{reads buffer 0 before anything has written it}}
    kernel.launch @copy(%a, %b) : !row, !row
  }
}

// -----

!row = !kernel.buffer<tokens * 1 + 0 x i32>
!table = !kernel.buffer<fixed * 0 + 64 x f32>
!out = !kernel.buffer<tokens * 32 + 0 x f32>
module {
  kernel.func @embed grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
  ^bb0(%x: !row, %t: !table, %y: !out):
    kernel.embedding %x, %t, %y {features = 32 : i64} : !row, !table, !out
  }
  kernel.func @copy grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
  ^bb0(%x: !out, %y: !out):
    kernel.repeat_heads %x, %y {heads = 1 : i64, head = 32 : i64, repeats = 1 : i64} : !out, !out
  }
  kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 192, seqs = 0, logitRows = 0>} {
    %ids = kernel.input token_ids : <tokens * 1 + 0 x i32>
    %r = lm.weight "table" : tensor<2x32xf32>
    %w = kernel.weight %r <plain, 0> : tensor<2x32xf32> -> <fixed * 0 + 64 x f32>
    // expected-note @+1 {{the other buffer}}
    %a = kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
    // expected-error @+1 {{shares memory with a buffer that is alive as well}}
    %b = kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 64, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
    kernel.launch @embed(%ids, %w, %a) : !row, !table, !out
    kernel.launch @copy(%a, %b) : !out, !out
  }
}

// -----

!row = !kernel.buffer<tokens * 1 + 0 x i32>
!table = !kernel.buffer<fixed * 0 + 64 x f32>
!out = !kernel.buffer<tokens * 32 + 0 x f32>
module {
  kernel.func @embed grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
  ^bb0(%x: !row, %t: !table, %y: !out):
    kernel.embedding %x, %t, %y {features = 32 : i64} : !row, !table, !out
  }
  kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 64, seqs = 0, logitRows = 0>} {
    %ids = kernel.input token_ids : <tokens * 1 + 0 x i32>
    %r = lm.weight "table" : tensor<2x32xf32>
    %w = kernel.weight %r <plain, 0> : tensor<2x32xf32> -> <fixed * 0 + 64 x f32>
    // expected-error @+1 {{ends outside the program's workspace}}
    %a = kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
    kernel.launch @embed(%ids, %w, %a) : !row, !table, !out
  }
}

// -----

!row = !kernel.buffer<tokens * 1 + 0 x i32>
!table = !kernel.buffer<fixed * 0 + 64 x f32>
!out = !kernel.buffer<tokens * 32 + 0 x f32>
module {
  kernel.func @embed grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
  ^bb0(%x: !row, %t: !table, %y: !out):
    kernel.embedding %x, %t, %y {features = 32 : i64} : !row, !table, !out
  }
  kernel.program @step attributes {workspace = #kernel.offset<fixed = 32, tokens = 128, seqs = 0, logitRows = 0>} {
    %ids = kernel.input token_ids : <tokens * 1 + 0 x i32>
    %r = lm.weight "table" : tensor<2x32xf32>
    %w = kernel.weight %r <plain, 0> : tensor<2x32xf32> -> <fixed * 0 + 64 x f32>
    // expected-error @+1 {{offset is not a multiple of 64 bytes for every capacity}}
    %a = kernel.workspace {offset = #kernel.offset<fixed = 32, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
    kernel.launch @embed(%ids, %w, %a) : !row, !table, !out
  }
}

// -----

module {
  kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} {
    // expected-error @+1 {{is written by no launch}}
    %a = kernel.output "logits" : <logit_rows * 32 + 0 x f32>
  }
}
