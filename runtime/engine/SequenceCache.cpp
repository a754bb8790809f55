// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reserve, commit, roll back.
#include "runtime/engine/SequenceCache.h"

#include <algorithm>

namespace sluice {

SequenceCache::SequenceCache(CachePools &pools)
    : pools_(pools), tables_(pools.pools.size()), dropped_(pools.pools.size(), 0) {}

bool SequenceCache::reserve(uint32_t rows) {
  const uint32_t needed = pools_.shape.added(length_, rows);
  for (const BlockPool &pool : pools_.pools) {
    if (pool.numFree() < needed) {
      return false;
    }
  }
  for (size_t group = 0; group < tables_.size(); ++group) {
    for (uint32_t i = 0; i < needed; ++i) {
      tables_[group].push_back(pools_.pools[group].take());
    }
  }
  reserved_ = rows;
  return true;
}

void SequenceCache::commit() {
  length_ += reserved_;
  reserved_ = 0;
  for (size_t group = 0; group < tables_.size(); ++group) {
    std::vector<int32_t> &table = tables_[group];
    const auto first = std::min<uint32_t>(pools_.shape.firstBlock(group, length_),
                                          static_cast<uint32_t>(table.size()));
    for (; dropped_[group] < first; ++dropped_[group]) {
      pools_.pools[group].give(table[dropped_[group]]);
      table[dropped_[group]] = -1;
    }
  }
}

void SequenceCache::shrink(size_t group, uint32_t blocks) {
  std::vector<int32_t> &table = tables_[group];
  while (table.size() > blocks) {
    if (table.back() >= 0) {
      pools_.pools[group].give(table.back());
    }
    table.pop_back();
  }
  dropped_[group] = std::min(dropped_[group], blocks);
}

void SequenceCache::rollback() {
  reserved_ = 0;
  for (size_t group = 0; group < tables_.size(); ++group) {
    shrink(group, pools_.shape.blocksOf(length_));
  }
}

void SequenceCache::clear() {
  length_ = 0;
  rollback();
}

} // namespace sluice
