// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of the kernel dialect: the program (buffers, launches) and the kernel templates that code generators expand.
#ifndef SLUICE_KERNEL_OPS
#define SLUICE_KERNEL_OPS

include "dialects/kernel/KernelBase.td"
include "dialects/lm/LmBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Kernel_Op<string opMnemonic, list<Trait> traits = []> : Op<Kernel_Dialect, opMnemonic, traits>;

// ---- The program ----

def Kernel_ProgramOp : Kernel_Op<"program", [Symbol, SingleBlock, NoTerminator, NoRegionArguments, IsolatedFromAbove]> {
  let summary = "Buffers and the launch list of one entry point, in order";
  let description = [{ Holds kernel.input, kernel.output, kernel.cache, kernel.workspace, weight recipes (lm.weight...) with
    kernel.weight, and kernel.launch / kernel.probe in the order in which the runtime walks them. }];
  // `workspace`: bytes of all workspace buffers together, from plan-memory.
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<Kernel_OffsetAttr>:$workspace);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Kernel_InputOp : Kernel_Op<"input", [Pure]> {
  let summary = "An input buffer of the step; `group` tells whose block table it is";
  let arguments = (ins Kernel_InputKindAttr:$kind, DefaultValuedAttr<Lm_IntAttr, "0">:$group);
  let results = (outs Kernel_BufferType:$result);
  let assemblyFormat = "$kind attr-dict `:` type($result)";
}

