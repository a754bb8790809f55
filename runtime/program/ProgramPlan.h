// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes and places of a program's buffers at a stated capacity: pure arithmetic on the manifest,
// done once before Program allocates. Everything is checked here, so that a step computes without
// looking.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/package/package_generated.h"
#include "runtime/program/StepRunner.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// What a size may depend on, by manifest::Unit; for a cache buffer `blocks` are its group's.
struct UnitCounts {
  uint64_t tokens = 0;
  uint64_t seqs = 0;
  uint64_t logitRows = 0;
  uint64_t table = 0;  ///< seqs * max_blocks
  uint64_t blocks = 0; ///< of one pool

  uint64_t of(manifest::Unit unit) const;
};

/// Where a buffer lies.
struct BufferPlace {
  enum class Region { Inputs, Outputs, Workspace, Weight, Cache };
  Region region = Region::Workspace;
  uint64_t offset = 0; ///< in the region; Weight: of the weight; Cache: of its group's pool
  uint64_t bytes = 0;  ///< at capacity
};

struct ProgramPlan {
  StepCapacity capacity;            ///< the caller's limits
  UnitCounts counts;                ///< the memory's: capacity rounded up, without blocks
  uint32_t maxBlocks = 0;           ///< block table entries per sequence at capacity
  std::vector<BufferPlace> buffers; ///< as manifest buffers
  uint64_t inputBytes = 0;
  uint64_t outputBytes = 0;
  uint64_t workspaceBytes = 0;
  std::vector<uint64_t> poolBytes; ///< per cache group
  uint32_t logitsBuffer = 0;       ///< index of the output "logits"

  /// InvalidArgument: a capacity is 0 or beyond 2^30, or numBlocks has not one number > 0 per
  /// group; OutOfMemory: a size overflows at this capacity; Corrupt: the manifest contradicts the
  /// step's contract (an input is too small, a buffer lies outside the workspace or is not aligned
  /// to 64, no logits [logit_rows, vocab] f32, a kind of entry this runtime does not know).
  static Result<ProgramPlan> make(const manifest::Program &program, uint32_t vocab,
                                  const StepCapacity &capacity,
                                  const std::vector<uint32_t> &numBlocks);
};

/// Cells of a grid at these counts; nothing when it does not fit 63 bits.
std::optional<int64_t> gridCells(const manifest::Function &function, const UnitCounts &counts);

} // namespace sluice
