// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides cache memory among groups with and without window.
#include "runtime/engine/CacheSizing.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unistd.h>

namespace sluice {
namespace {

// Blocks of a pool are numbered by i32.
constexpr uint64_t kMaxBlocks = uint64_t{1} << 30;

uint64_t blocksFor(uint64_t tokens, uint32_t blockTokens) {
  return tokens / blockTokens + (tokens % blockTokens != 0 ? 1 : 0);
}

// Blocks of one group's pool when pools without window have n.
uint64_t poolBlocks(const CacheWish &wish, const CacheGroupFacts &group, uint64_t n) {
  if (group.window == 0) {
    return n;
  }
  // Each sequence: its window, cut by block borders at both ends; the step's rows once in all.
  const uint64_t perSequence = blocksFor(group.window, wish.blockTokens) + 2;
  return std::min(n, wish.seqs * perSequence + blocksFor(wish.tokensPerStep, wish.blockTokens));
}

// Bytes of all pools; nothing on overflow.
std::optional<uint64_t> allBytes(const CacheWish &wish, uint64_t n) {
  uint64_t total = 0;
  for (const CacheGroupFacts &group : wish.groups) {
    const auto bytes = checkedMul(poolBlocks(wish, group, n), group.blockBytes);
    const auto sum = bytes ? checkedAdd(total, *bytes) : std::nullopt;
    if (!sum) {
      return std::nullopt;
    }
    total = *sum;
  }
  return total;
}

// The largest n in [0, most] for which all pools fit `budget`.
uint64_t largestFitting(const CacheWish &wish, uint64_t most, uint64_t budget) {
  uint64_t low = 0;
  while (low < most) {
    const uint64_t middle = low + (most - low + 1) / 2;
    const auto bytes = allBytes(wish, middle);
    if (bytes && *bytes <= budget) {
      low = middle;
    } else {
      most = middle - 1;
    }
  }
  return low;
}

} // namespace

Result<CacheSizes> sizeCache(const CacheWish &wish) {
  CacheSizes sizes;
  sizes.contextLimit = wish.contextLimit;
  const uint64_t perSequence = blocksFor(wish.contextLimit, wish.blockTokens);
  const uint64_t most =
      std::min(kMaxBlocks, checkedMul(perSequence, wish.seqs).value_or(kMaxBlocks));
  const uint64_t n = wish.kvBlocks != 0 ? std::min(wish.kvBlocks, kMaxBlocks)
                                        : largestFitting(wish, most, wish.kvBytes);
  const auto bytes = allBytes(wish, n);
  if (n == 0 || !bytes) {
    return invalidArgument("cache memory of " + std::to_string(wish.kvBytes) +
                           " bytes is impossible; at least " +
                           std::to_string(allBytes(wish, 1).value_or(0)) + " bytes are needed");
  }
  sizes.bytes = *bytes;
  for (const CacheGroupFacts &group : wish.groups) {
    const uint64_t blocks = poolBlocks(wish, group, n);
    sizes.numBlocks.push_back(static_cast<uint32_t>(blocks));
    // One sequence that goes on row by row owns its window and the block it writes.
    const bool rolls = group.window != 0 && blocks >= blocksFor(group.window, wish.blockTokens) + 2;
    if (!rolls) {
      sizes.contextLimit = std::min(sizes.contextLimit, blocks * wish.blockTokens);
    }
  }
  return sizes;
}

uint64_t machineMemoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long pageBytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && pageBytes > 0
             ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(pageBytes)
             : 0;
}

} // namespace sluice
