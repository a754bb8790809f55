// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How each part of a recipe gives a range of its elements.
#include "compiler/support/RecipeNodes.h"

#include "compiler/support/FloatConversion.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

using namespace mlir;

namespace sluicec::support {

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) {
    result *= size;
  }
  return result;
}

static SmallVector<int64_t, 4> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 4> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * shape[i];
  }
  return strides;
}

int64_t elementBytes(Type type) {
  if (!isa<IntegerType, FloatType>(type)) {
    return 0;
  }
  if (type.isInteger(1)) {
    return 1; // bool takes a byte
  }
  return type.getIntOrFloatBitWidth() % 8 == 0 ? type.getIntOrFloatBitWidth() / 8 : 0;
}

int64_t RecipeNode::numElements() const { return product(shape); }

// ---- Views ----

RecipeNodePtr StridedView::create(ArrayRef<char> bytes, std::shared_ptr<const void> owner,
                                  RankedTensorType type) {
  return std::make_shared<StridedView>(bytes.data(), std::move(owner),
                                       elementBytes(type.getElementType()), type.getShape(),
                                       rowMajorStrides(type.getShape()));
}

/// out[r, c] = matrix[r * rowStride + c * columnStride], in blocks that stay in the first-level
/// cache both ways.
template <typename Element>
static void copyMatrix(const char *matrix, int64_t rowStride, int64_t columnStride, int64_t rows,
                       int64_t columns, char *out) {
  constexpr int64_t kBlock = 64;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    int64_t r1 = std::min(rows, r0 + kBlock);
    for (int64_t c0 = 0; c0 < columns; c0 += kBlock) {
      int64_t c1 = std::min(columns, c0 + kBlock);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) {
          std::memcpy(out + (r * columns + c) * static_cast<int64_t>(sizeof(Element)),
                      matrix + (r * rowStride + c * columnStride) *
                                   static_cast<int64_t>(sizeof(Element)),
                      sizeof(Element));
        }
      }
    }
  }
}

void StridedView::readMatrix(const char *matrix, int64_t row, int64_t rows, char *out) const {
  size_t rank = shape.size();
  int64_t columns = shape[rank - 1], columnStride = strides[rank - 1];
  int64_t rowStride = rank > 1 ? strides[rank - 2] : 0;
  const char *from = matrix + row * rowStride * width;
  if (columnStride == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out + r * columns * width, from + r * rowStride * width,
                  static_cast<size_t>(columns * width));
    }
    return;
  }
  switch (width) {
  case 1:
    return copyMatrix<uint8_t>(from, rowStride, columnStride, rows, columns, out);
  case 2:
    return copyMatrix<uint16_t>(from, rowStride, columnStride, rows, columns, out);
  case 4:
    return copyMatrix<uint32_t>(from, rowStride, columnStride, rows, columns, out);
  default:
    return copyMatrix<uint64_t>(from, rowStride, columnStride, rows, columns, out);
  }
}

LogicalResult StridedView::read(int64_t first, int64_t count, char *out) const {
  if (ArrayRef<int64_t>(strides) == ArrayRef<int64_t>(rowMajorStrides(shape))) {
    std::memcpy(out, base + first * width, static_cast<size_t>(count * width));
    return success();
  }
  size_t rank = shape.size();
  int64_t columns = shape[rank - 1], matrixRows = rank > 1 ? shape[rank - 2] : 1;
  while (count > 0) {
    int64_t column = first % columns, row = first / columns;
    int64_t rowInMatrix = row % matrixRows, rest = row / matrixRows;
    const char *matrix = base;
    for (size_t d = rank < 2 ? 0 : rank - 2; d-- > 0;) {
      matrix += (rest % shape[d]) * strides[d] * width;
      rest /= shape[d];
    }
    int64_t done;
    if (column == 0 && count >= columns) {
      int64_t rows = std::min(matrixRows - rowInMatrix, count / columns);
      readMatrix(matrix, rowInMatrix, rows, out);
      done = rows * columns;
    } else { // part of a row
      int64_t rowStride = rank > 1 ? strides[rank - 2] : 0;
      done = std::min(count, columns - column);
      const char *from = matrix + (rowInMatrix * rowStride + column * strides[rank - 1]) * width;
      for (int64_t i = 0; i < done; ++i) {
        std::memcpy(out + i * width, from + i * strides[rank - 1] * width,
                    static_cast<size_t>(width));
      }
    }
    first += done;
    count -= done;
    out += done * width;
  }
  return success();
}

// ---- Nodes that compute ----

