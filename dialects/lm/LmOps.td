// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of the lm dialect. Shapes: B batch, S new tokens of a sequence, P past tokens, T tokens of a packed step,
// R logit rows, F features, K/N input/output features of a linear, H query heads, G key-value heads, D head size,
// E experts, k experts per token, I inner features of an expert, V vocabulary, `..` = [B, S] (padded) or [T] (packed).
#ifndef SLUICE_LM_OPS
#define SLUICE_LM_OPS

include "dialects/lm/LmBase.td"
include "dialects/lm/LmInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Lm_Op<string opMnemonic, list<Trait> traits = []> : Op<Lm_Dialect, opMnemonic, traits>;

// ---- Weights: a reference and a recipe ----

class Lm_RecipeOp<string opMnemonic> : Lm_Op<opMnemonic, [Pure, DeclareOpInterfaceMethods<Lm_WeightOpInterface>]>;

def Lm_WeightOp : Lm_RecipeOp<"weight"> {
  let summary = "A tensor of the model file, by its name in the weight store";
  let description = [{ `%w = lm.weight "model.embed_tokens.weight" : tensor<320x64xf32>`. The bytes stay in the mapped file.
    A small tensor may carry `value`, which then is what it holds (tests on text, folded constants). }];
  let arguments = (ins StrAttr:$source, OptionalAttr<ElementsAttr>:$value);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$source (`=` $value^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Lm_WeightTransposeOp : Lm_RecipeOp<"weight_transpose"> {
  let summary = "Permutes dimensions: result dimension i is input dimension perm[i]";
  let arguments = (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$perm);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `perm` `=` $perm attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Lm_WeightReshapeOp : Lm_RecipeOp<"weight_reshape"> {
  let summary = "The same elements in row-major order under another shape";
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Lm_WeightSliceOp : Lm_RecipeOp<"weight_slice"> {
  let summary = "Elements offsets[i] + j * strides[i] of each dimension, j < the result's size";
  let arguments = (ins AnyStaticShapeTensor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input `offsets` `=` $offsets `strides` `=` $strides attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Lm_WeightConcatOp : Lm_RecipeOp<"weight_concat"> {
  let summary = "Inputs one after another along a dimension";
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs, Lm_IntAttr:$dim);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$inputs `dim` `=` $dim attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Lm_WeightConvertOp : Lm_RecipeOp<"weight_convert"> {
  let summary = "Another float element type, rounded to nearest even";
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

// ---- Token-wise operations, in both forms ----

class Lm_TokenWiseOp<string opMnemonic, list<Trait> traits = []> : Lm_Op<opMnemonic, !listconcat([Pure,
    DeclareOpInterfaceMethods<Lm_CostOpInterface>, DeclareOpInterfaceMethods<Lm_TokenWiseOpInterface>], traits)> {
  let hasVerifier = 1;
}

def Lm_EmbeddingOp : Lm_TokenWiseOp<"embedding", [DeclareOpInterfaceMethods<Lm_MatrixOpInterface>]> {
  let summary = "Row ids[t] of the table: [..] -> [.., F]";
  let description = [{ The runtime refuses token ids outside [0, V) before a step. }];
  let arguments = (ins AnyStaticShapeTensor:$table /* [V, F] */, AnyTensor:$ids /* [..] i32 or i64 */);
  let results = (outs AnyTensor:$result /* [.., F] f32 */);
  let assemblyFormat = "$table `,` $ids attr-dict `:` functional-type(operands, $result)";
}

def Lm_LinearOp : Lm_TokenWiseOp<"linear", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<Lm_MatrixOpInterface>]> {
  let summary = "x * weight^T (+ bias) (+ residual): [.., K] -> [.., N]";
  let description = [{
    Accumulates over K in ascending order in f32 with one rounding per fused multiply-add, then adds bias, then residual.
    The weight is [N, K]: one row per output feature. `residual` is set by fuse-epilogues.
  }];
  let arguments = (ins AnyTensor:$x, AnyStaticShapeTensor:$weight /* [N, K] */,
                       Optional<AnyStaticShapeTensor>:$bias /* [N] */, Optional<AnyTensor>:$residual /* [.., N] */);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$x `,` $weight (`bias` `(` $bias^ `)`)? (`residual` `(` $residual^ `)`)? attr-dict `:` functional-type(operands, $result)";
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$x, "::mlir::Value":$weight), [{
    build($_builder, $_state, result, x, weight, ::mlir::Value(), ::mlir::Value());
  }]>];
}

def Lm_RmsNormOp : Lm_TokenWiseOp<"rms_norm"> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * weight, in each of `groups` equal parts of the features";
  let description = [{
    Zhang & Sennrich 2019. `groups` is 1 for a norm over the whole row, the number of heads for a norm per head; the weight
    has F / groups elements. With `residual` (set by fuse-norms) the norm is of x + residual, and `sum` gives x + residual.
  }];
  let arguments = (ins AnyTensor:$x, AnyStaticShapeTensor:$weight, Optional<AnyTensor>:$residual,
                       F64Attr:$epsilon, DefaultValuedAttr<Lm_IntAttr, "1">:$groups);
  let results = (outs AnyTensor:$result, Optional<AnyTensor>:$sum);
  let assemblyFormat = "$x `,` $weight (`residual` `(` $residual^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Lm_LayerNormOp : Lm_TokenWiseOp<"layer_norm"> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * weight (+ bias)";
  let arguments = (ins AnyTensor:$x, AnyStaticShapeTensor:$weight, Optional<AnyStaticShapeTensor>:$bias, F64Attr:$epsilon);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$x `,` $weight (`bias` `(` $bias^ `)`)? attr-dict `:` functional-type(operands, $result)";
}

def Lm_RopeTableOp : Lm_TokenWiseOp<"rope_table"> {
  let summary = "cos and sin of position * frequencies[j], times scale: [..] -> two of [.., J]";
  let description = [{
    Su et al. 2021. The angle is the f32 product of position and frequency, as exporters compute it; cos and sin are right to
    1e-6 for any position below 2^24. One table serves all layers of equal frequencies (CSE).
  }];
  let arguments = (ins AnyTensor:$positions /* [..] i32 or i64 */, DenseF64ArrayAttr:$frequencies, F64Attr:$scale);
  let results = (outs AnyTensor:$cos, AnyTensor:$sin);
  let assemblyFormat = "$positions attr-dict `:` functional-type(operands, results)";
}

def Lm_RopeOp : Lm_TokenWiseOp<"rope"> {
  let summary = "Rotates the first 2J features of each head by the angles of a table";
  let description = [{
    Pairs are (i, i + J) of each head, or (2i, 2i + 1) when `interleaved`. Features beyond 2J pass through.
  }];
  let arguments = (ins AnyTensor:$x /* [.., heads * D] */, AnyTensor:$cos /* [.., J] */, AnyTensor:$sin, Lm_IntAttr:$heads, UnitAttr:$interleaved);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$x `,` $cos `,` $sin attr-dict `:` functional-type(operands, $result)";
}

def Lm_RepeatHeadsOp : Lm_TokenWiseOp<"repeat_heads"> {
  let summary = "Each of `heads` heads `repeats` times in a row: [.., heads * D] -> [.., heads * repeats * D]";
  let description = [{ On a padded cache the head dimension is dimension 1: [B, G, T, D] -> [B, G * repeats, T, D]; told by rank 4.
    share-kv-heads folds it into the attention that reads it. }];
  let arguments = (ins AnyTensor:$x, Lm_IntAttr:$heads, Lm_IntAttr:$repeats);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, $result)";
}

def Lm_GatedActivationOp : Lm_TokenWiseOp<"gated_activation"> {
  let summary = "kind(gate) * (up + beta), see #lm.gated: [.., I], [.., I] -> [.., I]";
  let arguments = (ins AnyTensor:$gate, AnyTensor:$up, Lm_ActivationAttr:$activation);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$gate `,` $up $activation attr-dict `:` functional-type(operands, $result)";
}

def Lm_GatedLinearOp : Lm_TokenWiseOp<"gated_linear", [DeclareOpInterfaceMethods<Lm_MatrixOpInterface>]> {
  let summary = "gated_activation(x * gate^T, x * up^T) in one kernel: [.., K] -> [.., I]";
  let description = [{ Made by fuse-epilogues. The weight is [2I, K]: the rows of the gate, then those of up; the bias [2I] likewise. }];
  let arguments = (ins AnyTensor:$x, AnyStaticShapeTensor:$weight, Optional<AnyStaticShapeTensor>:$bias, Lm_ActivationAttr:$activation);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$x `,` $weight (`bias` `(` $bias^ `)`)? $activation attr-dict `:` functional-type(operands, $result)";
}

def Lm_RouteOp : Lm_TokenWiseOp<"route"> {
  let summary = "Chooses top_k experts per row: logits [.., E] -> weights [.., k] f32, ids [.., k] i32";
  let description = [{
    Scores come from the logits by `score`. The top_k largest of (score + correction) are chosen, equal ones by the lower id,
    in descending order; correction (one value per expert) takes part in the choice alone. Weights are the scores of the
    chosen; with `normalize` divided by their sum; then multiplied by `scale`.
  }];
  let arguments = (ins AnyTensor:$logits, Optional<AnyStaticShapeTensor>:$correction, Lm_IntAttr:$top_k,
                       Lm_ScoreFunctionAttr:$score, UnitAttr:$normalize, DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs AnyTensor:$weights, AnyTensor:$ids);
  let assemblyFormat = "$logits (`correction` `(` $correction^ `)`)? attr-dict `:` functional-type(operands, results)";
}

def Lm_GroupedLinearOp : Lm_TokenWiseOp<"grouped_linear", [DeclareOpInterfaceMethods<Lm_MatrixOpInterface>]> {
  let summary = "For each chosen expert e of a row: x * weight[e]^T (+ bias[e])";
  let description = [{ x is [.., K] (the same row for each choice) or [.., k, K] (one row per choice); the result is [.., k, N]. }];
  let arguments = (ins AnyTensor:$x, AnyTensor:$ids /* [.., k] i32 */, AnyStaticShapeTensor:$weight /* [E, N, K] */,
                       Optional<AnyStaticShapeTensor>:$bias /* [E, N] */);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$x `,` $ids `,` $weight (`bias` `(` $bias^ `)`)? attr-dict `:` functional-type(operands, $result)";
}

def Lm_CombineOp : Lm_TokenWiseOp<"combine"> {
  let summary = "Sum over the choices, in the router's order, of y[j] * weights[j]: [.., k, F], [.., k] -> [.., F]";
  let arguments = (ins AnyTensor:$y, AnyTensor:$weights);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$y `,` $weights attr-dict `:` functional-type(operands, $result)";
}

def Lm_ExpertsOp : Lm_TokenWiseOp<"experts", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<Lm_MatrixOpInterface>]> {
  let summary = "A whole layer of gated experts: sort rows by expert, gate and up in one pass, down, weighted sum";
  let description = [{
    Made by fuse-experts from two grouped_linear (or one), gated_activation, grouped_linear and combine:
    y = sum_j weights[j] * (gated(x gate_up[ids[j]]^T) down[ids[j]]^T). gate_up is [E, 2I, K]: the gate's rows, then up's.
  }];
  let arguments = (ins AnyTensor:$x, AnyTensor:$weights, AnyTensor:$ids, AnyStaticShapeTensor:$gate_up, AnyStaticShapeTensor:$down,
                       Optional<AnyStaticShapeTensor>:$gate_up_bias, Optional<AnyStaticShapeTensor>:$down_bias, Lm_ActivationAttr:$activation);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = [{$x `,` $weights `,` $ids `,` $gate_up `,` $down (`gate_up_bias` `(` $gate_up_bias^ `)`)? (`down_bias` `(` $down_bias^ `)`)?
                        $activation attr-dict `:` functional-type(operands, $result)}];
}

def Lm_ProbeOp : Lm_Op<"probe", [DeclareOpInterfaceMethods<Lm_TokenWiseOpInterface>]> {
  let summary = "Shows a value to whoever asks: [.., F]; no influence on results";
  let description = [{ Kept alive though nothing uses it. `name` is router_ids, router_weights or layer_output.
    Behind lm.logit_rows (the last layer's experts, after pack-tokens) the rows shown are those whose logits are wanted. }];
  let arguments = (ins AnyTensor:$value, StrAttr:$name, Lm_IntAttr:$layer);
  let assemblyFormat = "$name $layer `,` $value attr-dict `:` type($value)";
}

// ---- Padded form ----

def Lm_PaddedPositionsOp : Lm_Op<"padded_positions", [Pure]> {
  let summary = "Position of each new token among the real ones: ids [B, S], mask [B, P + S] -> [B, S] i64";
  let description = [{ The number of real tokens (mask = 1) of the sequence before it. Graphs without position input use it. }];
  let arguments = (ins AnyTensor:$ids, AnyTensor:$mask);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$ids `,` $mask attr-dict `:` functional-type(operands, $result)";
}

def Lm_PaddedAppendOp : Lm_Op<"padded_append", [Pure]> {
  let summary = "New keys or values behind the past: [B, G, P, D], [B, S, G * D] -> [B, G, P + S, D]";
  let arguments = (ins AnyTensor:$past, AnyTensor:$rows);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$past `,` $rows attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

class Lm_AttentionLike<string opMnemonic, dag operands, list<Trait> traits = []>
    : Lm_Op<opMnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<Lm_CostOpInterface>], traits)> {
  let description = [{
    softmax(q k^T * scale, capped by soft_cap * tanh(x / soft_cap) where soft_cap > 0) v over the cache entries at or before
    the row's own index (causal) and, with a window w, at most w - 1 before it. `mask_window` says that as the graph did, by a
    mask over all entries; `window` (set by sparsify-attention) also promises that entries outside are never read, so that the
    cache may drop them. A sink is one more logit per head that takes part in the denominator alone. Query head h reads
    key-value head h / (heads / kv_heads). A row that may see nothing gives 0.
  }];
  let arguments = !con(operands, (ins Lm_IntAttr:$heads, Lm_IntAttr:$kv_heads, F64Attr:$scale,
    DefaultValuedAttr<Lm_IntAttr, "0">:$window, DefaultValuedAttr<Lm_IntAttr, "0">:$mask_window, DefaultValuedAttr<F64Attr, "0.0">:$soft_cap));
  let results = (outs AnyTensor:$result);
  let hasVerifier = 1;
}

def Lm_PaddedAttentionOp : Lm_AttentionLike<"padded_attention",
    (ins AnyTensor:$query /* [B, S, H * D] */, AnyTensor:$keys /* [B, G, T, D] */, AnyTensor:$values /* [B, G, T, Dv] */,
         Optional<AnyTensor>:$mask /* [B, T] integer, 0 = padding */, Optional<AnyStaticShapeTensor>:$sinks /* [H] */), [AttrSizedOperandSegments]> {
  let summary = "Causal attention over padded keys and values: -> [B, S, H * Dv]";
  let assemblyFormat = "$query `,` $keys `,` $values (`mask` `(` $mask^ `)`)? (`sinks` `(` $sinks^ `)`)? attr-dict `:` functional-type(operands, $result)";
}

// ---- Packed form ----
// Between page-kv-cache and pack-tokens these operations also read padded activations [B, S, ..]: rows are then counted
// through both dimensions, the batch tells the real ones from padding, and a padding row appends nothing and sees nothing.

def Lm_CacheAppendOp : Lm_Op<"cache_append", [Pure]> {
  let summary = "Writes this step's keys [T, G * D] and values [T, G * Dv] of a layer into the cache";
  let description = [{ The cache value is used linearly; lowering writes in place. Comes before the attention of its layer, which reads the cache alone. }];
  let arguments = (ins Lm_CacheType:$cache, AnyTensor:$keys, AnyTensor:$values, Lm_BatchType:$batch, Lm_IntAttr:$layer);
  let results = (outs Lm_CacheType:$result);
  let assemblyFormat = "$cache `,` $keys `,` $values `,` $batch attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Lm_AttentionOp : Lm_AttentionLike<"attention",
    (ins AnyTensor:$query /* [T, H * D] */, Lm_CacheType:$cache, Lm_BatchType:$batch, Optional<AnyStaticShapeTensor>:$sinks, Lm_IntAttr:$layer)> {
  let summary = "Causal attention of packed rows over the paged cache: -> [T, H * Dv]";
  let assemblyFormat = "$query `,` $cache `,` $batch (`sinks` `(` $sinks^ `)`)? attr-dict `:` functional-type(operands, $result)";
}

def Lm_LogitRowsOp : Lm_Op<"logit_rows", [Pure]> {
  let summary = "The rows whose logits are wanted: [T, F] -> [R, F]";
  let arguments = (ins AnyTensor:$x, Lm_BatchType:$batch);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = "$x `,` $batch attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}
#endif
