// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an operator's inference rule sees and answers: types, symbolic shapes and small integer
// values of a node's operands and results. Rules are in ShapeRules*.cpp, named by OnnxOpTable,
// driven by InferShapes.
#pragma once

#include "dialects/onnx/NodeBinder.h"
#include "dialects/onnx/SymbolicExpr.h"

#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Diagnostics.h"

#include <optional>
#include <vector>

namespace sluicec::onnx {

using SymbolicShape = llvm::SmallVector<SymbolicExpr, 4>;

/// What is known about a tensor. `values` are the elements of an integer or bool tensor in
/// row-major order, where it is small (kMaxSymbolicValues) and at least one of them is known.
struct TensorFacts {
  mlir::Type elementType;             // null: unknown
  std::optional<SymbolicShape> shape; // no value: rank unknown
  std::optional<llvm::SmallVector<SymbolicExpr>> values;

  std::optional<size_t> rank() const {
    return shape ? std::optional<size_t>(shape->size()) : std::nullopt;
  }
};
constexpr size_t kMaxSymbolicValues = 1024;

class InferContext {
public:
  InferContext(NodeOp node, llvm::ArrayRef<TensorFacts> operands);

  NodeBinder binder;
  llvm::ArrayRef<TensorFacts> operands; // absent operands have a null element type and no shape
  std::vector<TensorFacts> results;     // as many as the node has
  /// What each subgraph yields, inferred before the rule runs.
  std::vector<std::vector<TensorFacts>> subgraphResults;

  bool hasOperand(size_t index) const { return !isNone(binder.operand(index)); }
  /// Facts of operand `index`; empty facts where it is absent.
  const TensorFacts &operand(size_t index) const;
  /// Sets result `index`; ignored where the node does not have it.
  void setResult(size_t index, mlir::Type elementType, std::optional<SymbolicShape> shape);
  void setValues(size_t index, llvm::SmallVector<SymbolicExpr> values);
  /// A size that only the data decide (NonZero): an atom of its own, the same one at each run for
  /// the same value.
  SymbolicExpr dataDependentSize(llvm::StringRef what);
  /// Values of an integer operand where all are known constants.
  std::optional<llvm::SmallVector<int64_t>> constants(size_t index) const;
  /// One element of operand `index` as a constant.
  std::optional<int64_t> constantScalar(size_t index) const;
  /// `axis` counted from the front; error where it is outside [-rank, rank).
  mlir::FailureOr<int64_t> normalizeAxis(int64_t axis, size_t rank);
  /// Starts a diagnostic on the node.
  mlir::InFlightDiagnostic error() { return binder.error(); }
};

} // namespace sluicec::onnx
