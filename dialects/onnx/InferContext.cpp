// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What inference rules see of a node.
#include "dialects/onnx/InferContext.h"

using namespace mlir;
using namespace sluicec::onnx;

InferContext::InferContext(NodeOp node, llvm::ArrayRef<TensorFacts> facts)
    : binder(node), operands(facts), results(node->getNumResults()) {}

const TensorFacts &InferContext::operand(size_t index) const {
  static const TensorFacts kNothing;
  return index < operands.size() ? operands[index] : kNothing;
}

void InferContext::setResult(size_t index, Type elementType, std::optional<SymbolicShape> shape) {
  if (index < results.size()) {
    results[index].elementType = elementType;
    results[index].shape = std::move(shape);
  }
}

void InferContext::setValues(size_t index, llvm::SmallVector<SymbolicExpr> values) {
  bool anyKnown =
      llvm::any_of(values, [](const SymbolicExpr &value) { return !value.isUnknown(); });
  if (index < results.size() && values.size() <= kMaxSymbolicValues &&
      (anyKnown || values.empty())) {
    results[index].values = std::move(values);
  }
}

std::optional<llvm::SmallVector<int64_t>> InferContext::constants(size_t index) const {
  const TensorFacts &facts = operand(index);
  if (!facts.values) {
    return std::nullopt;
  }
  llvm::SmallVector<int64_t> result;
  for (const SymbolicExpr &value : *facts.values) {
    std::optional<int64_t> number = value.asConstant();
    if (!number) {
      return std::nullopt;
    }
    result.push_back(*number);
  }
  return result;
}

std::optional<int64_t> InferContext::constantScalar(size_t index) const {
  auto values = constants(index);
  return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
}

FailureOr<int64_t> InferContext::normalizeAxis(int64_t axis, size_t rank) {
  auto signedRank = static_cast<int64_t>(rank);
  if (axis < -signedRank || axis >= signedRank) {
    error() << "axis " << axis << " is outside of a tensor of rank " << rank;
    return failure();
  }
  return axis < 0 ? axis + signedRank : axis;
}
