// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of a weight recipe's reader (WeightRecipe.h): each gives any range of its elements in
// row-major order.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/Support/LLVM.h"

#include <memory>
#include <vector>

namespace sluicec::support {

/// Bytes of one element; 0 for types that share bytes.
int64_t elementBytes(mlir::Type type);

class RecipeNode {
public:
  RecipeNode(llvm::ArrayRef<int64_t> shape, int64_t width) : shape(shape), width(width) {}
  virtual ~RecipeNode() = default;
  RecipeNode(const RecipeNode &) = delete;
  RecipeNode &operator=(const RecipeNode &) = delete;

  /// Writes elements [first, first + count) to `out`. May be called in parallel.
  virtual mlir::LogicalResult read(int64_t first, int64_t count, char *out) const = 0;
  /// Non-null for a StridedView.
  virtual const class StridedView *asView() const { return nullptr; }

  int64_t numElements() const;

  const llvm::SmallVector<int64_t, 4> shape;
  const int64_t width; // bytes of an element
};

using RecipeNodePtr = std::shared_ptr<const RecipeNode>;

/// Elements in memory: element i of dimension d lies strides[d] elements further on.
class StridedView : public RecipeNode {
public:
  StridedView(const char *base, std::shared_ptr<const void> owner, int64_t width,
              llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides)
      : RecipeNode(shape, width), base(base), owner(std::move(owner)), strides(strides) {}

  /// All of a tensor. `owner` keeps the bytes alive; null where somebody else does.
  static RecipeNodePtr create(llvm::ArrayRef<char> bytes, std::shared_ptr<const void> owner,
                              mlir::RankedTensorType type);

  mlir::LogicalResult read(int64_t first, int64_t count, char *out) const override;
  const StridedView *asView() const override { return this; }

  const char *const base;
  const std::shared_ptr<const void> owner;
  const llvm::SmallVector<int64_t, 4> strides;

private:
  /// Rows [row, row + rows) of the last two dimensions behind `matrix`, whole rows.
  void readMatrix(const char *matrix, int64_t row, int64_t rows, char *out) const;
};

/// Dimension i of the result is dimension perm[i] of the input; an input that is no view is
/// computed and held whole.
RecipeNodePtr transposed(RecipeNodePtr input, llvm::ArrayRef<int64_t> perm);
/// The same elements in row-major order.
RecipeNodePtr reshaped(RecipeNodePtr input, llvm::ArrayRef<int64_t> shape);
RecipeNodePtr sliced(RecipeNodePtr input, llvm::ArrayRef<int64_t> offsets,
                     llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> shape);
RecipeNodePtr concatenated(llvm::SmallVector<RecipeNodePtr> inputs, int64_t dim,
                           llvm::ArrayRef<int64_t> shape);
/// `op` is blamed where a value does not fit.
RecipeNodePtr converted(RecipeNodePtr input, mlir::Type from, mlir::Type to, mlir::Operation *op);

} // namespace sluicec::support