namespace {

/// The same elements under another shape, where a view cannot express it.
class ReshapedNode : public RecipeNode {
public:
  ReshapedNode(RecipeNodePtr input, ArrayRef<int64_t> shape)
      : RecipeNode(shape, input->width), input(std::move(input)) {}
  LogicalResult read(int64_t first, int64_t count, char *out) const override {
    return input->read(first, count, out);
  }

private:
  RecipeNodePtr input;
};

class SlicedNode : public RecipeNode {
public:
  SlicedNode(RecipeNodePtr input, ArrayRef<int64_t> offsets, ArrayRef<int64_t> steps,
             ArrayRef<int64_t> shape)
      : RecipeNode(shape, input->width), input(std::move(input)), offsets(offsets), steps(steps) {
    // Dimensions behind `split` are whole; with step 1, `split` itself continues the run.
    int64_t d = static_cast<int64_t>(shape.size());
    while (d > 0 && steps[d - 1] == 1 && shape[d - 1] == this->input->shape[d - 1]) {
      run *= shape[--d];
    }
    if (d > 0 && steps[d - 1] == 1) {
      run *= shape[--d];
    }
    split = static_cast<size_t>(d);
  }

  LogicalResult read(int64_t first, int64_t count, char *out) const override {
    auto inputStrides = rowMajorStrides(input->shape);
    while (count > 0) {
      int64_t within = first % run, rest = first / run, from = within;
      for (size_t d = shape.size(); d-- > 0;) {
        int64_t index = 0;
        if (d < split) {
          index = rest % shape[d];
          rest /= shape[d];
        }
        from += (offsets[d] + index * steps[d]) * inputStrides[d];
      }
      int64_t done = std::min(count, run - within);
      if (failed(input->read(from, done, out))) {
        return failure();
      }
      first += done;
      count -= done;
      out += done * width;
    }
    return success();
  }

private:
  RecipeNodePtr input;
  SmallVector<int64_t, 4> offsets, steps;
  int64_t run = 1;  // elements that lie one behind the other in the input
  size_t split = 0; // dimensions before it are walked
};

class ConcatenatedNode : public RecipeNode {
public:
  ConcatenatedNode(SmallVector<RecipeNodePtr> inputs, int64_t dim, ArrayRef<int64_t> shape)
      : RecipeNode(shape, inputs.front()->width), inputs(std::move(inputs)),
        dim(static_cast<size_t>(dim)) {}

  LogicalResult read(int64_t first, int64_t count, char *out) const override {
    int64_t block =
        product(ArrayRef<int64_t>(shape).drop_front(dim)); // of all inputs, for one outer index
    while (count > 0) {
      int64_t outer = first / block, within = first % block;
      size_t i = 0;
      int64_t size = blockOf(i);
      while (within >= size) {
        within -= size;
        size = blockOf(++i);
      }
      int64_t done = std::min(count, size - within);
      if (failed(inputs[i]->read(outer * size + within, done, out))) {
        return failure();
      }
      first += done;
      count -= done;
      out += done * width;
    }
    return success();
  }

private:
  SmallVector<RecipeNodePtr> inputs;
  size_t dim;
  int64_t blockOf(size_t i) const {
    return product(ArrayRef<int64_t>(inputs[i]->shape).drop_front(dim));
  }
};

class ConvertedNode : public RecipeNode {
public:
  ConvertedNode(RecipeNodePtr input, Type from, Type to, Operation *op)
      : RecipeNode(input->shape, elementBytes(to)), input(std::move(input)), from(from), to(to),
        op(op) {}

  LogicalResult read(int64_t first, int64_t count, char *out) const override {
    constexpr int64_t kPiece = 1 << 16; // elements converted at a time
    std::vector<char> piece(static_cast<size_t>(std::min(count, kPiece) * input->width));
    while (count > 0) {
      int64_t done = std::min(count, kPiece);
      if (failed(input->read(first, done, piece.data()))) {
        return failure();
      }
      double overflowed = 0;
      ArrayRef<char> bytes(piece.data(), static_cast<size_t>(done * input->width));
      if (!convertElements(from, bytes, to, {out, static_cast<size_t>(done * width)}, overflowed)) {
        return op->emitError() << "holds " << overflowed << ", which is beyond " << to
                               << "; store the weights in another type (sluicec --weights)";
      }
      first += done;
      count -= done;
      out += done * width;
    }
    return success();
  }

private:
  RecipeNodePtr input;
  Type from, to;
  Operation *op;
};

/// A computed input held in memory, so that it can be transposed; computed at the first read.
class HeldTransposeNode : public RecipeNode {
public:
  HeldTransposeNode(RecipeNodePtr input, ArrayRef<int64_t> perm, ArrayRef<int64_t> shape)
      : RecipeNode(shape, input->width), input(std::move(input)), perm(perm) {}

