// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stack of free blocks.
#include "runtime/engine/BlockPool.h"

namespace sluice {

BlockPool::BlockPool(uint32_t numBlocks) : owned_(numBlocks, 0) {
  free_.reserve(numBlocks);
  for (uint32_t i = numBlocks; i > 0; --i) {
    free_.push_back(static_cast<int32_t>(i - 1));
  }
}

int32_t BlockPool::take() {
  if (free_.empty()) {
    return -1;
  }
  const int32_t block = free_.back();
  free_.pop_back();
  owned_[static_cast<size_t>(block)] = 1;
  return block;
}

bool BlockPool::give(int32_t block) {
  if (block < 0 || static_cast<size_t>(block) >= owned_.size() || !isOwned(block)) {
    return false;
  }
  owned_[static_cast<size_t>(block)] = 0;
  free_.push_back(block); // within the reserved capacity
  return true;
}

} // namespace sluice
