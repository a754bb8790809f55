// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Type, shape and value inference over a function of onnx.nodes. Import runs it so that values have
// ranked types; raise runs it again after rewrites and reads the symbolic values of shape
// computations.
#pragma once

#include "dialects/onnx/InferContext.h"

#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluicec::onnx {

/// What inference found, by value. Keeps no IR alive: facts of an erased value must not be asked
/// for.
class ShapeFacts {
public:
  /// Facts of `value`; for one that inference has not seen, what its type and a constant's elements
  /// say.
  TensorFacts of(mlir::Value value) const;
  /// Element type, shape as symbolic sizes.
  std::optional<SymbolicShape> shape(mlir::Value value) const { return of(value).shape; }
  /// The symbolic elements of an integer tensor where known ("Concat(Gather(Shape(x)), -1)" is
  /// [s26, -1]).
  std::optional<llvm::SmallVector<SymbolicExpr>> values(mlir::Value value) const {
    return of(value).values;
  }
  void set(mlir::Value value, TensorFacts facts) { table[value] = std::move(facts); }

private:
  llvm::DenseMap<mlir::Value, TensorFacts> table;
};

/// Infers over `function`, whose arguments are typed, and sets the type of every node result and of
/// the function's results. A type that a result already has (the file's value_info) fills what
/// inference leaves open; sizes that inference knows win. Errors, reported on the node: operand
/// types or sizes that the operator does not accept, an element type other than the one that the
/// file states.
mlir::FailureOr<ShapeFacts> inferShapes(mlir::func::FuncOp function);

/// Replaces every integer or bool value whose elements are all known numbers by an onnx.constant,
/// and drops what is then unused.
void foldKnownValues(mlir::func::FuncOp function, const ShapeFacts &facts);

/// Facts that a type states: symbolic sizes from its encoding.
TensorFacts factsOfType(mlir::Type type);
/// The type with these facts: ranked with `#onnx.dims` where a size is symbolic, unranked where the
/// rank is unknown, none where the element type is.
mlir::Type typeOfFacts(mlir::MLIRContext *context, const TensorFacts &facts);
/// A shape as a ranked type.
mlir::RankedTensorType rankedType(llvm::ArrayRef<SymbolicExpr> shape, mlir::Type elementType);

} // namespace sluicec::onnx
