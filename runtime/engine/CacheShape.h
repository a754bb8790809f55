// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many cache blocks a sequence of a given length has and needs: pure arithmetic, shared by the
// scheduler's plans and the sequences' tables so that both always agree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Block b of a sequence holds cache indices [b * blockTokens, (b + 1) * blockTokens).
struct CacheShape {
  uint32_t blockTokens = 16;
  std::vector<uint64_t> windows; ///< per group; 0 = keeps all

  size_t numGroups() const { return windows.size(); }

  /// Blocks that hold indices [0, length).
  uint32_t blocksOf(uint64_t length) const {
    return static_cast<uint32_t>((length + blockTokens - 1) / blockTokens);
  }
  /// The first block that the row at index `length`, or a later one, may see (design.md 4: a row
  /// sees its own index and window - 1 before it).
  uint32_t firstBlock(size_t group, uint64_t length) const {
    const uint64_t window = windows[group];
    return window == 0 || length < window
               ? 0
               : static_cast<uint32_t>((length - window + 1) / blockTokens);
  }
  /// Blocks that a sequence of `length` tokens owns between steps.
  uint32_t held(size_t group, uint64_t length) const {
    const uint32_t end = blocksOf(length);
    return end - std::min(end, firstBlock(group, length));
  }
  /// New blocks for `rows` more rows.
  uint32_t added(uint64_t length, uint64_t rows) const {
    return blocksOf(length + rows) - blocksOf(length);
  }
  /// The most blocks owned at once on the way from 0 to `length` in steps of at most `rows` rows.
  uint32_t peak(size_t group, uint64_t length, uint64_t rows) const {
    const uint32_t all = blocksOf(length);
    const uint64_t window = windows[group];
    if (window == 0) {
      return all;
    }
    // window - 1 indices before the step and its rows, cut by block borders at both ends
    const uint64_t most = (window - 1 + std::min(rows, length)) / blockTokens + 2;
    return static_cast<uint32_t>(std::min<uint64_t>(all, most));
  }
};

} // namespace sluice
