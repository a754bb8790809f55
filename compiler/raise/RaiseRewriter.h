// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every raise pass writes with: lm weights and their recipes, layout nodes around raised
// values, replacement, clean-up.
#pragma once

#include "compiler/raise/IndexExpression.h"
#include "compiler/raise/TensorView.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/onnx/NodeBinder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace sluicec::raise {

/// One per pass and function. Replaced operations stay until `finish`, so that views and
/// expressions may keep their values.
class RaiseRewriter {
public:
  explicit RaiseRewriter(mlir::func::FuncOp function);

  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
  TensorViews views;             // layout only
  TensorViews scaledViews{true}; // also through Mul and Div by a number
  IndexExpressions expressions;

  /// Nodes and lm operations of the function's body in order, as they stand now.
  llvm::SmallVector<mlir::Operation *> operations();

  // ---- Weights ----

  /// `value` as an lm weight where it is one: a weight or constant of the file under any chain of
  /// Transpose, Reshape, Slice, Split, Concat, …; null otherwise. Recipes stand at the function's
  /// start.
  mlir::Value weight(mlir::Value value);
  /// The weight under another shape; itself where it has it.
  mlir::Value reshapeWeight(mlir::Value weight, llvm::ArrayRef<int64_t> shape);
  mlir::Value transposeWeight(mlir::Value weight, llvm::ArrayRef<int64_t> perm);
  /// Rows offset + j * stride (j < count) of dimension `dim`.
  mlir::Value sliceWeight(mlir::Value weight, int64_t dim, int64_t offset, int64_t stride,
                          int64_t count);
  mlir::Value concatWeights(llvm::ArrayRef<mlir::Value> weights, int64_t dim);
  /// A weight that a pass made.
  mlir::Value newWeight(llvm::StringRef name, mlir::ElementsAttr value, mlir::Location loc);

  // ---- Activations ----

  /// The type of an f32 activation with `leading` dimensions of `like`'s type and then `features`.
  mlir::RankedTensorType typeLike(mlir::Value like, llvm::ArrayRef<int64_t> features,
                                  unsigned dropped = 1);
  /// Only the features offset + j * stride of a linear or grouped linear's result: the same
  /// operation on a slice of its weight. For anything else, a tensor.extract_slice. The value
  /// itself where all features are wanted.
  mlir::Value selectFeatures(mlir::Value value, int64_t offset, int64_t stride, int64_t count);
  /// The activation whose rows `view` shows, with the shown features only.
  mlir::Value rowsOf(const RowsView &view) {
    return selectFeatures(view.base, view.offset, view.stride, view.count);
  }
  /// `value` as a tensor of `old`'s type, by Reshape. Null where a Reshape cannot say it.
  mlir::Value reshapeLike(mlir::Value value, mlir::Value old);
  /// A [B, S, heads * size] activation as [B, heads, S, size], or [B, S, heads, size] where
  /// `tokensFirst`, typed as `old`.
  mlir::Value headsLike(mlir::Value value, mlir::Value old, bool tokensFirst);
  mlir::Value createNode(mlir::Location loc, llvm::StringRef opType, mlir::ValueRange operands,
                         mlir::Type result, llvm::ArrayRef<mlir::NamedAttribute> attrs = {});

  // ---- Rewriting ----

  void setInsertionPoint(mlir::Operation *op) { builder.setInsertionPoint(op); }
  /// Behind the weights' recipes, where values of arguments alone may stand.
  void setInsertionPointAfterWeights();
  /// All uses of `old` become uses of `value`.
  void replace(mlir::Value old, mlir::Value value) { old.replaceAllUsesWith(value); }
  /// One location for what several nodes become.
  mlir::Location fuse(llvm::ArrayRef<mlir::Operation *> ops);
  /// Operands that are views with all of their base's elements in place become the base; what
  /// nothing uses is erased.
  void finish();

private:
  mlir::Operation *lastWeight = nullptr; // recipes follow one another at the start of the body
  llvm::DenseMap<mlir::Value, mlir::Value> weights;
  llvm::StringMap<mlir::Value> namedWeights;

  template <typename Op, typename... Args> mlir::Value recipe(mlir::Location loc, Args &&...args);
  mlir::Value deriveWeight(mlir::Value value);
  mlir::Value slicedWeight(const onnx::NodeBinder &node, mlir::Value input);
};

/// Erases operations without effect whose results nothing uses, last first.
void eraseUnused(mlir::func::FuncOp function);

/// Makes the function's type what its arguments and returned values are.
void updateFunctionType(mlir::func::FuncOp function);

/// The value itself or, through layout operators, where that shows the same elements in the same
/// order and shape, its base.
mlir::Value skipIdentity(TensorViews &views, mlir::Value value);

/// The number of a scalar (or one-element) constant.
std::optional<double> constantNumber(mlir::Value value);

} // namespace sluicec::raise
