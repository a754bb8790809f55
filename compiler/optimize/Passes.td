// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes from padded lm IR to packed, fused lm IR, in the order of buildOptimizePipeline. Types in the examples are cut short.
#ifndef SLUICE_OPTIMIZE_PASSES
#define SLUICE_OPTIMIZE_PASSES

include "mlir/Pass/PassBase.td"

class OptimizePass<string argument> : Pass<argument, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::sluicec::lm::LmDialect", "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def ShareKvHeads : OptimizePass<"share-kv-heads"> {
  let summary = "Folds repeated key and value heads into grouped-query attention";
  let description = [{
    Grouped-query attention (Ainslie et al. 2023) reads one key-value head for several query heads; many graphs write it by
    repeating the heads.

        %k2 = lm.repeat_heads %k {heads = 2, repeats = 4}
        %v2 = lm.repeat_heads %v {heads = 2, repeats = 4}
        %o = lm.padded_attention %q, %k2, %v2 {heads = 8, kv_heads = 8, ...}
      ==>
        %o = lm.padded_attention %q, %k, %v {heads = 8, kv_heads = 2, ...}

    Where heads are repeated before they enter the cache, the repetition moves behind it first, so that the cache keeps each
    head once. Exact: the same products in the same order. Leaves an attention alone whose keys and values are repeated differently.
  }];
}

def SparsifyAttention : OptimizePass<"sparsify-attention"> {
  let summary = "Turns a window that a mask imposes into one that is never read beyond";
  let description = [{
        lm.padded_attention %q, %k, %v {mask_window = 128, ...}  ==>  lm.padded_attention %q, %k, %v {window = 128, ...}

    After it the work of a row is O(window) instead of O(length), and page-kv-cache puts the layer into a cache group that gives
    back blocks which left the window. Exact: masked entries have weight 0.
  }];
}

def PageKvCache : OptimizePass<"page-kv-cache"> {
  let summary = "Past and present tensors become paged cache groups (required)";
  let description = [{
    One `!lm.cache` argument and result per group: layers of equal window, element type, key-value heads and head sizes. The
    layers of a group are numbered in the order of their attentions.

        func @main(%ids, %mask, %pk: tensor<?x2x?x16xf32> {lm.role = "past_key", lm.element = f16}, %pv) -> (%logits, %k, %v)
        %k = lm.padded_append %pk, %krows
        %v = lm.padded_append %pv, %vrows
        %o = lm.padded_attention %q, %k, %v mask(%mask) {window = 16, ...}
      ==>
        func @main(%ids, %mask, %batch: !lm.batch, %c0: !lm.cache<window = 16, element = f16, layers = 1, ...>) -> (%logits, %c1)
        %c1 = lm.cache_append %c0, %krows, %vrows, %batch {layer = 0}
        %o = lm.attention %q, %c1, %batch {layer = 0, window = 16, ...}

    Repeated heads that share-kv-heads did not fold are repeated in front of the cache. Activations stay padded until
    pack-tokens, which must follow. An operation that uses a past or present value in any other way is an error.
  }];
  let options = [Option<"kvType", "kv-type", "std::string", "\"keep\"",
    "Element type of the cache: f32, f16, bf16, or keep for that of the file's past_key">];
}

def PackTokens : OptimizePass<"pack-tokens"> {
  let summary = "Removes batch and padding: [batch, seq, ..] becomes [tokens, ..] (required)";
  let description = [{
    After page-kv-cache. Every operation that stands on activations must be token-wise (TokenWiseOpInterface, or elementwise)
    or take the batch; any other mixes rows and is an error that names it. Attention mask and lm.padded_positions vanish.

        func @main(%ids: tensor<?x?xi64> {lm.role = "token_ids"}, %mask, %batch: !lm.batch, %cache) -> (tensor<?x?x320xf32>, ...)
        %p = lm.padded_positions %ids, %mask
        %x = lm.embedding %table, %ids : ... -> tensor<?x?x64xf32>
      ==>
        func @main(%ids: tensor<?xi32>, %positions: tensor<?xi32>, %batch: !lm.batch, %cache) -> (tensor<?x320xf32>, ...)
        %x = lm.embedding %table, %ids : ... -> tensor<?x64xf32>

    Then lm.logit_rows keeps the rows whose logits are wanted, as early as nothing but token-wise operations follows: behind
    the last attention, so that the last layer's experts and the head see those rows alone.
  }];
}

