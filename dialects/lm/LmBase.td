// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lm dialect: a language model's own operations, between the file's operators (onnx) and what is launched (kernel).
#ifndef SLUICE_LM_BASE
#define SLUICE_LM_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Lm_Dialect : Dialect {
  let name = "lm";
  let cppNamespace = "::sluicec::lm";
  let summary = "What a language model is made of";
  let description = [{
    Activations are always `tensor<leading... x features x f32>`: heads lie side by side in the feature dimension, so that no
    reshape stands between two operations. Weights keep the element type of the file; every operation accumulates in f32.

    Two verified forms share the token-wise operations:
    - *padded*, as raised: leading dimensions `[batch, seq]`; `lm.padded_append`, `lm.padded_attention` and the attention mask;
    - *packed*, after pack-tokens and page-kv-cache: one leading dimension `[tokens]`, one `!lm.batch`, one `!lm.cache` value
      per cache group, used linearly; `lm.cache_append`, `lm.attention`, `lm.logit_rows`.

    Roles of function arguments and results stand in `lm.role` (token_ids, position_ids, attention_mask, past_key, past_value,
    batch, cache; logits, present_key, present_value, cache), the layer of a cache in `lm.layer`.
    What is elementwise and has no name here stays upstream arith/math/linalg on tensors.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

// An i64 attribute whose accessor is signed: sizes here are compared with signed dimensions.
def Lm_IntAttr : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}

class Lm_Type<string name, string typeMnemonic> : TypeDef<Lm_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Lm_BatchType : Lm_Type<"Batch", "batch"> {
  let summary = "The ragged batch of one step: counts, sequence starts, cache lengths, block table, logit rows";
}

def Lm_CacheType : Lm_Type<"Cache", "cache"> {
  let summary = "The paged cache of one group: layers of equal window, element type and row size";
  let description = [{
    `window` is how many cache indices, the row's own included, a row may see; 0 keeps all. A group with a window gives back
    blocks that no later row can see. Example: `!lm.cache<window = 128, element = f32, kvHeads = 1, keyHead = 32, valueHead = 32, layers = 4>`.
  }];
  let parameters = (ins "int64_t":$window, "::mlir::Type":$element, "int64_t":$kvHeads, "int64_t":$keyHead,
                        "int64_t":$valueHead, "int64_t":$layers);
  let assemblyFormat = "`<` struct(params) `>`";
}

// How router logits become scores.
def Lm_ScoreFunction : I32EnumAttr<"ScoreFunction", "how router logits become scores", [
  I32EnumAttrCase<"SoftmaxAll", 0, "softmax_all">,          // softmax over all experts, then the top k
  I32EnumAttrCase<"SoftmaxSelected", 1, "softmax_selected">, // top k of the logits, then softmax over those
  I32EnumAttrCase<"Sigmoid", 2, "sigmoid">,
]> {
  let cppNamespace = "::sluicec::lm";
  let genSpecializedAttr = 0;
}
def Lm_ScoreFunctionAttr : EnumAttr<Lm_Dialect, Lm_ScoreFunction, "score">;

// The nonlinearity of a gate.
def Lm_ActivationKind : I32EnumAttr<"ActivationKind", "the nonlinearity of a gate", [
  I32EnumAttrCase<"Silu", 0, "silu">,         // g * sigmoid(alpha * g)
  I32EnumAttrCase<"GeluTanh", 1, "gelu_tanh">,
  I32EnumAttrCase<"GeluErf", 2, "gelu_erf">,
  I32EnumAttrCase<"Relu", 3, "relu">,
]> {
  let cppNamespace = "::sluicec::lm";
  let genSpecializedAttr = 0;
}
def Lm_ActivationKindAttr : EnumAttr<Lm_Dialect, Lm_ActivationKind, "activation_kind">;

def Lm_ActivationAttr : AttrDef<Lm_Dialect, "GatedActivation"> {
  let mnemonic = "gated";
  let summary = "kind(clamp(gate)) * (clamp(up) + beta)";
  let description = [{
    With g = min(gate, limit), u = clamp(up, -limit, limit): the result is kind(g; alpha) * (u + beta), silu(g; alpha) being
    g * sigmoid(alpha * g). limit = inf leaves both as they are. SwiGLU is alpha 1, beta 0, limit inf
    (Shazeer 2020, "GLU Variants Improve Transformer"); the clamped form is onnxruntime's MoE operator.
  }];
  let parameters = (ins EnumParameter<Lm_ActivationKind>:$kind, "::mlir::FloatAttr":$alpha, "::mlir::FloatAttr":$beta, "::mlir::FloatAttr":$limit);
  let assemblyFormat = "`<` struct(params) `>`";
}
#endif
