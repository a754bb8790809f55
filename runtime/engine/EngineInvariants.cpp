// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Engine::checkInvariants: what must hold between steps, checked by tests after each one.
#include "runtime/engine/EngineState.h"

#include <string>

namespace sluice {
namespace {

Status broken(const std::string &what) { return internalError("invariant: " + what); }

// The table of one sequence and group; marks its blocks in `owners`.
Status checkTable(const RequestState &request, size_t group, const CacheShape &shape,
                  std::vector<uint32_t> &owners) {
  const SequenceCache &cache = request.cache();
  const auto table = cache.table(group);
  const std::string where =
      "request " + std::to_string(request.id()) + ", group " + std::to_string(group);
  if (cache.reserved() != 0 || table.size() != shape.blocksOf(cache.length())) {
    return broken(where + ": " + std::to_string(table.size()) + " blocks for " +
                  std::to_string(cache.length()) + " tokens");
  }
  const uint32_t first = shape.firstBlock(group, cache.length());
  for (size_t b = 0; b < table.size(); ++b) {
    if ((table[b] < 0) != (b < first)) {
      return broken(where + ": block " + std::to_string(b) + " is " + std::to_string(table[b]) +
                    ", the first one in the window is " + std::to_string(first));
    }
    if (table[b] >= 0) {
      if (static_cast<size_t>(table[b]) >= owners.size()) {
        return broken(where + ": block number out of range");
      }
      ++owners[static_cast<size_t>(table[b])];
    }
  }
  return Status::ok();
}

} // namespace

Status Engine::checkInvariants() const {
  const State &s = *state_;
  if (s.running.size() > s.maxSeqs) {
    return broken("more running requests than sequences of a step");
  }
  RequestId last = 0;
  const auto checkRequest = [&](const RequestState &request, bool waits) {
    if (request.id() <= last) {
      return broken("requests are not in order of arrival");
    }
    last = request.id();
    if (request.ended() || s.live.count(request.id()) == 0) {
      return broken("an ended request is still there");
    }
    if (request.cache().length() >= request.tokens().size() ||
        (waits && request.cache().length() != 0)) {
      return broken("request " + std::to_string(request.id()) +
                    " has more in the cache than it should");
    }
    return Status::ok();
  };
  for (const auto &request : s.running) {
    SLUICE_RETURN_IF_ERROR(checkRequest(*request, false));
  }
  for (const auto &request : s.waiting) {
    SLUICE_RETURN_IF_ERROR(checkRequest(*request, true));
  }
  if (s.live.size() != s.running.size() + s.waiting.size()) {
    return broken("the index of requests has " + std::to_string(s.live.size()) + " entries");
  }
  for (size_t group = 0; group < s.pools.pools.size(); ++group) {
    const BlockPool &pool = s.pools.pools[group];
    std::vector<uint32_t> owners(pool.numBlocks(), 0);
    for (const auto &request : s.running) {
      SLUICE_RETURN_IF_ERROR(checkTable(*request, group, s.pools.shape, owners));
    }
    uint32_t owned = 0;
    for (uint32_t block = 0; block < pool.numBlocks(); ++block) {
      if (owners[block] != (pool.isOwned(static_cast<int32_t>(block)) ? 1U : 0U)) {
        return broken("block " + std::to_string(block) + " of group " + std::to_string(group) +
                      " has " + std::to_string(owners[block]) + " owners");
      }
      owned += owners[block];
    }
    if (owned + pool.numFree() != pool.numBlocks()) {
      return broken("group " + std::to_string(group) + ": " + std::to_string(owned) +
                    " owned and " + std::to_string(pool.numFree()) + " free of " +
                    std::to_string(pool.numBlocks()));
    }
  }
  return Status::ok();
}

} // namespace sluice
