// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// BlockPool, CacheShape, SequenceCache and CacheSizing.
#include "runtime/engine/SequenceCache.h"

#include "runtime/engine/CacheSizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CachePools pools(uint32_t blocks, uint32_t windowBlocks, uint64_t window = 6) {
  CachePools p;
  p.shape = {4, {0, window}};
  p.pools = {BlockPool(blocks), BlockPool(windowBlocks)};
  return p;
}

std::vector<int32_t> tableOf(const SequenceCache &cache, size_t group) {
  return {cache.table(group).begin(), cache.table(group).end()};
}

TEST(BlockPool, HandsOutEachBlockOnceAndRefusesWhatItDoesNotOwn) {
  BlockPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), -1);
  EXPECT_TRUE(pool.give(1));
  EXPECT_FALSE(pool.give(1)); // twice
  EXPECT_FALSE(pool.give(-1));
  EXPECT_FALSE(pool.give(3));
  EXPECT_EQ(pool.numFree(), 1U);
  EXPECT_EQ(pool.take(), 1); // the warm one
}

TEST(SequenceCache, DropsBlocksThatLeftTheWindow) {
  CachePools p = pools(10, 10);
  SequenceCache cache(p);
  ASSERT_TRUE(cache.reserve(10));
  EXPECT_EQ(cache.length(), 0U);
  EXPECT_THAT(tableOf(cache, 1), ElementsAre(0, 1, 2)); // all rows of a step are written
  cache.commit();
  EXPECT_EQ(cache.length(), 10U);
  // The row at index 10 sees 5 ... 10: block 0 (indices 0 ... 3) has left.
  EXPECT_THAT(tableOf(cache, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(tableOf(cache, 1), ElementsAre(-1, 1, 2));
  EXPECT_EQ(p.pools[1].numFree(), 8U);
  ASSERT_TRUE(cache.reserve(2));
  cache.commit();
  EXPECT_THAT(tableOf(cache, 1), ElementsAre(-1, 1, 2)); // index 12 sees 7 ... 12
  ASSERT_TRUE(cache.reserve(1));
  cache.commit();
  EXPECT_THAT(tableOf(cache, 1), ElementsAre(-1, -1, 2, 0)); // index 13 sees 8 ... 13
  cache.clear();
  EXPECT_EQ(p.pools[0].numFree(), 10U);
  EXPECT_EQ(p.pools[1].numFree(), 10U);
  ASSERT_TRUE(cache.reserve(1)); // usable again
}

TEST(SequenceCache, ReserveIsAllOrNothingAndRollsBack) {
  CachePools p = pools(10, 2);
  SequenceCache cache(p);
  EXPECT_FALSE(cache.reserve(9)); // 3 blocks, group 1 has 2
  EXPECT_EQ(p.pools[0].numFree(), 10U);
  EXPECT_EQ(cache.reserved(), 0U);
  ASSERT_TRUE(cache.reserve(5));
  cache.commit();
  ASSERT_FALSE(cache.reserve(4));
  ASSERT_TRUE(cache.reserve(3)); // no new block
  cache.rollback();
  EXPECT_EQ(cache.length(), 5U);
  EXPECT_EQ(cache.table(0).size(), 2U);
  cache.commit(); // nothing is reserved: nothing happens
  EXPECT_EQ(cache.length(), 5U);
  {
    SequenceCache other(p);
    EXPECT_FALSE(other.reserve(1));
  }
  EXPECT_EQ(p.pools[1].numFree(), 0U);
}

// What the shape promises equals what the tables do, for many windows and chunkings.
TEST(CacheShape, AgreesWithTheTables) {
  for (const uint64_t window : {0U, 1U, 2U, 4U, 5U, 8U, 13U, 64U}) {
    for (const uint32_t chunk : {1U, 3U, 4U, 7U, 30U}) {
      CachePools p = pools(1000, 1000, window);
      SequenceCache cache(p);
      uint32_t most = 0;
      while (cache.length() < 60) {
        const uint32_t rows = std::min(chunk, 60 - cache.length());
        const uint32_t before = p.pools[1].numFree();
        ASSERT_TRUE(cache.reserve(rows));
        EXPECT_EQ(before - p.pools[1].numFree(), p.shape.added(cache.length(), rows));
        most = std::max(most, 1000 - p.pools[1].numFree());
        cache.commit();
        EXPECT_EQ(1000 - p.pools[1].numFree(), p.shape.held(1, cache.length()));
        // What the next row sees is there, the block before it is not.
        const uint32_t first = p.shape.firstBlock(1, cache.length());
        for (size_t b = 0; b < cache.table(1).size(); ++b) {
          EXPECT_EQ(cache.table(1)[b] >= 0, b >= first);
        }
        const uint32_t lowest = window == 0 || cache.length() + 1 < window
                                    ? 0
                                    : cache.length() + 1 - static_cast<uint32_t>(window);
        EXPECT_EQ(first, lowest / 4);
      }
      EXPECT_LE(most, p.shape.peak(1, 60, chunk)) << window << " " << chunk;
      if (window != 0) {
        EXPECT_LE(p.shape.peak(1, 60, chunk), most + 2); // not wasteful
      }
    }
  }
}

CacheWish wish() {
  CacheWish w;
  w.groups = {{0, 100, 0}, {32, 10, 0}};
  w.blockTokens = 16;
  w.contextLimit = 1024;
  w.seqs = 8;
  w.tokensPerStep = 64;
  w.kvBytes = UINT64_MAX;
  return w;
}

TEST(CacheSizing, GivesAllSequencesTheirFullLengthWhenThereIsRoom) {
  const auto sizes = sizeCache(wish());
  ASSERT_TRUE(sizes);
  // 8 sequences * 64 blocks; 8 * (2 + 2) + 4 for the window
  EXPECT_THAT(sizes->numBlocks, ElementsAre(512U, 36U));
  EXPECT_EQ(sizes->contextLimit, 1024U);
  EXPECT_EQ(sizes->bytes, 512U * 100 + 36 * 10);
}

TEST(CacheSizing, StaysWithinMemoryAndShortensTheContext) {
  for (const uint64_t bytes : {110U, 1000U, 5000U, 20000U, 51559U}) {
    CacheWish w = wish();
    w.kvBytes = bytes;
    const auto sizes = sizeCache(w);
    ASSERT_TRUE(sizes) << bytes;
    EXPECT_LE(sizes->bytes, bytes);
    EXPECT_GT(sizes->bytes + 110, bytes); // one more block of each would not fit
    EXPECT_EQ(sizes->contextLimit, std::min<uint64_t>(1024, sizes->numBlocks[0] * 16));
  }
  CacheWish w = wish();
  w.kvBytes = 109;
  const auto none = sizeCache(w);
  EXPECT_EQ(none.error().code(), Code::InvalidArgument);
  EXPECT_THAT(none.error().message(), HasSubstr("at least 110 bytes are needed"));
}

TEST(CacheSizing, BlocksOverrideBytesAndWindowsAloneDoNotLimitTheContext) {
  CacheWish w = wish();
  w.kvBlocks = 20;
  w.kvBytes = 1;
  EXPECT_THAT(sizeCache(w)->numBlocks, ElementsAre(20U, 20U));
  EXPECT_EQ(sizeCache(w)->contextLimit, 320U);
  w.groups = {{32, 10, 0}};
  EXPECT_EQ(sizeCache(w)->contextLimit, 1024U);
  w.kvBlocks = 3; // less than a window and its borders
  EXPECT_EQ(sizeCache(w)->contextLimit, 48U);
  w.groups.clear();
  EXPECT_EQ(sizeCache(w)->contextLimit, 1024U);
  w.groups = {{0, UINT64_MAX / 2, 0}};
  w.kvBlocks = 0;
  w.kvBytes = UINT64_MAX;
  EXPECT_THAT(sizeCache(w)->numBlocks, ElementsAre(2U)); // no overflow
}

} // namespace
} // namespace sluice
