// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an lm value is while the interpreter runs: dense tensors, the ragged batch of a step, a
// paged cache group.
#pragma once

#include "compiler/reference/PagedCache.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cassert>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace sluicec::reference {

/// Product of sizes.
inline int64_t countElements(llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  return count;
}

/// Row-major elements: floats of any IR type as Real, integers of any width as int64_t. A scalar
/// has no dimensions.
template <typename Real> struct Tensor {
  llvm::SmallVector<int64_t, 4> shape;
  bool isInteger = false;
  std::vector<Real> reals;
  std::vector<int64_t> integers;

  Tensor() = default;
  Tensor(llvm::ArrayRef<int64_t> sizes, bool integer) : shape(sizes), isInteger(integer) {
    auto count = static_cast<size_t>(countElements(shape));
    integer ? integers.resize(count) : reals.resize(count);
  }
  static Tensor ofReals(llvm::ArrayRef<int64_t> sizes, std::vector<Real> elements) {
    Tensor t;
    t.shape.assign(sizes.begin(), sizes.end());
    t.reals = std::move(elements);
    assert(static_cast<int64_t>(t.reals.size()) == countElements(sizes));
    return t;
  }
  static Tensor ofIntegers(llvm::ArrayRef<int64_t> sizes, std::vector<int64_t> elements) {
    Tensor t;
    t.shape.assign(sizes.begin(), sizes.end());
    t.isInteger = true;
    t.integers = std::move(elements);
    assert(static_cast<int64_t>(t.integers.size()) == countElements(sizes));
    return t;
  }

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t numElements() const { return countElements(shape); }
  /// Size of the last dimension, and how many rows of that size there are.
  int64_t features() const { return shape.back(); }
  int64_t rows() const { return countElements(llvm::ArrayRef<int64_t>(shape).drop_back()); }
  const Real *row(int64_t r) const { return reals.data() + r * features(); }
  Real *row(int64_t r) { return reals.data() + r * features(); }
};

/// The ragged batch of one step. Rows are those of activations [T, ..]; between page-kv-cache and
/// pack-tokens those of [B, S, ..] counted through, where padding rows belong to no sequence.
struct Batch {
  std::vector<int64_t> rowSequence; // [rows] number of the sequence in the step, -1 = padding
  std::vector<int64_t>
      rowIndex; // [rows] cache index: how many tokens of the sequence lie before it
  std::vector<int64_t> logitRows; // [R] rows whose logits are wanted
};

/// A cache value: the group's cache at one point of its linear use.
struct CacheValue {
  std::shared_ptr<PagedCache> cache;
  int64_t version = 0; // must be the cache's own: an older value is used up
};

template <typename Real>
using RuntimeValue =
    std::variant<std::shared_ptr<const Tensor<Real>>, std::shared_ptr<const Batch>, CacheValue>;

template <typename Real> RuntimeValue<Real> asValue(Tensor<Real> tensor) {
  return std::make_shared<const Tensor<Real>>(std::move(tensor));
}

} // namespace sluicec::reference
