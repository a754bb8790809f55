// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small questions about onnx nodes.
#include "compiler/raise/NodeMatch.h"

#include "compiler/raise/RaiseRewriter.h"

using namespace mlir;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

std::optional<SmallVector<int64_t>> sluicec::raise::reducedAxes(const NodeBinder &node) {
  auto type = node.operandType(0);
  if (!type) {
    return std::nullopt;
  }
  SmallVector<int64_t> axes;
  if (node.op().getAttrs().contains("axes")) {
    auto given = node.attrInts("axes");
    axes.assign(given->begin(), given->end());
  } else if (node.operand(1)) {
    auto given = node.constantInts(1);
    if (!given) {
      return std::nullopt;
    }
    axes.assign(given->begin(), given->end());
  } else {
    for (int64_t i = 0; i < type.getRank(); ++i) {
      axes.push_back(i);
    }
  }
  for (int64_t &axis : axes) {
    axis = axis < 0 ? axis + type.getRank() : axis;
  }
  return axes;
}

bool sluicec::raise::hasKnownAxes(const NodeBinder &node) {
  bool hasAxes = node.is("Squeeze") || node.is("Unsqueeze");
  return !hasAxes || node.numOperands() < 2 || !node.operand(1) ||
         onnx::constantValue(node.operand(1));
}

bool sluicec::raise::worksOnLastAxis(const NodeBinder &node) {
  auto type = node.operandType(0);
  if (!type) {
    return false;
  }
  if (node.op().getOpType() == "Softmax") {
    int64_t axis = node.attrInt("axis");
    return axis == -1 || axis == type.getRank() - 1;
  }
  auto axes = reducedAxes(node);
  return axes && axes->size() == 1 && axes->front() == type.getRank() - 1;
}

std::optional<std::pair<Value, double>> sluicec::raise::scaledByNumber(Value value) {
  NodeBinder node(value);
  if (node.is("Mul")) {
    auto order = orderOperands(node, [](Value v) { return constantNumber(v).has_value(); });
    return order ? std::optional(std::pair(order->second, *constantNumber(order->first)))
                 : std::nullopt;
  }
  if (node.is("Div")) {
    std::optional<double> divisor = constantNumber(node.operand(1));
    return divisor ? std::optional(std::pair(node.operand(0), 1.0 / *divisor)) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::pair<Value, double>> sluicec::raise::plusNumber(Value value) {
  NodeBinder node(value);
  auto order = node.is("Add")
                   ? orderOperands(node, [](Value v) { return constantNumber(v).has_value(); })
                   : std::nullopt;
  return order ? std::optional(std::pair(order->second, *constantNumber(order->first)))
               : std::nullopt;
}

bool sluicec::raise::isZeros(Value value) {
  NodeBinder node(value);
  if (node.is("ConstantOfShape")) {
    DenseElementsAttr fill = node.attrTensor("value");
    return !fill ||
           (isa<FloatType>(fill.getElementType()) && fill.getSplatValue<APFloat>().isZero());
  }
  auto constant = dyn_cast_or_null<DenseElementsAttr>(sluicec::onnx::constantValue(value));
  return constant && constant.isSplat() && isa<FloatType>(constant.getElementType()) &&
         constant.getSplatValue<APFloat>().isZero();
}
