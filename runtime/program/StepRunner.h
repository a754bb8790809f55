// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The step as the engine sees it (design.md 4): what goes in, what comes out, and the interface
// that runs one. Program is the real one; tests of the engine put a recording one in its place.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// Upper bounds of a step's counts; the buffers are allocated for them once.
struct StepCapacity {
  uint32_t tokens = 0;    ///< rows
  uint32_t seqs = 0;      ///< sequences
  uint32_t logitRows = 0; ///< rows whose logits are wanted
  uint32_t maxKv = 0;     ///< cache length of one sequence after the step, in tokens
};

/// One group of layers that share a block table.
struct CacheGroupFacts {
  uint64_t window = 0;     ///< cache indices a row sees, its own included; 0 = all
  uint64_t blockBytes = 0; ///< one block of the pool
  uint32_t numBlocks = 0;  ///< blocks of the pool
};

struct StepFacts {
  uint32_t vocab = 0;
  uint32_t blockTokens = 16; ///< tokens per cache block
  StepCapacity capacity;
  std::vector<CacheGroupFacts> groups;
};

/// A buffer as it stands between two launches; valid during the call only.
struct ProbeView {
  std::string_view name;      ///< "router_ids", "router_weights", "layer_output"
  uint32_t layer = 0;         ///< of the model
  bool isInteger = false;     ///< i32, else f32
  uint64_t rows = 0;          ///< rows of the step
  uint64_t rowWidth = 0;      ///< elements per row
  const void *data = nullptr; ///< [rows, rowWidth] i32 or f32, row-major
};
using ProbeSink = std::function<void(const ProbeView &)>;

/// What one step computes. Row r of sequence s has cache index
/// kvLength[s] - (seqStart[s + 1] - seqStart[s]) + (r - seqStart[s]).
struct StepInput {
  std::span<const int32_t> tokenIds;  ///< [tokens], in [0, vocab)
  std::span<const int32_t> positions; ///< [tokens], >= 0; for rope only
  std::span<const int32_t> seqStart;  ///< [seqs + 1], from 0 to tokens, strictly rising
  std::span<const int32_t> kvLength;  ///< [seqs], after this step
  /// [groups][seqs * maxBlocks]: block numbers of the group's pool, -1 = dropped or not there yet.
  std::span<const std::span<const int32_t>> blockTables;
  uint32_t maxBlocks = 0; ///< row length of each table, >= ceil(max kvLength / blockTokens)
  std::span<const int32_t> logitRows; ///< [logitRows], rows in [0, tokens); may be empty
  const ProbeSink *probes = nullptr;  ///< null = no probes
};

class StepRunner {
public:
  virtual ~StepRunner() = default;
  virtual const StepFacts &facts() const = 0;
  /// Runs the step. InvalidArgument or Capacity: nothing ran. Any other error: the cache of this
  /// step's new rows is undefined, all else as before.
  virtual Status run(const StepInput &input) = 0;
  /// Logits of the last step, [logitRows, vocab] f32, in the order of StepInput::logitRows. Valid
  /// until the next run.
  virtual std::span<const float> logits() const = 0;
};

} // namespace sluice
