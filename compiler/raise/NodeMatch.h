// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small questions about onnx nodes that several raise patterns ask.
#pragma once

#include "dialects/onnx/NodeBinder.h"

#include <optional>
#include <utility>

namespace sluicec::raise {

/// Axes that a reduction works on, counted from the front, from its operand or attribute;
/// std::nullopt where unknown.
std::optional<llvm::SmallVector<int64_t>> reducedAxes(const onnx::NodeBinder &node);
/// True where the reduction or softmax works on the last dimension alone.
bool worksOnLastAxis(const onnx::NodeBinder &node);

/// False for a Squeeze or Unsqueeze whose axes are computed at run time: what the file declares of
/// its result is no proof.
bool hasKnownAxes(const onnx::NodeBinder &node);

/// The two operands of a commutative node with one that `pick` accepts first: {accepted, other}.
template <typename Pick>
std::optional<std::pair<mlir::Value, mlir::Value>> orderOperands(const onnx::NodeBinder &node,
                                                                 Pick pick) {
  if (!node || node.numOperands() != 2) {
    return std::nullopt;
  }
  for (size_t first : {0, 1}) {
    if (pick(node.operand(first))) {
      return std::pair(node.operand(first), node.operand(1 - first));
    }
  }
  return std::nullopt;
}

/// `value` = factor * the first: a Mul or Div by one number; std::nullopt for anything else.
std::optional<std::pair<mlir::Value, double>> scaledByNumber(mlir::Value value);
/// Zeros of any shape.
bool isZeros(mlir::Value value);
/// `value` = the first + a number.
std::optional<std::pair<mlir::Value, double>> plusNumber(mlir::Value value);

} // namespace sluicec::raise
