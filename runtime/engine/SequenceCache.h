// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cache of one sequence: its block tables and its length. A step reserves blocks, then commits
// or rolls back. Stands between the scheduler's plan and StepInput.
#pragma once

#include "runtime/engine/BlockPool.h"
#include "runtime/engine/CacheShape.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The pools of all cache groups of a program.
struct CachePools {
  CacheShape shape;
  std::vector<BlockPool> pools; ///< per group
};

/// Gives all blocks back when destroyed; not movable, the pools must outlive it.
class SequenceCache {
public:
  explicit SequenceCache(CachePools &pools);
  SequenceCache(const SequenceCache &) = delete;
  SequenceCache &operator=(const SequenceCache &) = delete;
  ~SequenceCache() { clear(); }

  /// Tokens whose keys and values lie in the cache.
  uint32_t length() const { return length_; }
  /// Rows that are reserved and not yet committed.
  uint32_t reserved() const { return reserved_; }

  /// Takes blocks for `rows` more rows in all groups. false: too few are free, nothing is changed.
  /// Only while nothing is reserved.
  [[nodiscard]] bool reserve(uint32_t rows);
  /// The step has run: the reserved rows count, and blocks that no later row can see are given
  /// back.
  void commit();
  /// The step has not run: the reservation is given back.
  void rollback();
  /// Gives all blocks back; length 0.
  void clear();

  /// Block numbers by block index, -1 = dropped. As long as blocksOf(length + reserved).
  std::span<const int32_t> table(size_t group) const { return tables_[group]; }

private:
  void shrink(size_t group, uint32_t blocks);

  CachePools &pools_;
  std::vector<std::vector<int32_t>> tables_; // per group
  std::vector<uint32_t> dropped_;            // per group: table entries [0, dropped) are -1
  uint32_t length_ = 0;
  uint32_t reserved_ = 0;
};

} // namespace sluice
