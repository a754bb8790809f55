// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who gets rows in the next step: a pure function of what is queued, running and free. The engine
// asks it before every step and carries its plan out; tests simulate it alone.
#pragma once

#include "runtime/engine/CacheShape.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// One request as the policy sees it.
struct ScheduledRequest {
  uint32_t known = 0;    ///< tokens: prompt and generated
  uint32_t computed = 0; ///< of them in the cache; always fewer than known
};

struct SchedulerView {
  std::span<const ScheduledRequest> running; ///< in order of arrival
  std::span<const ScheduledRequest>
      waiting;                          ///< likewise, all later than the running ones; computed 0
  std::span<const uint32_t> freeBlocks; ///< per cache group
  const CacheShape *shape = nullptr;
  uint32_t maxTokens = 0; ///< rows of one step
  uint32_t maxSeqs = 0;   ///< sequences running at once, at most maxTokens
};

/// Rows for one request: its next `rows` tokens. `index` counts running requests first, then the
/// waiting ones that are admitted.
struct RowShare {
  uint32_t index = 0;
  uint32_t rows = 0;
};

struct StepPlan {
  std::vector<uint32_t>
      preempted; ///< indices into running, youngest first: give all blocks back, queue again
  uint32_t admitted = 0;        ///< so many from the head of waiting begin
  std::vector<RowShare> shares; ///< decode rows, then prefill chunks
  bool empty() const { return shares.empty() && preempted.empty(); }
};

/// First come, first served, with one token budget per step:
///  1. each running request that decodes gets its row, then prefills get chunks, oldest first;
///  2. when blocks run out, the youngest running request is preempted (recomputed later); one that
///     finds no younger one sits the step out;
///  3. then waiting requests are admitted in order while blocks for all their known tokens are free
///     beyond what running prefills will still take, and budget and sequences are left. Nobody
///     overtakes, so nobody starves. Nothing is admitted in a step that preempts.
/// The oldest request always gets on when the pools hold one sequence of the longest context.
void planStep(const SchedulerView &view, StepPlan &plan);

} // namespace sluice
