// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// First come, first served, on a running account of free blocks.
#include "runtime/engine/SchedulingPolicy.h"

#include <algorithm>

namespace sluice {
namespace {

// The plan in the making, with the account of what it leaves.
class Planner {
public:
  Planner(const SchedulerView &view, StepPlan &plan)
      : view_(view), shape_(*view.shape), plan_(plan), budget_(view.maxTokens),
        free_(view.freeBlocks.begin(), view.freeBlocks.end()), rows_(view.running.size(), 0),
        alive_(view.running.size(), true) {}

  void planRunning() {
    for (const bool decode : {true, false}) {
      for (uint32_t i = 0; i < view_.running.size(); ++i) {
        const uint32_t left = view_.running[i].known - view_.running[i].computed;
        if (alive_[i] && (left == 1) == decode) {
          give(i, left);
        }
      }
    }
    for (const bool decode : {true, false}) {
      for (uint32_t i = 0; i < view_.running.size(); ++i) {
        const bool decodes = view_.running[i].known - view_.running[i].computed == 1;
        if (alive_[i] && rows_[i] != 0 && decodes == decode) {
          plan_.shares.push_back({i, rows_[i]});
        }
      }
    }
  }

  void admit() {
    auto inUse = static_cast<uint32_t>(view_.running.size());
    for (const ScheduledRequest &request : view_.waiting) {
      if (inUse >= view_.maxSeqs || budget_ == 0 || (inUse != 0 && !hasRoomFor(request))) {
        return;
      }
      const uint32_t rows = fitting(request.computed, std::min(request.known, budget_));
      if (rows == 0) {
        return;
      }
      charge(request.computed, rows);
      budget_ -= rows;
      admitted_.push_back({request, rows});
      plan_.shares.push_back({static_cast<uint32_t>(view_.running.size()) + plan_.admitted, rows});
      ++plan_.admitted;
      ++inUse;
    }
  }

private:
  struct Admitted {
    ScheduledRequest request;
    uint32_t rows;
  };

  // The most rows, at most `wanted`, whose new blocks are free.
  uint32_t fitting(uint32_t computed, uint32_t wanted) const {
    uint64_t least = UINT32_MAX;
    for (const uint32_t blocks : free_) {
      least = std::min<uint64_t>(least, blocks);
    }
    const uint64_t end = (shape_.blocksOf(computed) + least) * shape_.blockTokens;
    return static_cast<uint32_t>(std::min<uint64_t>(wanted, end - computed));
  }

  void charge(uint32_t computed, uint32_t rows) {
    for (uint32_t &blocks : free_) {
      blocks -= shape_.added(computed, rows);
    }
  }

  void give(uint32_t index, uint32_t left) {
    const uint32_t computed = view_.running[index].computed;
    uint32_t rows = fitting(computed, std::min(left, budget_));
    while (rows == 0 && preemptYoungerThan(index)) {
      rows = fitting(computed, std::min(left, budget_));
    }
    charge(computed, rows);
    budget_ -= rows;
    rows_[index] = rows;
  }

  // Preempts the youngest running request if it is younger than `index`. An empty budget is no
  // reason for it.
  bool preemptYoungerThan(uint32_t index) {
    if (budget_ == 0) {
      return false;
    }
    auto victim = static_cast<uint32_t>(view_.running.size());
    while (victim > 0 && !alive_[victim - 1]) {
      --victim;
    }
    if (victim == 0 || victim - 1 <= index) {
      return false;
    }
    --victim;
    const uint32_t computed = view_.running[victim].computed;
    for (size_t group = 0; group < free_.size(); ++group) {
      free_[group] += shape_.held(group, computed) + shape_.added(computed, rows_[victim]);
    }
    budget_ += rows_[victim];
    rows_[victim] = 0;
    alive_[victim] = false;
    plan_.preempted.push_back(victim);
    return true;
  }

  // Blocks that a request will still take beyond `rows` of this step, until all known tokens and
  // the next one are in the cache.
  uint32_t pending(size_t group, const ScheduledRequest &request, uint32_t rows) const {
    const uint64_t length = uint64_t{request.known} + 1;
    const uint64_t largest = std::min<uint64_t>(length - request.computed, view_.maxTokens);
    const uint32_t peak = shape_.peak(group, length, largest);
    const uint32_t has =
        shape_.held(group, request.computed) + shape_.added(request.computed, rows);
    return peak - std::min(peak, has);
  }

  bool hasRoomFor(const ScheduledRequest &request) const {
    for (size_t group = 0; group < free_.size(); ++group) {
      uint64_t needed = pending(group, request, 0);
      for (size_t i = 0; i < view_.running.size(); ++i) {
        needed += pending(group, view_.running[i], rows_[i]);
      }
      for (const Admitted &other : admitted_) {
        needed += pending(group, other.request, other.rows);
      }
      if (needed > free_[group]) {
        return false;
      }
    }
    return true;
  }

  const SchedulerView &view_;
  const CacheShape &shape_;
  StepPlan &plan_;
  uint32_t budget_;            // rows left
  std::vector<uint32_t> free_; // per group, after all shares so far
  std::vector<uint32_t> rows_; // per running request
  std::vector<bool> alive_;    // per running request: not preempted
  std::vector<Admitted> admitted_;
};

} // namespace

void planStep(const SchedulerView &view, StepPlan &plan) {
  plan.preempted.clear();
  plan.shares.clear();
  plan.admitted = 0;
  Planner planner(view, plan);
  planner.planRunning();
  if (plan.preempted.empty()) {
    planner.admit();
  }
}

} // namespace sluice
