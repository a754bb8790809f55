// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A "language model" whose logits are a hash of what its attention sees: two cache groups, one with
// a window. Computed by FakeKernels.cpp through the paged cache and by tests from plain token
// lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::fake {

inline constexpr uint32_t kVocab = 32;
inline constexpr uint32_t kBlockTokens = 4;
inline constexpr uint64_t kWindow = 6;                   // of cache group 1; group 0 keeps all
inline constexpr uint32_t kBlockInts = kBlockTokens * 2; // token and cache index of each slot
inline constexpr uint32_t kSalt = 0x5bd1e995;            // lies in the package as a weight
inline constexpr uint32_t kPoison = 0xdeadbeef;          // attention met a block it must not miss
inline constexpr uint32_t kSeed = 2166136261U;

/// One more visible token: the hash depends on order and place.
inline uint32_t mix(uint32_t hash, int32_t token, int32_t index, uint32_t salt) {
  return (hash ^ (static_cast<uint32_t>(token) + 31U * static_cast<uint32_t>(index))) * 16777619U +
         salt;
}

/// Logit v of a row with these hashes of both groups.
inline float logit(uint32_t hash0, uint32_t hash1, uint32_t v) {
  uint32_t x = (hash0 ^ (hash1 << 7 | hash1 >> 25)) * (2 * v + 1);
  x ^= x >> 15;
  x *= 0x2c1b3c6dU;
  x ^= x >> 12;
  return static_cast<float>(x & 0xffffU) / 4096.0F;
}

/// Hash of tokens[0 ... position] as a group with this window sees them.
inline uint32_t hashOf(std::span<const int32_t> tokens, size_t position, uint64_t window) {
  uint32_t hash = kSeed;
  const size_t first = window == 0 || position + 1 < window ? 0 : position + 1 - window;
  for (size_t i = first; i <= position; ++i) {
    hash = mix(hash, tokens[i], static_cast<int32_t>(i), kSalt);
  }
  return hash;
}

/// Logits [kVocab] of the token at `position`.
inline std::vector<float> logitsOf(std::span<const int32_t> tokens, size_t position) {
  std::vector<float> logits;
  for (uint32_t v = 0; v < kVocab; ++v) {
    logits.push_back(logit(hashOf(tokens, position, 0), hashOf(tokens, position, kWindow), v));
  }
  return logits;
}

/// Greedy continuation of `prompt` by `count` tokens; the lowest id wins among equals.
inline std::vector<int32_t> greedy(std::vector<int32_t> tokens, size_t count) {
  std::vector<int32_t> out;
  for (size_t n = 0; n < count; ++n) {
    const std::vector<float> logits = logitsOf(tokens, tokens.size() - 1);
    int32_t best = 0;
    for (uint32_t v = 1; v < kVocab; ++v) {
      best = logits[v] > logits[static_cast<size_t>(best)] ? static_cast<int32_t>(v) : best;
    }
    tokens.push_back(best);
    out.push_back(best);
  }
  return out;
}

} // namespace sluice::fake
