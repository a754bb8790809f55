// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Experts as batched products of all rows with all experts, weighted by the router's scores
// scattered into [rows, experts].
#include "compiler/raise/ExpertRaiser.h"
#include "compiler/raise/GatedActivation.h"
#include "compiler/raise/NodeMatch.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

ArrayRef<int64_t> shapeOfWeight(Value weight) {
  return cast<RankedTensorType>(weight.getType()).getShape();
}

/// rows [E, N, K] times weight [E, K, M] (+ bias [E, 1, M]), weight and bias in lm's order [E, M,
/// K] and [E, M].
struct BatchedLinear {
  Value rows, weight, bias;
};
std::optional<BatchedLinear> readBatchedLinear(RaiseRewriter &rewriter, Value value) {
  BatchedLinear linear;
  NodeBinder node(value);
  if (node.is("Add")) {
    auto terms =
        orderOperands(node, [&](Value v) { return static_cast<bool>(rewriter.weight(v)); });
    if (!terms) {
      return std::nullopt;
    }
    linear.bias = rewriter.weight(terms->first);
    node = NodeBinder(terms->second);
  }
  Value weight = node.is("MatMul") ? rewriter.weight(node.operand(1)) : Value();
  if (!weight || shapeOfWeight(weight).size() != 3) {
    return std::nullopt;
  }
  linear.rows = node.operand(0);
  linear.weight = rewriter.transposeWeight(weight, {0, 2, 1});
  if (linear.bias) {
    auto shape = shapeOfWeight(linear.bias), full = shapeOfWeight(linear.weight);
    if (shape.size() != 3 || shape[0] != full[0] || shape[1] != 1 || shape[2] != full[1]) {
      return std::nullopt;
    }
    linear.bias = rewriter.reshapeWeight(linear.bias, {full[0], full[1]});
  }
  return linear;
}

/// offset and stride of the features that `value` shows of `base`; std::nullopt where it isn't a
/// choice of last features.
std::optional<std::pair<int64_t, int64_t>> featuresShown(RaiseRewriter &rewriter, Value value,
                                                         Value base) {
  const TensorView &view = rewriter.views.of(value);
  if (view.base != base || view.dims.size() != 3 || view.dims[2].size() != 1 ||
      view.dims[2][0].dim != 2 || view.offsets[0] != 0 || view.offsets[1] != 0) {
    return std::nullopt;
  }
  std::optional<int64_t> stride = view.dims[2][0].stride.asConstant();
  return stride ? std::optional(std::pair(view.offsets[2], *stride)) : std::nullopt;
}

} // namespace

FailureOr<bool> ExpertRaiser::raiseDenseExperts(NodeBinder node) {
  auto axes = node.is("ReduceSum") ? reducedAxes(node) : std::nullopt;
  NodeBinder product(axes && axes->size() == 1 && axes->front() == 0 &&
                             node.attrInt("keepdims") == 0
                         ? node.operand(0)
                         : Value());
  if (!product.is("Mul")) {
    return false;
  }
  for (size_t side : {0, 1}) {
    // Scores [experts, rows…, 1] from zeros with the chosen ones' weights in their places.
    NodeBinder scatter(rewriter.views.of(product.operand(1 - side)).base);
    int64_t axis = scatter.is("ScatterElements") ? scatter.attrInt("axis") : 0;
    if (!scatter.is("ScatterElements") || (axis != 1 && axis != -1) ||
        scatter.attrString("reduction") != "none" || !isZeros(scatter.operand(0))) {
      continue;
    }
    Value ids = idsOf(scatter.operand(1));
    auto weightRows = rewriter.views.rows(scatter.operand(2));
    const TensorView &scores = rewriter.views.of(product.operand(1 - side));
    bool expertsFirst =
        !scores.dims.empty() && scores.dims[0].size() == 1 && scores.dims[0][0].dim == 1;
    if (!ids || !weightRows || weightRows->base.getDefiningOp() != ids.getDefiningOp() ||
        !expertsFirst) {
      continue;
    }
    auto down = readBatchedLinear(rewriter, rewriter.views.of(product.operand(side)).base);
    auto gated =
        down ? matchGatedActivation(NodeBinder(rewriter.views.of(down->rows).base)) : std::nullopt;
    Value both = gated ? rewriter.views.of(gated->gate).base : Value();
    auto gateUp = both ? readBatchedLinear(rewriter, both) : std::nullopt;
    auto gate = gateUp ? featuresShown(rewriter, gated->gate, both) : std::nullopt;
    auto up = gateUp ? featuresShown(rewriter, gated->up, both) : std::nullopt;
    if (!gate || !up) {
      continue;
    }
    // All experts see the same rows: [repeats of E][rows][K] of an activation.
    const TensorView &rows = rewriter.views.of(gateUp->rows);
    int64_t experts = shapeOfWeight(gateUp->weight)[0], inner = shapeOfWeight(down->weight)[2];
    bool repeated = rows.dims.size() == 3 && rows.dims[0].size() == 1 &&
                    rows.dims[0][0].isRepeat() && rows.dims[0][0].size.isConstant(experts) &&
                    shapeOf(rows.base).size() == 3;
    if (!repeated || shapeOf(rows.base).back().asConstant() != shapeOfWeight(gateUp->weight)[2]) {
      return node.error() << "experts are multiplied with rows that differ between experts";
    }
    ExpertWeights weights;
    weights.gate = rewriter.sliceWeight(gateUp->weight, 1, gate->first, gate->second, inner);
    weights.up = rewriter.sliceWeight(gateUp->weight, 1, up->first, up->second, inner);
    weights.down = down->weight;
    if (gateUp->bias) {
      weights.gateBias = rewriter.sliceWeight(gateUp->bias, 1, gate->first, gate->second, inner);
      weights.upBias = rewriter.sliceWeight(gateUp->bias, 1, up->first, up->second, inner);
    }
    weights.downBias = down->bias;
    Value old = node.op()->getResult(0);
    Value result = emitExperts(rows.base, {weightRows->base, ids}, weights, gated->activation,
                               rewriter.fuse({node.op(), product.op(), scatter.op()}));
    result = rewriter.reshapeLike(result, old);
    if (!result) {
      return node.error() << "sum of experts of an unexpected shape";
    }
    rewriter.replace(old, result);
    return true;
  }
  return false;
}
