// RUN: sluice-opt %s -split-input-file -plan-memory | FileCheck %s

// a: launches 0-1, b: 1-2, c: 2-3. a and c share bytes, b lies beside them; 4 bytes a row take 64.
// CHECK-LABEL: module @reuse
// CHECK: kernel.program @step attributes {workspace = #kernel.offset<fixed = 64, tokens = 256, seqs = 0, logitRows = 64>}
// CHECK: kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
// CHECK: kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 128, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
// CHECK: kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 32 + 0 x f32>
// CHECK: kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 256, seqs = 0, logitRows = 0>} : <logit_rows * 1 + 0 x f32>
// CHECK: kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} : <fixed * 0 + 5 x i32>
// Nobody uses the last.
// CHECK-NOT: kernel.workspace
!row = !kernel.buffer<tokens * 32 + 0 x f32>
!out = !kernel.buffer<logit_rows * 1 + 0 x f32>
!list = !kernel.buffer<fixed * 0 + 5 x i32>
module @reuse {
  kernel.func @copy grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
  ^bb0(%x: !row, %y: !row):
    kernel.repeat_heads %x, %y {heads = 1 : i64, head = 32 : i64, repeats = 1 : i64} : !row, !row
  }
  kernel.program @step {
    %a = kernel.workspace : <tokens * 32 + 0 x f32>
    %b = kernel.workspace : <tokens * 32 + 0 x f32>
    %c = kernel.workspace : <tokens * 32 + 0 x f32>
    %o = kernel.workspace : <logit_rows * 1 + 0 x f32>
    %l = kernel.workspace : <fixed * 0 + 5 x i32>
    %unused = kernel.workspace : <tokens * 4096 + 0 x f32>
    kernel.launch @copy(%a, %a) : !row, !row
    kernel.launch @copy(%a, %b) : !row, !row
    kernel.launch @copy(%b, %c) : !row, !row
    kernel.probe "layer_output" 0, %c : <tokens * 32 + 0 x f32>
    kernel.probe "layer_output" 0, %o : <logit_rows * 1 + 0 x f32>
    kernel.probe "layer_output" 0, %l : <fixed * 0 + 5 x i32>
  }
}

// -----

// A probe keeps its buffer alive: nothing may take its place before the copy.
// CHECK-LABEL: module @probe
// CHECK: kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 384, seqs = 0, logitRows = 0>}
!row = !kernel.buffer<tokens * 32 + 0 x f32>
module @probe {
  kernel.func @copy grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {
  ^bb0(%x: !row, %y: !row):
    kernel.repeat_heads %x, %y {heads = 1 : i64, head = 32 : i64, repeats = 1 : i64} : !row, !row
  }
  kernel.program @step {
    %a = kernel.workspace : <tokens * 32 + 0 x f32>
    %b = kernel.workspace : <tokens * 32 + 0 x f32>
    %c = kernel.workspace : <tokens * 32 + 0 x f32>
    kernel.launch @copy(%a, %b) : !row, !row
    kernel.launch @copy(%b, %c) : !row, !row
    kernel.probe "layer_output" 0, %a : <tokens * 32 + 0 x f32>
  }
}
