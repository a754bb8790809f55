// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the places of all buffers; the only place that knows how a step's memory is laid out.
#include "runtime/program/ProgramPlan.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/package/ManifestChecks.h"

#include <algorithm>
#include <string>

namespace sluice {
namespace {

constexpr uint64_t kAlignment = 64; // of every buffer, KernelAbi.h
constexpr uint32_t kMaxCapacity = 1U << 30;

uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Status fault(const std::string &where, const std::string &what) {
  return corrupt("program, " + where + ": " + what + "; compile the package again");
}

Status tooLarge(const std::string &where) {
  return outOfMemory("program, " + where + ": its size overflows; use a smaller context or step");
}

Status checkCapacity(const StepCapacity &capacity, size_t numGroups,
                     const std::vector<uint32_t> &numBlocks) {
  for (const uint32_t limit :
       {capacity.tokens, capacity.seqs, capacity.logitRows, capacity.maxKv}) {
    if (limit == 0 || limit > kMaxCapacity) {
      return invalidArgument("a step's capacity of " + std::to_string(limit) + " is outside [1, " +
                             std::to_string(kMaxCapacity) + "]");
    }
  }
  if (numBlocks.size() != numGroups ||
      std::find(numBlocks.begin(), numBlocks.end(), 0U) != numBlocks.end()) {
    return invalidArgument("the model has " + std::to_string(numGroups) +
                           " cache groups; pools of " + std::to_string(numBlocks.size()) +
                           " were given, or an empty one");
  }
  return Status::ok();
}

// Bytes that the runtime writes into an input at capacity.
uint64_t inputNeed(manifest::InputKind kind, const UnitCounts &counts) {
  constexpr uint64_t kBytes = sizeof(int32_t);
  switch (kind) {
  case manifest::InputKind::TokenIds:
  case manifest::InputKind::Positions:
    return counts.tokens * kBytes;
  case manifest::InputKind::SeqStart:
    return (counts.seqs + 1) * kBytes;
  case manifest::InputKind::KvLength:
    return counts.seqs * kBytes;
  case manifest::InputKind::BlockTable:
    return counts.table * kBytes;
  case manifest::InputKind::LogitRows:
    return counts.logitRows * kBytes;
  }
  return UINT64_MAX;
}

// Appends `bytes` to a region and gives its offset; false on overflow.
bool append(uint64_t &regionBytes, BufferPlace &place) {
  place.offset = regionBytes;
  const auto padded = checkedAdd(place.bytes, kAlignment - 1);
  const auto total =
      padded ? checkedAdd(regionBytes, *padded / kAlignment * kAlignment) : std::nullopt;
  if (!total) {
    return false;
  }
  regionBytes = *total;
  return true;
}

Status placeWorkspace(const manifest::Buffer &buffer, const std::string &where, ProgramPlan &plan,
                      BufferPlace &place) {
  const auto offset =
      offsetAt(*buffer.offset(), plan.counts.tokens, plan.counts.seqs, plan.counts.logitRows);
  if (!offset) {
    return tooLarge(where);
  }
  if (*offset % kAlignment != 0 || !rangeFits(*offset, place.bytes, plan.workspaceBytes)) {
    return fault(where, "[" + std::to_string(*offset) + ", + " + std::to_string(place.bytes) +
                            ") is not aligned to 64 within the workspace of " +
                            std::to_string(plan.workspaceBytes) + " bytes");
  }
  place.region = BufferPlace::Region::Workspace;
  place.offset = *offset;
  return Status::ok();
}

Status placeBuffer(const manifest::Buffer &buffer, const std::string &where, ProgramPlan &plan,
                   BufferPlace &place) {
  if (buffer.kind() == manifest::BufferKind::Cache) {
    place.region = BufferPlace::Region::Cache;
    place.bytes = plan.poolBytes[buffer.group()];
    return Status::ok();
  }
  const auto bytes = bufferBytes(buffer, plan.counts.of(buffer.unit()));
  if (!bytes) {
    return tooLarge(where);
  }
  place.bytes = *bytes;
  switch (buffer.kind()) {
  case manifest::BufferKind::Input:
    place.region = BufferPlace::Region::Inputs;
    if (*bytes < inputNeed(buffer.input(), plan.counts)) {
      return fault(where, "smaller than this input of the step");
    }
    return append(plan.inputBytes, place) ? Status::ok() : tooLarge(where);
  case manifest::BufferKind::Output:
    place.region = BufferPlace::Region::Outputs;
    return append(plan.outputBytes, place) ? Status::ok() : tooLarge(where);
  case manifest::BufferKind::Weight:
    place.region = BufferPlace::Region::Weight;
    return Status::ok();
  case manifest::BufferKind::Workspace:
    return placeWorkspace(buffer, where, plan, place);
  case manifest::BufferKind::Cache:
    break;
  }
  return Status::ok();
}

Status checkEntries(const manifest::Program &program, const UnitCounts &counts) {
  for (uint32_t i = 0; i < program.functions()->size(); ++i) {
    if (!gridCells(*program.functions()->Get(i), counts)) {
      return tooLarge("function " + std::to_string(i));
    }
  }
  for (uint32_t i = 0; i < program.entries()->size(); ++i) {
    if (program.entries()->Get(i)->kind() == manifest::EntryKind::Collective) {
      return unsupported("program, entry " + std::to_string(i) +
                         ": the package is made for several devices; compile it for one");
    }
  }
  return Status::ok();
}

// The output "logits", checked.
Result<uint32_t> findLogits(const manifest::Program &program, uint32_t vocab) {
  for (uint32_t i = 0; i < program.buffers()->size(); ++i) {
    const manifest::Buffer &buffer = *program.buffers()->Get(i);
    if (buffer.kind() != manifest::BufferKind::Output || buffer.name()->string_view() != "logits") {
      continue;
    }
    if (buffer.unit() != manifest::Unit::LogitRows || buffer.per_unit() != vocab ||
        buffer.fixed() != 0 || buffer.element() != manifest::ElementType::F32) {
      return fault("buffer " + std::to_string(i),
                   "logits are not [logit_rows, " + std::to_string(vocab) + "] f32");
    }
    return i;
  }
  return fault("outputs", "no logits");
}

} // namespace

uint64_t UnitCounts::of(manifest::Unit unit) const {
  switch (unit) {
  case manifest::Unit::Fixed:
    return 0; // per_unit counts nothing
  case manifest::Unit::Tokens:
    return tokens;
  case manifest::Unit::Seqs:
    return seqs;
  case manifest::Unit::LogitRows:
    return logitRows;
  case manifest::Unit::Table:
    return table;
  case manifest::Unit::Blocks:
    return blocks;
  }
  return 0;
}

std::optional<int64_t> gridCells(const manifest::Function &function, const UnitCounts &counts) {
  uint64_t cells = 1;
  for (const manifest::GridDim *dim : *function.grid()) {
    const auto counted = checkedMul(counts.of(dim->unit()), dim->per_unit());
    const auto extent = counted ? checkedAdd(*counted, dim->fixed()) : std::nullopt;
    const auto product =
        extent ? checkedMul(cells, *extent / dim->tile() + (*extent % dim->tile() != 0 ? 1 : 0))
               : std::nullopt;
    if (!product) {
      return std::nullopt;
    }
    cells = *product;
  }
  return cells <= INT64_MAX ? std::optional<int64_t>(static_cast<int64_t>(cells)) : std::nullopt;
}

Result<ProgramPlan> ProgramPlan::make(const manifest::Program &program, uint32_t vocab,
                                      const StepCapacity &capacity,
                                      const std::vector<uint32_t> &numBlocks) {
  SLUICE_RETURN_IF_ERROR(checkCapacity(capacity, program.groups()->size(), numBlocks));
  ProgramPlan plan;
  plan.capacity = capacity;
  // Multiples of 64 elements keep every linear offset formula aligned to 64 bytes.
  plan.counts.tokens = roundUp(capacity.tokens, kAlignment);
  plan.counts.seqs = roundUp(capacity.seqs, kAlignment);
  plan.counts.logitRows = roundUp(capacity.logitRows, kAlignment);
  const uint32_t blockTokens = program.kv_block_tokens();
  plan.maxBlocks = capacity.maxKv / blockTokens + (capacity.maxKv % blockTokens != 0 ? 1 : 0);
  plan.counts.table = plan.counts.seqs * plan.maxBlocks; // below 2^61
  for (uint32_t g = 0; g < program.groups()->size(); ++g) {
    const auto bytes = checkedMul(program.groups()->Get(g)->block_bytes(), numBlocks[g]);
    if (!bytes) {
      return tooLarge("cache group " + std::to_string(g));
    }
    plan.poolBytes.push_back(*bytes);
  }
  const auto workspace =
      offsetAt(*program.workspace(), plan.counts.tokens, plan.counts.seqs, plan.counts.logitRows);
  if (!workspace) {
    return tooLarge("workspace");
  }
  plan.workspaceBytes = *workspace;
  plan.buffers.resize(program.buffers()->size());
  for (uint32_t i = 0; i < program.buffers()->size(); ++i) {
    SLUICE_RETURN_IF_ERROR(placeBuffer(*program.buffers()->Get(i), "buffer " + std::to_string(i),
                                       plan, plan.buffers[i]));
  }
  SLUICE_RETURN_IF_ERROR(checkEntries(program, plan.counts));
  const auto logits = findLogits(program, vocab);
  if (!logits) {
    return logits.error();
  }
  plan.logitsBuffer = *logits;
  return plan;
}

} // namespace sluice
