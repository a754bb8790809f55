// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cache group as the runtime keeps it: blocks of 16 tokens, given back when they leave the
// window. Reading what was given back or never written is an error, which is what makes the
// interpreter a judge of windows.
#pragma once

#include "dialects/lm/LmDialect.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sluicec::reference {

class PagedCache {
public:
  static constexpr int64_t kBlockTokens = 16;

  explicit PagedCache(lm::CacheType type, int64_t numSequences);

  lm::CacheType type() const { return cacheType; }
  int64_t version = 0; // counts appends

  /// Prepares a step in which `sequence` grows from `length` to `newLength` entries: drops blocks
  /// that no row of this or a later step can see, takes new ones.
  void reserve(int64_t sequence, int64_t length, int64_t newLength);
  /// Forgets a sequence.
  void release(int64_t sequence);

  /// Writes the keys and values of entry `index` of a sequence in a layer, rounded to the group's
  /// element type where that is narrower than f32. False where its block is dropped or was not
  /// reserved.
  bool write(int64_t sequence, int64_t layer, int64_t index, const double *keys,
             const double *values);
  /// Keys [kvHeads, keyHead] of an entry, then its values [kvHeads, valueHead]; null where they
  /// were dropped or never written.
  const double *read(int64_t sequence, int64_t layer, int64_t index) const;

  /// Blocks held by all sequences now: what a window saves.
  int64_t blocksInUse() const;

private:
  lm::CacheType cacheType;
  int64_t entrySize;                       // keys and values of one layer and token
  std::vector<std::vector<int64_t>> table; // [sequences][blocks] into `blocks`, -1 = dropped
  std::vector<std::vector<double>> blocks; // [layers, 16, entrySize], NaN = not written
  std::vector<int64_t> freeBlocks;

  int64_t takeBlock();
  void giveBack(int64_t &entry);
  int64_t offsetOf(int64_t layer, int64_t index) const {
    return (layer * kBlockTokens + index % kBlockTokens) * entrySize;
  }
};

} // namespace sluicec::reference