def FuseExperts : OptimizePass<"fuse-experts"> {
  let summary = "Gate, up, activation, down and weighted sum of the chosen experts become one lm.experts";
  let description = [{
        %g = lm.grouped_linear %x, %ids, %gate
        %u = lm.grouped_linear %x, %ids, %up
        %a = lm.gated_activation %g, %u #act
        %d = lm.grouped_linear %a, %ids, %down
        %y = lm.combine %d, %weights
      ==>
        %gate_up = lm.weight_concat %gate, %up dim = 1
        %y = lm.experts %x, %weights, %ids, %gate_up, %down #act

    Work is that of the chosen experts: for equal top_k it does not grow with the number of experts. Left alone where another
    operation uses a value in between, where the linears choose by different ids, or where only one of gate and up has a bias.
  }];
}

def FuseEpilogues : OptimizePass<"fuse-epilogues"> {
  let summary = "Residual additions and gated activations go into the linear that feeds them";
  let description = [{
        %y = lm.linear %x, %w                                     %g = lm.linear %x, %gate
        %s = arith.addf %y, %r                                    %u = lm.linear %x, %up
                                                                  %a = lm.gated_activation %g, %u #act
      ==>                                                       ==>
        %s = lm.linear %x, %w residual(%r)                        %a = lm.gated_linear %x, %gate_up #act

    Left alone where something else uses the linear's result.
  }];
}

def FuseNorms : OptimizePass<"fuse-norms"> {
  let summary = "An addition that a norm reads becomes the norm's residual";
  let description = [{
        %s = arith.addf %x, %r
        %n = lm.rms_norm %s, %w
      ==>
        %n, %s = lm.rms_norm %x, %w residual(%r)

    Runs behind fuse-epilogues, which takes additions that follow a linear: those are cheaper there.
  }];
}

def ConvertWeights : OptimizePass<"convert-weights"> {
  let summary = "Gives weights the element type in which the package stores them";
  let description = [{
    Matrices (MatrixOpInterface) get `weights`; those of routers stay as stored, since a changed score can choose another
    expert. Norms, biases and other vectors become f32. `keep` leaves matrices of f32, f16 and bf16 as they are and makes f32
    of other float types. A matrix that two operations read (tied embeddings) stays one.

        %w = lm.weight "q" : tensor<64x64xf32>
        %y = lm.linear %x, %w
      ==>
        %w = lm.weight "q" : tensor<64x64xf32>
        %h = lm.weight_convert %w : tensor<64x64xf32> -> tensor<64x64xbf16>
        %y = lm.linear %x, %h
  }];
  let options = [Option<"weights", "weights", "std::string", "\"keep\"", "Element type of matrices: keep, f32, f16 or bf16">];
}

def VerifyPacked : OptimizePass<"verify-packed"> {
  let summary = "Checks what lowering relies on; closes the stage";
  let description = [{
    - Arguments are one token_ids tensor<?xi32>, one position_ids tensor<?xi32>, one !lm.batch and caches; results are one
      logits tensor<?xVxf32> and each cache argument's last value, in the order of the arguments.
    - Every activation is [rows, ..] with static sizes behind the rows; every operation on activations is token-wise,
      elementwise or takes the batch, and none belongs to the padded form.
    - Cache values are used linearly: each is appended to or returned exactly once, after all attentions that read it; every
      layer of a group is appended to exactly once, and an attention reads its layer after that append.
    - Logits are of lm.logit_rows; recipes read weights alone.
  }];
}
#endif
