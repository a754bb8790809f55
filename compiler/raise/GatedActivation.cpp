// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gates; see GatedActivation.h.
#include "compiler/raise/GatedActivation.h"

#include "compiler/raise/NodeMatch.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

struct Nonlinear {
  lm::ActivationKind kind;
  double alpha = 1.0;
  Value operand;
};

/// x * sigmoid(alpha * x).
std::optional<Nonlinear> matchSilu(NodeBinder node) {
  if (!node.is("Mul")) {
    return std::nullopt;
  }
  for (size_t side : {0, 1}) {
    NodeBinder sigmoid(node.operand(side));
    Value x = node.operand(1 - side);
    if (!sigmoid.is("Sigmoid")) {
      continue;
    }
    if (sigmoid.operand(0) == x) {
      return Nonlinear{lm::ActivationKind::Silu, 1.0, x};
    }
    if (auto scaled = scaledByNumber(sigmoid.operand(0)); scaled && scaled->first == x) {
      return Nonlinear{lm::ActivationKind::Silu, scaled->second, x};
    }
  }
  return std::nullopt;
}

std::optional<Nonlinear> matchNonlinear(Value value) {
  NodeBinder node(value);
  if (!node) {
    return std::nullopt;
  }
  if (node.is("Relu")) {
    return Nonlinear{lm::ActivationKind::Relu, 1.0, node.operand(0)};
  }
  if (node.is("Swish") && node.numOperands() == 1) {
    return Nonlinear{lm::ActivationKind::Silu, node.attrFloat("alpha", 1.0f), node.operand(0)};
  }
  if (node.is("Gelu")) {
    bool tanh = node.attrString("approximate") == "tanh";
    return Nonlinear{tanh ? lm::ActivationKind::GeluTanh : lm::ActivationKind::GeluErf, 1.0,
                     node.operand(0)};
  }
  if (node.is("Gelu", "com.microsoft")) {
    return Nonlinear{lm::ActivationKind::GeluErf, 1.0, node.operand(0)};
  }
  if (node.is("FastGelu", "com.microsoft") && !node.operand(1)) {
    return Nonlinear{lm::ActivationKind::GeluTanh, 1.0, node.operand(0)};
  }
  if (node.is("QuickGelu", "com.microsoft")) {
    return Nonlinear{lm::ActivationKind::Silu, node.attrFloat("alpha"), node.operand(0)};
  }
  return matchSilu(node);
}

/// The operand of a Clip and its limits, infinite where absent.
struct Clipped {
  Value operand;
  double low = -std::numeric_limits<double>::infinity(),
         high = std::numeric_limits<double>::infinity();
};
Clipped clippedOperand(Value value) {
  NodeBinder clip(value);
  Clipped result{value};
  if (clip.is("Clip")) {
    auto low = constantNumber(clip.operand(1)), high = constantNumber(clip.operand(2));
    if ((!clip.operand(1) || low) && (!clip.operand(2) || high)) {
      return {clip.operand(0), low.value_or(result.low), high.value_or(result.high)};
    }
  }
  return result;
}

} // namespace

std::optional<GateMatch> sluicec::raise::matchGatedActivation(NodeBinder root) {
  if (!root.is("Mul")) {
    return std::nullopt;
  }
  for (size_t side : {0, 1}) {
    std::optional<Nonlinear> nonlinear = matchNonlinear(root.operand(side));
    if (!nonlinear) {
      continue;
    }
    GateMatch match;
    match.ops = {root.op(), root.operand(side).getDefiningOp()};
    Value up = root.operand(1 - side);
    double beta = 0.0;
    if (auto sum = plusNumber(up)) {
      beta = sum->second;
      up = sum->first;
    }
    Clipped gate = clippedOperand(nonlinear->operand), bounded = clippedOperand(up);
    // The gate is bounded above alone, up on both sides, by one limit.
    bool bounds = std::isinf(gate.low) && gate.high == bounded.high && bounded.low == -bounded.high;
    if (bounds) {
      match.gate = gate.operand;
      match.up = bounded.operand;
    } else {
      match.gate = nonlinear->operand;
      match.up = up;
    }
    MLIRContext *context = root.op()->getContext();
    auto number = [&](double value) { return FloatAttr::get(Float64Type::get(context), value); };
    match.activation = lm::GatedActivationAttr::get(
        context, nonlinear->kind, number(nonlinear->alpha), number(beta),
        number(bounds ? bounded.high : std::numeric_limits<double>::infinity()));
    return match;
  }
  return std::nullopt;
}

bool sluicec::raise::raiseGatedActivation(RaiseRewriter &rewriter, NodeBinder root) {
  std::optional<GateMatch> match = matchGatedActivation(root);
  if (!match) {
    return false;
  }
  auto gate = rewriter.views.rows(match->gate), up = rewriter.views.rows(match->up);
  if (!gate || !up || gate->repeats != 1 || up->repeats != 1 || gate->count != up->count ||
      isa_and_nonnull<onnx::NodeOp>(gate->base.getDefiningOp()) ||
      isa_and_nonnull<onnx::NodeOp>(up->base.getDefiningOp())) {
    return false;
  }
  Value gateRows = rewriter.rowsOf(*gate), upRows = rewriter.rowsOf(*up);
  SymbolicShape a = shapeOf(gateRows), b = shapeOf(upRows);
  if (a.size() != b.size() || a != b) {
    return false;
  }
  Value old = root.op()->getResult(0);
  Value result =
      lm::GatedActivationOp::create(rewriter.builder, rewriter.fuse(match->ops), gateRows.getType(),
                                    gateRows, upRows, match->activation);
  result = rewriter.reshapeLike(result, old);
  if (!result) {
    return false;
  }
  rewriter.replace(old, result);
  return true;
}
