// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One weight in the layout that kernels read, any byte range of it at a time: rows of its recipe
// in, bytes of plain rows or panels out.
#pragma once

#include "compiler/package/PackagedWeights.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace sluicec::package {

/// Reads rows [firstRow, firstRow + numRows) of a recipe's result, seen as [rows, last dimension],
/// row-major, into `out` of exactly that size.
using ReadRows = llvm::function_ref<llvm::Error(int64_t firstRow, int64_t numRows,
                                                llvm::MutableArrayRef<char> out)>;

/// Packs one weight. Not thread-safe: it keeps a buffer between calls. Memory: width rows (panels)
/// or the rows of one call (plain).
class WeightPacker {
public:
  explicit WeightPacker(const PackagedWeight &weight);

  /// Bytes [begin, begin + out.size()) of the packed weight.
  llvm::Error pack(uint64_t begin, llvm::MutableArrayRef<char> out, ReadRows read);

private:
  const PackagedWeight &weight;
  int64_t rows, columns;   // [rows, K] of each matrix; rows counts gate and up
  std::vector<char> slab;  // rows of one panel: [width, K]
  std::vector<char> panel; // a panel, or its part: [k, width]

  llvm::Error packPlain(uint64_t begin, llvm::MutableArrayRef<char> out, ReadRows read);
  llvm::Error packPanels(uint64_t begin, llvm::MutableArrayRef<char> out, ReadRows read);
  /// Rows of panel number `index` into slab; missing ones are 0.
  llvm::Error readPanel(int64_t index, ReadRows read);
  int64_t panelsPerMatrix() const;
};

} // namespace sluicec::package
