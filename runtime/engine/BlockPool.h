// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which blocks of one cache group's pool are free. Owned by the engine's CachePools; SequenceCache
// takes blocks from it and gives them back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Blocks 0 ... numBlocks - 1. The block given back last is taken first: its memory is warm, and
/// memory that was never needed stays untouched.
class BlockPool {
public:
  explicit BlockPool(uint32_t numBlocks);

  uint32_t numBlocks() const { return static_cast<uint32_t>(owned_.size()); }
  uint32_t numFree() const { return static_cast<uint32_t>(free_.size()); }
  bool isOwned(int32_t block) const { return owned_[static_cast<size_t>(block)] != 0; }

  /// A free block, or -1. Allocates no memory.
  int32_t take();
  /// Gives back a block that take() handed out. false, and nothing done, when it is not owned.
  bool give(int32_t block);

private:
  std::vector<int32_t> free_;  // last = next to be taken
  std::vector<uint8_t> owned_; // [numBlocks]: 1 while a sequence has it
};

} // namespace sluice
