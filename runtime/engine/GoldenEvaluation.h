// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds a loaded model against recorded results: golden logits, greedy tokens, experts; and the
// perplexity of given tokens. `sluice eval` prints what these return. File layout: test data's own
// README ("golden/<family>.safetensors").
#pragma once

#include "runtime/base/Safetensors.h"
#include "runtime/engine/Engine.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace sluice {

struct GoldenOptions {
  bool batch = false; ///< all prompts in one ragged batch instead of one after the other
  double rowsWithin =
      0.25; ///< D: a row counts as within when its largest absolute logit error is at most D
  uint32_t chunkRows = 0; ///< rows of a sequence per step; 0 = as many as fit
};

/// One prompt: its own logits, then those of the greedy continuation, fed with the golden tokens.
struct GoldenPrompt {
  double maxAbsError = 0; ///< over prompt and continuation rows
  double rowsWithin = 0;  ///< share of all rows
  int64_t rows = 0;
  int64_t greedyMatched =
      0; ///< steps whose most likely token (lowest id of equals) is the golden one
  int64_t greedyTotal = 0;
  int64_t expertsMatched =
      0; ///< (layer, token) pairs with the golden set of experts; 0 of 0 where none are recorded
  int64_t expertsTotal = 0;
};

/// InvalidArgument names the array that is missing or of another type; errors of Engine::evaluate.
Result<std::vector<GoldenPrompt>> evaluateGolden(Engine &engine, const SafetensorsFile &golden,
                                                 const GoldenOptions &options);

struct PerplexityResult {
  double meanNll = 0; ///< natural log, of tokens 2 ... n of each window
  double perplexity = 0;
  uint64_t tokens = 0; ///< those counted
};

/// `ids` [windows, tokens]; `progress` hears tokens done and in all.
Result<PerplexityResult>
evaluatePerplexity(Engine &engine, const SafetensorsFile &file,
                   const std::function<void(uint64_t, uint64_t)> &progress);

} // namespace sluice
