// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gate of a feed-forward layer: nonlinearity(gate) * up, in the ways exporters write it. Used
// by raise-activation for dense layers and by raise-moe inside experts.
#pragma once

#include "compiler/raise/RaiseRewriter.h"

namespace sluicec::raise {

/// Values as the graph shows them; `gate` and `up` have one shape.
struct GateMatch {
  mlir::Value gate, up;
  lm::GatedActivationAttr activation;
  llvm::SmallVector<mlir::Operation *> ops;
};

/// Matches the product `root`: act(gate) * (up + beta), clamped or not, the factors in any order.
std::optional<GateMatch> matchGatedActivation(onnx::NodeBinder root);

/// lm.gated_activation where gate and up show the same rows of activations with the same number of
/// features; the result as `root` was typed. False where they don't.
bool raiseGatedActivation(RaiseRewriter &rewriter, onnx::NodeBinder root);

} // namespace sluicec::raise
