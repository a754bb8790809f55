// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which elements of which tensor a value shows: chains of Reshape, Transpose, Slice, Split, Expand
// and the like reduced to one strided form, so that raise patterns ask "are these the heads of that
// activation" instead of matching such chains.
#pragma once

#include "dialects/onnx/InferContext.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Value.h"

#include <optional>

namespace sluicec::raise {

using onnx::SymbolicExpr;
using onnx::SymbolicShape;

/// Symbolic sizes of a ranked tensor; empty where the type has no rank.
SymbolicShape shapeOf(mlir::Value value);

/// `size` steps of `stride` along dimension `dim` of the base; dim -1 repeats the same elements.
struct ViewPiece {
  int64_t dim = -1;
  SymbolicExpr stride;
  SymbolicExpr size;

  bool isRepeat() const { return dim < 0; }
  bool operator==(const ViewPiece &other) const {
    return dim == other.dim && size == other.size && (isRepeat() || stride == other.stride);
  }
};

/// Element (i0, i1, …) of the value is `scale` times the element of `base` at offsets[d] + the sum
/// of index times stride over all pieces of base dimension d. Pieces of one value dimension stand
/// in row-major order, merged where they are contiguous; a dimension of size 1 has none.
struct TensorView {
  mlir::Value base;
  llvm::SmallVector<llvm::SmallVector<ViewPiece, 2>, 4> dims;
  llvm::SmallVector<int64_t, 4> offsets; // one per base dimension
  double scale = 1.0;

  /// True where the value has the base's elements in the base's order and shape.
  bool isIdentity() const;
  /// All pieces in row-major order.
  llvm::SmallVector<ViewPiece, 8> pieces() const;
};

/// Rows of a [.., F] base with the leading dimensions in their order, however grouped; each row
/// perhaps several times in succession, of which a range of features may be shown.
struct RowsView {
  mlir::Value base;
  int64_t repeats = 1; // how often each row comes in succession
  int64_t offset = 0;  // first feature
  int64_t stride = 1;  // distance of features
  int64_t count = 0;   // features shown
  int64_t baseFeatures = 0;
  bool wholeRows() const { return offset == 0 && stride == 1 && count == baseFeatures; }
};

/// Heads of a [B, S, F] base: the value is [B, heads, S, size] or, where `tokensFirst`, [B, S,
/// heads, size].
struct HeadsView {
  mlir::Value base;
  int64_t heads = 0;
  int64_t size = 0;
  int64_t headStride = 0; // distance of heads; `size` where they are shown whole
  int64_t offset = 0;     // first feature of head 0
  int64_t baseFeatures = 0;
  bool tokensFirst = false;
  double scale = 1.0;
  bool wholeHeads() const { return headStride == size; }
  bool wholeRows() const { return offset == 0 && wholeHeads() && heads * size == baseFeatures; }
};

/// Keys or values as [B, G * repeats, T, D] or, where `transposed`, [B, G * repeats, D, T]. The
/// base is a cache-like [B, G, T, D] or, where `flat`, the heads of a [B, S, F] activation.
struct CacheView {
  mlir::Value base;
  int64_t heads = 0;   // G
  int64_t repeats = 1; // each head this often in succession
  int64_t size = 0;    // D
  int64_t offset = 0;  // first feature, where flat
  bool transposed = false, flat = false;
  double scale = 1.0;
};

/// Computes and keeps views. IR that a pass adds is seen; a value must not be erased while the
/// object lives.
class TensorViews {
public:
  /// `throughScale` also looks through Mul and Div by one constant number (the view's scale).
  explicit TensorViews(bool throughScale = false) : throughScale(throughScale) {}

  const TensorView &of(mlir::Value value);
  std::optional<RowsView> rows(mlir::Value value);
  std::optional<HeadsView> heads(mlir::Value value);
  std::optional<CacheView> cache(mlir::Value value);

private:
  bool throughScale;
  llvm::DenseMap<mlir::Value, std::unique_ptr<TensorView>> known;

  std::optional<TensorView> derive(mlir::Value value);
};

} // namespace sluicec::raise
