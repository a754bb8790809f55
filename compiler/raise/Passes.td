// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes from onnx IR to padded lm IR, in the order of buildRaisePipeline.
#ifndef SLUICE_RAISE_PASSES
#define SLUICE_RAISE_PASSES

include "mlir/Pass/PassBase.td"

class RaisePass<string argument, string base = "::mlir::func::FuncOp"> : Pass<argument, base> {
  let dependentDialects = ["::sluicec::onnx::OnnxDialect", "::sluicec::lm::LmDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def CanonicalizeOnnx : RaisePass<"canonicalize-onnx"> {
  let summary = "One element type for activations, one name for equal sizes, no copies";
  let description = [{
    Float activations become f32 whatever the file's type (weights keep theirs), so that casts between float types vanish; a
    function argument remembers the file's type in `lm.element`. Dimension names that must be equal because a contraction or a
    broadcast joins them become one name. Identity, Dropout and casts without effect are dropped.
  }];
}

def RaiseNorm : RaisePass<"raise-norm"> {
  let summary = "RMS and layer normalisation, written as one operator or as its arithmetic, to lm.rms_norm and lm.layer_norm";
  let description = [{
    A norm per head becomes `groups`. A fused residual (SkipSimplifiedLayerNormalization) becomes arith.addf and the norm.
  }];
}

def RaiseLinear : RaisePass<"raise-linear"> {
  let summary = "MatMul and Gemm with a weight to lm.linear";
  let description = [{
    Works on [B, S, F] however the file flattens the rows. The weight becomes [N, K] by recipe; an added vector becomes the bias.
  }];
}

def RaiseRope : RaisePass<"raise-rope"> {
  let summary = "Rotary position embedding to lm.rope on one lm.rope_table per set of frequencies";
  let description = [{
    Knows the operators RotaryEmbedding of both domains and rotation written as arithmetic. Frequencies and scale come from the
    angles that the graph computes, or are recovered from cos and sin tables and then checked against the whole table.
  }];
}

def RaiseEmbedding : RaisePass<"raise-embedding"> {
  let summary = "A lookup of a weight's rows by an integer input to lm.embedding";
  let description = [{ Comes behind raise-rope, which looks up cos and sin by position in the same way. }];
}

def RaiseAttention : RaisePass<"raise-attention"> {
  let summary = "Attention and its cache, in operators or as matmul, mask and softmax, to lm.padded_attention";
  let description = [{
    Masks are understood by what they let through: causal, a window of keys, padding by the attention mask input. A mask of any
    other meaning is an error that names the node.
  }];
}

def RaiseActivation : RaisePass<"raise-activation"> {
  let summary = "Gate times up behind a nonlinearity to lm.gated_activation";
  let description = [{ SwiGLU, GeGLU, ReGLU and the clamped form, see `#lm.gated`. }];
}

def RaiseMoe : RaisePass<"raise-moe"> {
  let summary = "Router, experts and their weighted sum to lm.route, lm.grouped_linear and lm.combine";
  let description = [{
    Knows experts as batched matrix products over gathered weights, all experts computed and masked, and com.microsoft.MoE.
    After it only the chosen experts are computed. A probe shows each layer's ids and weights.
  }];
}

def RaiseElementwise : RaisePass<"raise-elementwise"> {
  let summary = "What is elementwise and has no name in lm to arith and math on [B, S, F] tensors";
  let description = [{ Operands of equal shape become arith or math operations, broadcasts a linalg.generic. }];
}

def RaiseSignature : RaisePass<"raise-signature", "::mlir::ModuleOp"> {
  let summary = "Roles of arguments and results, the model's facts, types without names of dimensions";
  let description = [{
    `lm.role` and `lm.layer` follow from how a value is used, never from its name. The module gets `lm.model`. Where graph and
    configuration disagree about a window the graph wins with a warning; `trust-config` takes the configuration's.
  }];
  let options = [
    Option<"configContext", "config-context", "int64_t", "0", "max_position_embeddings of config.json, 0 if unknown">,
    Option<"configWindow", "config-window", "int64_t", "-1", "sliding_window of config.json, 0 for none, -1 if unknown">,
    Option<"trustConfig", "trust-config", "bool", "false", "impose the configuration's window on the graph">,
  ];
}

def VerifyRaised : RaisePass<"verify-raised"> {
  let summary = "Reports every onnx operation that is left; later stages rely on there being none";
  let description = [{ Also checks that logits, cache and token ids were found. }];
}

#endif
