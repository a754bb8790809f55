// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computing the logits of given tokens: what `sluice eval` and `sluice logits` and the bit tests
// call. Goes through the same steps and cache blocks as requests, without scheduler and sampler.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/program/StepRunner.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

struct EvaluationInput {
  std::span<const std::vector<int32_t>> sequences; ///< each 1 ... contextLimit ids in [0, vocab)
  uint32_t chunkRows = 0;   ///< at most so many rows of a sequence in one step; 0 = as many as fit
  uint32_t maxTogether = 0; ///< sequences side by side; 0 = as many as fit, 1 = one after the other
  bool logits = true;       ///< logits of all rows
  bool probes = false;
};

/// Called on the evaluating thread, rows of one sequence in ascending order. What the arguments
/// point to lives during the call only.
struct EvaluationSink {
  /// logits: [vocab] f32, of the token at `position` of `sequence`.
  std::function<void(size_t sequence, size_t position, std::span<const float> logits)> onLogits;
  /// A probe's rows [position, position + view.rows) of `sequence`; called once per step, probe and
  /// sequence.
  std::function<void(size_t sequence, size_t position, const ProbeView &view)> onProbe;
};

} // namespace sluice
