// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fake model as a StepRunner without package and threads, for simulations of the engine: keeps
// its own paged cache and notices every wrong block, and can be told to fail.
#pragma once

#include "runtime/program/StepRunner.h"
#include "test/runtime/FakeModel.h"

#include <algorithm>
#include <limits>
#include <string>

namespace sluice::fake {

class FakeRunner final : public StepRunner {
public:
  FakeRunner(StepCapacity capacity, uint32_t blocks, uint32_t windowBlocks) {
    facts_.vocab = kVocab;
    facts_.blockTokens = kBlockTokens;
    facts_.capacity = capacity;
    facts_.groups = {{0, kBlockInts * 4, blocks}, {kWindow, kBlockInts * 4, windowBlocks}};
    for (const CacheGroupFacts &group : facts_.groups) {
      slots_.emplace_back(uint64_t{group.numBlocks} * kBlockTokens);
    }
  }

  const StepFacts &facts() const override { return facts_; }
  std::span<const float> logits() const override { return logits_; }

  Status run(const StepInput &in) override {
    ++steps;
    rows += in.tokenIds.size();
    if (failAt != 0 && steps == failAt) {
      return internalError("the device fell off the bus");
    }
    SLUICE_RETURN_IF_ERROR(check(in));
    logits_.clear();
    hashes_.assign(2, {});
    for (size_t group = 0; group < 2; ++group) {
      SLUICE_RETURN_IF_ERROR(attend(in, group));
    }
    for (const int32_t row : in.logitRows) {
      const auto r = static_cast<size_t>(row);
      for (uint32_t v = 0; v < kVocab; ++v) {
        logits_.push_back(nanToken == in.tokenIds[r] ? std::numeric_limits<float>::quiet_NaN()
                          : script.empty()           ? logit(hashes_[0][r], hashes_[1][r], v)
                                                     : scripted(in.positions[r], v));
      }
    }
    return Status::ok();
  }

  uint64_t steps = 0;
  uint64_t rows = 0;
  uint64_t failAt = 0;         ///< the step that fails; 0 = none
  int32_t nanToken = -1;       ///< rows of this token give NaN
  std::vector<int32_t> script; ///< position p is followed by script[p + 1], if not empty

private:
  struct Slot {
    int32_t token = -1;
    int32_t index = -1;
  };

  float scripted(int32_t position, uint32_t v) const {
    const auto next = static_cast<size_t>(position) + 1;
    return next < script.size() && script[next] == static_cast<int32_t>(v) ? 1.0F : 0.0F;
  }

  Status check(const StepInput &in) const {
    const StepCapacity &c = facts_.capacity;
    if (in.tokenIds.empty() || in.tokenIds.size() > c.tokens || in.kvLength.size() > c.seqs ||
        in.logitRows.size() > c.logitRows || in.seqStart.size() != in.kvLength.size() + 1 ||
        in.positions.size() != in.tokenIds.size() || in.blockTables.size() != 2) {
      return internalError("fake: counts");
    }
    for (const int32_t length : in.kvLength) {
      if (length <= 0 || static_cast<uint32_t>(length) > c.maxKv) {
        return internalError("fake: cache of " + std::to_string(length) + " tokens");
      }
    }
    return Status::ok();
  }

  Result<size_t> slotOf(const StepInput &in, size_t group, size_t seq, int32_t index) const {
    const auto block = static_cast<size_t>(index) / kBlockTokens;
    if (block >= in.maxBlocks) {
      return internalError("fake: table too short");
    }
    const int32_t number = in.blockTables[group][seq * in.maxBlocks + block];
    if (number < 0 || static_cast<uint32_t>(number) >= facts_.groups[group].numBlocks) {
      return internalError("fake: group " + std::to_string(group) + " misses block " +
                           std::to_string(block));
    }
    return static_cast<size_t>(number) * kBlockTokens + static_cast<size_t>(index) % kBlockTokens;
  }

  // Appends all rows, then hashes what each sees.
  Status attend(const StepInput &in, size_t group) {
    std::vector<bool> written(slots_[group].size(), false);
    for (const bool append : {true, false}) {
      for (size_t s = 0; s < in.kvLength.size(); ++s) {
        const int32_t first = in.kvLength[s] - (in.seqStart[s + 1] - in.seqStart[s]);
        for (int32_t r = in.seqStart[s]; r < in.seqStart[s + 1]; ++r) {
          const int32_t index = first + r - in.seqStart[s];
          if (append) {
            const auto slot = slotOf(in, group, s, index);
            if (!slot) {
              return slot.error();
            }
            if (written[*slot]) {
              return internalError("fake: a cache slot is written twice in one step");
            }
            written[*slot] = true;
            slots_[group][*slot] = {in.tokenIds[static_cast<size_t>(r)], index};
            continue;
          }
          const auto window = static_cast<int32_t>(facts_.groups[group].window);
          uint32_t hash = kSeed;
          for (int32_t i = window == 0 ? 0 : std::max(0, index + 1 - window); i <= index; ++i) {
            const auto slot = slotOf(in, group, s, i);
            if (!slot) {
              return slot.error();
            }
            if (slots_[group][*slot].index != i) {
              return internalError("fake: cache index " + std::to_string(i) + " was overwritten");
            }
            hash = mix(hash, slots_[group][*slot].token, i, kSalt);
          }
          hashes_[group].push_back(hash);
        }
      }
    }
    return Status::ok();
  }

  StepFacts facts_;
  std::vector<std::vector<Slot>> slots_;      // [groups][blocks * kBlockTokens]
  std::vector<std::vector<uint32_t>> hashes_; // [groups][tokens]
  std::vector<float> logits_;                 // [logitRows, vocab]
};

} // namespace sluice::fake
