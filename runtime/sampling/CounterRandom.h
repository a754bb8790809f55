// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers that are a pure function of (seed, index): no state, the same on every machine.
// Used by Sampler, so that a request's draws depend neither on its neighbours nor on preemption.
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11,
/// section 3.3): a keyed bijection of 128-bit counters; 10 rounds, multipliers and Weyl constants
/// of the paper.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// A number in [0, 1) with 53 random bits; `seed` is the key, `index` (the position of the
/// generated token) the counter.
inline double uniformAt(uint64_t seed, uint64_t index) {
  const auto words =
      philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53; // exact: 53 bits times a power of two
}

} // namespace sluice
