// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of a cache group.
#include "compiler/reference/PagedCache.h"

#include "compiler/support/FloatConversion.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluicec::reference {

PagedCache::PagedCache(lm::CacheType type, int64_t numSequences)
    : cacheType(type), entrySize(type.getKvHeads() * (type.getKeyHead() + type.getValueHead())),
      table(static_cast<size_t>(numSequences)) {}

int64_t PagedCache::takeBlock() {
  auto size = static_cast<size_t>(cacheType.getLayers() * kBlockTokens * entrySize);
  std::vector<double> empty(size, std::numeric_limits<double>::quiet_NaN());
  if (freeBlocks.empty()) {
    blocks.push_back(std::move(empty));
    return static_cast<int64_t>(blocks.size()) - 1;
  }
  int64_t block = freeBlocks.back();
  freeBlocks.pop_back();
  blocks[static_cast<size_t>(block)] = std::move(empty);
  return block;
}

void PagedCache::giveBack(int64_t &entry) {
  if (entry >= 0) {
    freeBlocks.push_back(entry);
    entry = -1;
  }
}

void PagedCache::reserve(int64_t sequence, int64_t length, int64_t newLength) {
  std::vector<int64_t> &own = table[static_cast<size_t>(sequence)];
  if (int64_t window = cacheType.getWindow(); window > 0) {
    // The first new row has index `length` and sees [length - window + 1, length].
    int64_t firstSeen = std::max<int64_t>(0, length - window + 1);
    for (int64_t b = 0;
         b < std::min<int64_t>(firstSeen / kBlockTokens, static_cast<int64_t>(own.size())); ++b) {
      giveBack(own[static_cast<size_t>(b)]);
    }
  }
  while (static_cast<int64_t>(own.size()) * kBlockTokens < newLength) {
    own.push_back(takeBlock());
  }
}

void PagedCache::release(int64_t sequence) {
  for (int64_t &entry : table[static_cast<size_t>(sequence)]) {
    giveBack(entry);
  }
  table[static_cast<size_t>(sequence)].clear();
}

bool PagedCache::write(int64_t sequence, int64_t layer, int64_t index, const double *keys,
                       const double *values) {
  const std::vector<int64_t> &own = table[static_cast<size_t>(sequence)];
  auto b = static_cast<size_t>(index / kBlockTokens);
  if (b >= own.size() || own[b] < 0) {
    return false;
  }
  double *entry = blocks[static_cast<size_t>(own[b])].data() + offsetOf(layer, index);
  mlir::Type element = cacheType.getElement();
  // f32 stands for the reals that the interpreter computes in; what is narrower loses bits here as
  // it will when it runs.
  bool narrow = element.isF16() || element.isBF16();
  auto store = [&](const double *from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      *entry++ = narrow ? support::roundToElement(from[i], element) : from[i];
    }
  };
  store(keys, cacheType.getKvHeads() * cacheType.getKeyHead());
  store(values, cacheType.getKvHeads() * cacheType.getValueHead());
  return true;
}

const double *PagedCache::read(int64_t sequence, int64_t layer, int64_t index) const {
  const std::vector<int64_t> &own = table[static_cast<size_t>(sequence)];
  auto b = static_cast<size_t>(index / kBlockTokens);
  if (index < 0 || b >= own.size() || own[b] < 0) {
    return nullptr;
  }
  const double *entry = blocks[static_cast<size_t>(own[b])].data() + offsetOf(layer, index);
  return std::isnan(*entry) ? nullptr : entry;
}

int64_t PagedCache::blocksInUse() const {
  return static_cast<int64_t>(blocks.size() - freeBlocks.size());
}

} // namespace sluicec::reference
