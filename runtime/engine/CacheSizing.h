// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many blocks each cache group's pool gets, and how long a sequence may become. Pure; asked
// once by Engine::open.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/program/StepRunner.h"

#include <cstdint>
#include <vector>

namespace sluice {

struct CacheWish {
  std::vector<CacheGroupFacts> groups; ///< window and blockBytes; numBlocks is ignored
  uint32_t blockTokens = 16;
  uint64_t contextLimit = 0; ///< tokens of one sequence that are wanted, > 0
  uint32_t seqs = 1;         ///< running at once
  uint32_t tokensPerStep = 1;
  uint64_t kvBytes = 0;  ///< of all pools; at least one block per group must fit
  uint64_t kvBlocks = 0; ///< of a pool without window; 0 = as many as kvBytes allows
};

struct CacheSizes {
  std::vector<uint32_t> numBlocks; ///< per group
  uint64_t contextLimit = 0;       ///< at most the wish, less where a pool holds less
  uint64_t bytes = 0;              ///< of all pools
};

/// Pools without window get n blocks; a pool with a window the n at most that `seqs` sequences can
/// own at once; n is the largest for which all fit kvBytes, and no more than all sequences at full
/// length need. InvalidArgument: kvBytes holds not one block per group.
Result<CacheSizes> sizeCache(const CacheWish &wish);

/// Memory of this machine in bytes.
uint64_t machineMemoryBytes();

} // namespace sluice