  LogicalResult read(int64_t first, int64_t count, char *out) const override {
    std::call_once(once, [&] {
      auto bytes = std::make_shared<std::vector<char>>(static_cast<size_t>(numElements() * width));
      if (succeeded(input->read(0, numElements(), bytes->data()))) {
        SmallVector<int64_t, 4> inputStrides = rowMajorStrides(input->shape), strides;
        for (int64_t p : perm) {
          strides.push_back(inputStrides[static_cast<size_t>(p)]);
        }
        const char *base = bytes->data();
        held.emplace(base, std::move(bytes), width, shape, strides);
      }
    });
    return held ? held->read(first, count, out) : failure();
  }

private:
  RecipeNodePtr input;
  SmallVector<int64_t, 4> perm;
  mutable std::once_flag once;
  mutable std::optional<StridedView> held;
};

} // namespace

// ---- Construction ----

RecipeNodePtr transposed(RecipeNodePtr input, ArrayRef<int64_t> perm) {
  if (llvm::is_sorted(perm)) {
    return input;
  }
  SmallVector<int64_t, 4> shape, strides;
  const StridedView *view = input->asView();
  for (int64_t p : perm) {
    shape.push_back(input->shape[static_cast<size_t>(p)]);
    strides.push_back(view ? view->strides[static_cast<size_t>(p)] : 0);
  }
  if (!view) {
    return std::make_shared<HeldTransposeNode>(std::move(input), perm, shape);
  }
  return std::make_shared<StridedView>(view->base, view->owner, view->width, shape, strides);
}

/// Strides of a view under another shape, where each group of dimensions is split or joined in
/// place.
static std::optional<SmallVector<int64_t, 4>> reshapedStrides(const StridedView &view,
                                                              ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 4> strides(shape.size(), 1);
  size_t i = view.shape.size(), o = shape.size();
  while (i > 0 || o > 0) {
    // The smallest groups of trailing dimensions, input and output, with equally many elements.
    size_t iEnd = i, oEnd = o;
    int64_t in = i > 0 ? view.shape[--i] : 1, out = o > 0 ? shape[--o] : 1;
    while (in != out) {
      if (in < out && i > 0) {
        in *= view.shape[--i];
      } else if (out < in && o > 0) {
        out *= shape[--o];
      } else {
        return std::nullopt;
      }
    }
    // Inside a group the input must be evenly spaced.
    int64_t step = iEnd > i ? view.strides[iEnd - 1] : 1, expected = step;
    for (size_t d = iEnd; d-- > i;) {
      if (view.shape[d] != 1 && view.strides[d] != expected) {
        return std::nullopt;
      }
      expected *= view.shape[d];
    }
    for (size_t d = oEnd; d-- > o;) {
      strides[d] = step;
      step *= shape[d];
    }
  }
  return strides;
}

RecipeNodePtr reshaped(RecipeNodePtr input, ArrayRef<int64_t> shape) {
  if (const StridedView *view = input->asView()) {
    if (auto strides = reshapedStrides(*view, shape)) {
      return std::make_shared<StridedView>(view->base, view->owner, view->width, shape, *strides);
    }
  }
  return std::make_shared<ReshapedNode>(std::move(input), shape);
}

RecipeNodePtr sliced(RecipeNodePtr input, ArrayRef<int64_t> offsets, ArrayRef<int64_t> steps,
                     ArrayRef<int64_t> shape) {
  const StridedView *view = input->asView();
  if (!view) {
    return std::make_shared<SlicedNode>(std::move(input), offsets, steps, shape);
  }
  const char *base = view->base;
  SmallVector<int64_t, 4> strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    base += offsets[d] * view->strides[d] * view->width;
    strides.push_back(view->strides[d] * steps[d]);
  }
  return std::make_shared<StridedView>(base, view->owner, view->width, shape, strides);
}

RecipeNodePtr concatenated(SmallVector<RecipeNodePtr> inputs, int64_t dim,
                           ArrayRef<int64_t> shape) {
  return std::make_shared<ConcatenatedNode>(std::move(inputs), dim, shape);
}

RecipeNodePtr converted(RecipeNodePtr input, Type from, Type to, Operation *op) {
  if (from == to) {
    return input;
  }
  return std::make_shared<ConvertedNode>(std::move(input), from, to, op);
}

} // namespace sluicec::support