def Kernel_OutputOp : Kernel_Op<"output", []> {
  let summary = "An output buffer of the step: logits [logit_rows, vocabulary] f32, hidden [logit_rows, features] f32";
  let arguments = (ins StrAttr:$name);
  let results = (outs Kernel_BufferType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Kernel_CacheOp : Kernel_Op<"cache", []> {
  let summary = "The block pool of cache group `group`: blocks of `perUnit` elements";
  let description = [{
    A block holds `block_tokens` tokens of all layers of its group: per layer, per kv head: keys [key_head, block_tokens], then
    values [block_tokens, value_head]. Blocks lie at multiples of their size, in the element type of the group.
  }];
  let arguments = (ins Lm_IntAttr:$group, TypeAttrOf<Lm_CacheType>:$layout, Lm_IntAttr:$block_tokens);
  let results = (outs Kernel_BufferType:$result);
  let assemblyFormat = "$group `,` $layout attr-dict `:` type($result)";
}

def Kernel_WorkspaceOp : Kernel_Op<"workspace", []> {
  let summary = "Memory between launches; plan-memory gives it its offset";
  let arguments = (ins OptionalAttr<Kernel_OffsetAttr>:$offset);
  let results = (outs Kernel_BufferType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Kernel_WeightOp : Kernel_Op<"weight", [Pure]> {
  let summary = "A weight of the package: a recipe's result in the layout that the kernels read";
  let arguments = (ins AnyStaticShapeTensor:$recipe, Kernel_LayoutAttr:$layout);
  let results = (outs Kernel_BufferType:$result);
  let assemblyFormat = "$recipe $layout attr-dict `:` type($recipe) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_LaunchOp : Kernel_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs all cells of a kernel on these buffers";
  let description = [{ `few` names a kernel for steps of at most `few_rows` tokens, with the same buffers and the same bits. }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Kernel_BufferType>:$buffers,
                       OptionalAttr<FlatSymbolRefAttr>:$few, DefaultValuedAttr<Lm_IntAttr, "0">:$few_rows);
  let assemblyFormat = "$callee `(` $buffers `)` (`few` $few^)? attr-dict `:` type($buffers)";
}

def Kernel_ProbeOp : Kernel_Op<"probe", []> {
  let summary = "Copies a buffer out where the step's output mode asks for probes";
  let arguments = (ins Kernel_BufferType:$buffer, StrAttr:$name, Lm_IntAttr:$layer);
  let assemblyFormat = "$name $layer `,` $buffer attr-dict `:` type($buffer)";
}

// ---- A kernel ----

def Kernel_FuncOp : Kernel_Op<"func", [Symbol, SingleBlock, NoTerminator, IsolatedFromAbove]> {
  let summary = "A kernel: its grid and one template operation on its buffers (block arguments)";
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<Kernel_GridDimAttr, "grid dimensions">:$grid);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `grid` $grid attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

// ---- Templates. Shapes as in LmOps.td; T rows are tokens or logit rows, told by the buffers' unit. ----

// What a template reads and writes, as memory effects: plan checks tell from them which launch fills a buffer.
def Kernel_In : Arg<Kernel_BufferType, "", [MemRead]>;
def Kernel_OptionalIn : Arg<Optional<Kernel_BufferType>, "", [MemRead]>;
def Kernel_Ins : Arg<Variadic<Kernel_BufferType>, "", [MemRead]>;
def Kernel_Out : Arg<Kernel_BufferType, "", [MemWrite]>;
def Kernel_OptionalOut : Arg<Optional<Kernel_BufferType>, "", [MemWrite]>;

class Kernel_Template<string opMnemonic, list<Trait> traits = []> : Kernel_Op<opMnemonic, traits> {
  let hasVerifier = 1;
}

def Kernel_EmbeddingOp : Kernel_Template<"embedding"> {
  let summary = "out[t] = table[ids[t]] as f32: ids [T] i32, table [V, F] plain, out [T, F] f32";
  let arguments = (ins Kernel_In:$ids, Kernel_In:$table, Kernel_Out:$out, Lm_IntAttr:$features);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_RmsNormOp : Kernel_Template<"rms_norm", [AttrSizedOperandSegments]> {
  let summary = "RMS norm per group of features; with residual also sum = x + residual";
  let arguments = (ins Kernel_In:$x /* [T, F] f32 */, Kernel_In:$weight /* [F / groups] f32 */,
                       Kernel_OptionalIn:$residual, Kernel_Out:$out, Kernel_OptionalOut:$sum,
                       Lm_IntAttr:$features, Lm_IntAttr:$groups, F64Attr:$epsilon);
  let assemblyFormat = "$x `,` $weight `,` $out (`residual` $residual^)? (`sum` $sum^)? attr-dict `:` type(operands)";
}

def Kernel_LayerNormOp : Kernel_Template<"layer_norm"> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * weight (+ bias): [T, F] f32";
  let arguments = (ins Kernel_In:$x, Kernel_In:$weight, Kernel_OptionalIn:$bias, Kernel_Out:$out,
                       Lm_IntAttr:$features, F64Attr:$epsilon);
  let assemblyFormat = "$x `,` $weight `,` $out (`bias` $bias^)? attr-dict `:` type(operands)";
}

def Kernel_RopeTableOp : Kernel_Template<"rope_table"> {
  let summary = "cos, sin [T, J] f32 of f32(position * frequencies[j]), times scale; positions [T] i32";
  let arguments = (ins Kernel_In:$positions, Kernel_Out:$cos, Kernel_Out:$sin, DenseF64ArrayAttr:$frequencies, F64Attr:$scale);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_RopeOp : Kernel_Template<"rope"> {
  let summary = "out = x with the first 2J features of each head rotated: x, out [T, heads * head] f32, cos, sin [T, J] f32";
  let arguments = (ins Kernel_In:$x, Kernel_In:$cos, Kernel_In:$sin, Kernel_Out:$out,
                       Lm_IntAttr:$heads, Lm_IntAttr:$head, Lm_IntAttr:$pairs, UnitAttr:$interleaved);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_RepeatHeadsOp : Kernel_Template<"repeat_heads"> {
  let summary = "x [T, heads * head] -> out [T, heads * repeats * head] f32";
  let arguments = (ins Kernel_In:$x, Kernel_Out:$out, Lm_IntAttr:$heads, Lm_IntAttr:$head, Lm_IntAttr:$repeats);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_MatmulOp : Kernel_Template<"matmul", [AttrSizedOperandSegments]> {
  let summary = "out = x weight^T (+ bias) (+ residual): x [T, K] f32, weight panels of [N, K], out [T, N] f32";
  let description = [{
    K is walked in ascending order, one fused multiply-add per step and output element, in every row bucket (bit rule 1).
    With `gated`, the weight is [2N, K] in gated panels (and bias [2N]) and out = gated(first N, last N) is [T, N].
  }];
  let arguments = (ins Kernel_In:$x, Kernel_In:$weight, Kernel_OptionalIn:$bias,
                       Kernel_OptionalIn:$residual, Kernel_Out:$out,
                       Lm_IntAttr:$n, Lm_IntAttr:$k, Kernel_LayoutAttr:$layout, OptionalAttr<Lm_ActivationAttr>:$gated);
  let assemblyFormat = "$x `,` $weight `,` $out (`bias` $bias^)? (`residual` $residual^)? attr-dict `:` type(operands)";
}

def Kernel_ExpertPlanOp : Kernel_Template<"expert_plan"> {
  let summary = "Sorts choices by expert: ids [T, k] i32 -> order [T * k] i32, starts [E + 1] i32";
  let description = [{ order lists choice numbers t * k + j by expert, then ascending; expert e has order[starts[e] .. starts[e + 1]). One cell. }];
  let arguments = (ins Kernel_In:$ids, Kernel_Out:$order, Kernel_Out:$starts, Lm_IntAttr:$experts, Lm_IntAttr:$top_k);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_GroupedMatmulOp : Kernel_Template<"grouped_matmul"> {
  let summary = "out[c] = x[row(c)] weight[e(c)]^T (+ bias[e(c)]) for each choice c = t * k + j";
  let description = [{
    x [T, K] (row(c) = t) or, with `per_choice`, [T * k, K] (row(c) = c), f32; weight [E] x panels of [N, K]; out [T * k, N] f32.
    Same K order as matmul, so that the bits do not depend on how many rows share an expert. `gated` as in matmul.
    Grid: (row tiles of `tile` choices of one expert: at most ceil(T * k / tile) + E) x panels. Only `starts` tells how many
    tiles there are: a cell finds its expert by walking it and returns when there is none, or the cells share them evenly.
  }];
  let arguments = (ins Kernel_In:$x, Kernel_In:$weight, Kernel_OptionalIn:$bias, Kernel_In:$order,
                       Kernel_In:$starts, Kernel_Out:$out, Lm_IntAttr:$experts, Lm_IntAttr:$top_k, Lm_IntAttr:$n, Lm_IntAttr:$k,
                       Kernel_LayoutAttr:$layout, OptionalAttr<Lm_ActivationAttr>:$gated, UnitAttr:$per_choice);
  let assemblyFormat = "$x `,` $weight `,` $order `,` $starts `,` $out (`bias` $bias^)? attr-dict `:` type(operands)";
}

def Kernel_CombineOp : Kernel_Template<"combine"> {
  let summary = "out[t] = sum over j in order of y[t * k + j] * weights[t, j] (+ residual[t]): y [T * k, F], out [T, F] f32";
  let arguments = (ins Kernel_In:$y, Kernel_In:$weights, Kernel_OptionalIn:$residual, Kernel_Out:$out,
                       Lm_IntAttr:$top_k, Lm_IntAttr:$features);
  let assemblyFormat = "$y `,` $weights `,` $out (`residual` $residual^)? attr-dict `:` type(operands)";
}

def Kernel_RouteOp : Kernel_Template<"route"> {
  let summary = "lm.route: logits [T, E] f32 -> weights [T, k] f32, ids [T, k] i32";
  let arguments = (ins Kernel_In:$logits, Kernel_OptionalIn:$correction, Kernel_Out:$weights, Kernel_Out:$ids,
                       Lm_IntAttr:$experts, Lm_IntAttr:$top_k, Lm_ScoreFunctionAttr:$score, UnitAttr:$normalize, F64Attr:$scale);
  let assemblyFormat = "$logits `,` $weights `,` $ids (`correction` $correction^)? attr-dict `:` type(operands)";
}

def Kernel_GatedActivationOp : Kernel_Template<"gated_activation"> {
  let summary = "out = gated(gate, up): [T, F] f32";
  let arguments = (ins Kernel_In:$gate, Kernel_In:$up, Kernel_Out:$out, Lm_IntAttr:$features, Lm_ActivationAttr:$activation);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_RowIndexOp : Kernel_Template<"row_index"> {
  let summary = "Per row its sequence and cache index: seq_start [seqs + 1], kv_length [seqs] -> row_seq [T], row_index [T], all i32";
  let description = [{ row_index[r] = kv_length[s] - (seq_start[s + 1] - seq_start[s]) + (r - seq_start[s]), design.md 4. Cell = sequence. }];
  let arguments = (ins Kernel_In:$seq_start, Kernel_In:$kv_length, Kernel_Out:$row_seq, Kernel_Out:$row_index);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_CacheAppendOp : Kernel_Template<"cache_append"> {
  let summary = "Writes keys [T, G * D] and values [T, G * Dv] f32 of a layer at the rows' cache indices; cache layout as kernel.cache";
  let description = [{ `layer` is the layer's number in its group. Rounded to nearest even into the cache's element type. Cell = row. }];
  let arguments = (ins Kernel_In:$keys, Kernel_In:$values, Kernel_In:$row_seq, Kernel_In:$row_index,
                       Kernel_In:$block_table, Kernel_Out:$cache, TypeAttrOf<Lm_CacheType>:$layout, Lm_IntAttr:$block_tokens, Lm_IntAttr:$layer);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_AttentionOp : Kernel_Template<"attention"> {
  let summary = "lm.attention over the paged cache: query [T, H * D] f32 -> out [T, H * Dv] f32";
  let description = [{
    Bit rule 2: the entries are walked in spans of `span` tokens at absolute cache indices; a span gives (m, l, o) by itself, spans are
    joined left to right within a chunk of `chunk` tokens, chunks left to right. A span outside the window or after the row's own
    index may be skipped: it equals a fully masked one (m = -inf, l = 0). Cell = (rows of one grid tile, kv head).
  }];
  let arguments = (ins Kernel_In:$query, Kernel_In:$row_seq, Kernel_In:$row_index, Kernel_In:$block_table,
                       Kernel_In:$cache, Kernel_OptionalIn:$sinks, Kernel_Out:$out,
                       TypeAttrOf<Lm_CacheType>:$layout, Lm_IntAttr:$block_tokens, Lm_IntAttr:$layer, Lm_IntAttr:$heads, F64Attr:$scale,
                       Lm_IntAttr:$window, Lm_IntAttr:$mask_window, F64Attr:$soft_cap, Lm_IntAttr:$span, Lm_IntAttr:$chunk);
  let assemblyFormat = "$query `,` $row_seq `,` $row_index `,` $block_table `,` $cache `,` $out (`sinks` $sinks^)? attr-dict `:` type(operands)";
}

def Kernel_LogitRowsOp : Kernel_Template<"logit_rows"> {
  let summary = "out[r] = x[rows[r]]: x [T, F] f32, rows [R] i32, out [R, F] f32";
  let arguments = (ins Kernel_In:$x, Kernel_In:$rows, Kernel_Out:$out, Lm_IntAttr:$features);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

def Kernel_ElementwiseOp : Kernel_Template<"elementwise", [SingleBlock, NoTerminator]> {
  let summary = "out[t, f] = body(inputs[t, f]...): a scalar body in arith/math, ended by kernel.yield";
  let description = [{ An input is [T, F], or a weight [F] (fixed, F elements: the same for every row), or one scalar (fixed, 1 element). }];
  let arguments = (ins Kernel_Ins:$inputs, Kernel_Out:$out, Lm_IntAttr:$features);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` `->` $out attr-dict `:` type($inputs) `->` type($out) $body";
}

def Kernel_YieldOp : Kernel_Op<"yield", [Pure, ParentOneOf<["ElementwiseOp"]>]> {
  let arguments = (ins AnyType:$value);
  let summary = "The body's result";
  let assemblyFormat = "$value attr-dict `:` type($value)";
}
#endif
