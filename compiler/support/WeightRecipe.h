// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates weight recipes (lm.weight and what is made of it) in pieces of rows: for the package
// writer, which streams weights larger than memory, and for the interpreter.
#pragma once

#include "compiler/support/WeightStore.h"

#include "mlir/IR/Value.h"
#include "mlir/Support/LLVM.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluicec::support {

/// The stored tensor of a name, or null where there is none.
using WeightResolver = std::function<const WeightTensor *(llvm::StringRef name)>;

/// A resolver of a store's names; the store must outlive it.
WeightResolver resolverOf(const WeightStore &store);

class RecipeNode;

/// One recipe's result, read row by row (dimension 0; a scalar is one row). Reads may run in
/// parallel and may repeat; memory is that of the rows asked for plus a small buffer per
/// conversion. Only a transposed reshape of computed weights is held whole.
class RecipeReader {
public:
  /// Reads `weight`, the result of an operation with WeightOpInterface. Fails, with a diagnostic on
  /// the operation, where a name is unknown, its type or shape is not the operation's, or the
  /// element type has no recipe (less than a byte).
  static mlir::FailureOr<RecipeReader> create(mlir::Value weight, const WeightResolver &resolver);

  llvm::ArrayRef<int64_t> shape() const { return dims; }
  mlir::Type elementType() const { return element; }
  int64_t numRows() const { return dims.empty() ? 1 : dims.front(); }
  int64_t rowElements() const;
  /// Bytes of one row, and of all.
  int64_t rowBytes() const;
  int64_t numBytes() const { return numRows() * rowBytes(); }

  /// Writes rows [firstRow, firstRow + numRows) to `out`, which must have exactly their size.
  /// Fails, with a diagnostic, where a finite value does not fit the type that it is converted to.
  mlir::LogicalResult read(int64_t firstRow, int64_t numRows,
                           llvm::MutableArrayRef<char> out) const;
  /// The same for any range of elements in row-major order: rows of the last dimension of a tensor
  /// of rank 3, for example.
  mlir::LogicalResult readElements(int64_t first, int64_t count,
                                   llvm::MutableArrayRef<char> out) const;
  /// All rows; for small weights and tests.
  mlir::FailureOr<std::vector<char>> readAll() const;

private:
  RecipeReader(std::shared_ptr<const RecipeNode> node, mlir::Type element,
               llvm::ArrayRef<int64_t> dims)
      : node(std::move(node)), element(element), dims(dims) {}

  std::shared_ptr<const RecipeNode> node;
  mlir::Type element;
  llvm::SmallVector<int64_t, 4> dims;
};

/// Text that is equal for two recipes exactly when they compute the same from the same stored
/// tensors by the same steps: the package keeps one copy of such weights.
std::string recipeKey(mlir::Value weight);

} // namespace sluicec::support
