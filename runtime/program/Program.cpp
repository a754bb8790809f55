// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocates a program's memory, checks each step's input and walks the launch list.
#include "runtime/program/Program.h"

#include "runtime/package/ManifestChecks.h"
#include "runtime/package/PackageFormat.h"

#include <algorithm>
#include <string>

namespace sluice {
namespace {

std::string number(uint64_t n) { return std::to_string(n); }

Status beyond(const char *what, uint64_t found, uint64_t limit) {
  return capacityReached(std::string("step: ") + number(found) + " " + what + ", the capacity is " +
                         number(limit));
}

// The first value outside [low, high), or none.
Status checkRange(std::span<const int32_t> values, int64_t low, int64_t high, const char *what) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < low || values[i] >= high) {
      return invalidArgument(std::string("step: ") + what + " " + std::to_string(values[i]) +
                             " of row " + number(i) + " is outside [" + std::to_string(low) + ", " +
                             std::to_string(high) + ")");
    }
  }
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<Program>> Program::create(const PackageReader &package,
                                                 std::string_view name, Device &device,
                                                 const ProgramOptions &options) {
  const manifest::Program *program = package.program(name);
  if (program == nullptr) {
    return notFound(package.path() + ": no program named " + std::string(name));
  }
  if (options.code >= package.manifest().code()->size()) {
    return invalidArgument("code " + number(options.code) + " does not exist");
  }
  const uint32_t vocab = package.manifest().model()->vocab();
  auto plan = ProgramPlan::make(*program, vocab, options.capacity, options.numBlocks);
  if (!plan) {
    return plan.error();
  }
  std::unique_ptr<Program> result(new Program(*program, device, std::move(*plan)));
  result->facts_.vocab = vocab;
  result->facts_.blockTokens = program->kv_block_tokens();
  result->facts_.capacity = options.capacity;
  for (uint32_t g = 0; g < program->groups()->size(); ++g) {
    const manifest::CacheGroup &group = *program->groups()->Get(g);
    result->facts_.groups.push_back({group.window(), group.block_bytes(), options.numBlocks[g]});
  }
  SLUICE_RETURN_IF_ERROR(result->allocate(package, options));
  SLUICE_RETURN_IF_ERROR(result->resolveEntries());
  return result;
}

Status Program::allocate(const PackageReader &package, const ProgramOptions &options) {
  std::vector<FunctionSpec> functions;
  for (const manifest::Function *function : *program_.functions()) {
    functions.push_back({function->symbol()->str(), function->scratch_bytes()});
  }
  const manifest::Code &code = *package.manifest().code()->Get(options.code);
  SLUICE_RETURN_IF_ERROR(device_.loadCode(package.section(code.section()), functions));
  const auto allocateInto = [this](DeviceMemory &target, uint64_t bytes) {
    auto memory = device_.allocate(bytes);
    if (memory) {
      target = std::move(*memory);
    }
    return memory ? Status::ok() : memory.error();
  };
  SLUICE_RETURN_IF_ERROR(allocateInto(inputs_, plan_.inputBytes));
  SLUICE_RETURN_IF_ERROR(allocateInto(outputs_, plan_.outputBytes));
  SLUICE_RETURN_IF_ERROR(allocateInto(workspace_, plan_.workspaceBytes));
  pools_.resize(plan_.poolBytes.size());
  for (size_t g = 0; g < pools_.size(); ++g) {
    SLUICE_RETURN_IF_ERROR(allocateInto(pools_[g], plan_.poolBytes[g]));
  }
  for (uint32_t i = 0; i < package.manifest().weights()->size(); ++i) {
    auto weight = device_.place(package.weight(i));
    if (!weight) {
      return weight.error();
    }
    weights_.push_back(std::move(*weight));
  }
  for (uint32_t i = 0; i < program_.buffers()->size(); ++i) {
    const BufferPlace &place = plan_.buffers[i];
    const manifest::Buffer &buffer = *program_.buffers()->Get(i);
    std::byte *base = nullptr;
    switch (place.region) {
    case BufferPlace::Region::Inputs:
      base = inputs_.data();
      break;
    case BufferPlace::Region::Outputs:
      base = outputs_.data();
      break;
    case BufferPlace::Region::Workspace:
      base = workspace_.data();
      break;
    case BufferPlace::Region::Weight:
      base = weights_[buffer.weight()].data();
      break;
    case BufferPlace::Region::Cache:
      base = pools_[buffer.group()].data();
      break;
    }
    buffers_.push_back(base == nullptr ? nullptr : base + place.offset);
  }
  const void *logitsAddress = buffers_[plan_.logitsBuffer];
  if (device_.hostAddress(logitsAddress) == nullptr) {
    hostLogits_.resize(uint64_t{facts_.capacity.logitRows} * facts_.vocab);
  }
  return Status::ok();
}

Status Program::resolveEntries() {
  for (const manifest::Entry *entry : *program_.entries()) {
    Entry resolved;
    resolved.kind = entry->kind();
    resolved.function = entry->function();
    if (entry->few_function() != UINT32_MAX) {
      resolved.fewFunction = entry->few_function();
      resolved.fewRows = entry->few_rows();
    }
    resolved.neededFor = entry->needed_for();
    resolved.firstBuffer = static_cast<uint32_t>(addresses_.size());
    for (const uint32_t buffer : *entry->buffers()) {
      addresses_.push_back(buffers_[buffer]);
    }
    if (entry->kind() == manifest::EntryKind::Probe) {
      resolved.probe = program_.buffers()->Get(entry->buffers()->Get(0));
      resolved.name = entry->name()->string_view();
      resolved.layer = entry->layer();
    }
    entries_.push_back(resolved);
  }
  return Status::ok();
}

Status Program::checkInput(const StepInput &input) const {
  const StepCapacity &capacity = facts_.capacity;
  const size_t tokens = input.tokenIds.size();
  const size_t seqs = input.kvLength.size();
  if (tokens > capacity.tokens) {
    return beyond("rows", tokens, capacity.tokens);
  }
  if (seqs > capacity.seqs) {
    return beyond("sequences", seqs, capacity.seqs);
  }
  if (input.logitRows.size() > capacity.logitRows) {
    return beyond("logit rows", input.logitRows.size(), capacity.logitRows);
  }
  if (tokens == 0 || input.positions.size() != tokens || input.seqStart.size() != seqs + 1 ||
      input.seqStart.front() != 0 || input.seqStart.back() != static_cast<int64_t>(tokens) ||
      input.blockTables.size() != facts_.groups.size()) {
    return invalidArgument("step: no rows, or token_ids, positions, seq_start, kv_length and block "
                           "tables do not agree");
  }
  SLUICE_RETURN_IF_ERROR(checkRange(input.tokenIds, 0, facts_.vocab, "token id"));
  SLUICE_RETURN_IF_ERROR(checkRange(input.positions, 0, INT32_MAX, "position"));
  SLUICE_RETURN_IF_ERROR(checkRange(input.logitRows, 0, static_cast<int64_t>(tokens), "logit row"));
  for (size_t s = 0; s < seqs; ++s) {
    const int64_t rows = int64_t{input.seqStart[s + 1]} - input.seqStart[s];
    if (rows <= 0 || input.kvLength[s] < rows) {
      return invalidArgument("step: sequence " + number(s) + " has " + std::to_string(rows) +
                             " rows and a cache of " + std::to_string(input.kvLength[s]) +
                             " tokens");
    }
    if (static_cast<uint32_t>(input.kvLength[s]) > capacity.maxKv) {
      return beyond("tokens of one sequence", static_cast<uint64_t>(input.kvLength[s]),
                    capacity.maxKv);
    }
  }
  return checkTables(input);
}

Status Program::checkTables(const StepInput &input) const {
  const size_t seqs = input.kvLength.size();
  if (input.maxBlocks > plan_.maxBlocks) {
    return beyond("blocks of one sequence", input.maxBlocks, plan_.maxBlocks);
  }
  for (size_t g = 0; g < facts_.groups.size(); ++g) {
    const auto table = input.blockTables[g];
    if (table.size() != seqs * input.maxBlocks) {
      return invalidArgument("step: block table of group " + number(g) + " has " +
                             number(table.size()) + " entries, expected " +
                             number(seqs * input.maxBlocks));
    }
    SLUICE_RETURN_IF_ERROR(checkRange(table, -1, facts_.groups[g].numBlocks, "block"));
    const auto window = static_cast<int64_t>(facts_.groups[g].window);
    for (size_t s = 0; s < seqs; ++s) {
      // The blocks that this step's rows write or see.
      const int64_t first =
          int64_t{input.kvLength[s]} - (input.seqStart[s + 1] - input.seqStart[s]);
      const int64_t lowest = window == 0 ? 0 : std::max<int64_t>(0, first - window + 1);
      const int64_t begin = lowest / facts_.blockTokens;
      const int64_t last = (int64_t{input.kvLength[s]} - 1) / facts_.blockTokens;
      if (last >= static_cast<int64_t>(input.maxBlocks)) {
        return invalidArgument("step: the block tables are too short for sequence " + number(s));
      }
      const auto row = table.subspan(s * input.maxBlocks, input.maxBlocks);
      for (int64_t b = begin; b <= last; ++b) {
        if (row[static_cast<size_t>(b)] < 0) {
          return invalidArgument("step: group " + number(g) + ", sequence " + number(s) +
                                 ": block " + std::to_string(b) + " is needed and not there");
        }
      }
    }
  }
  return Status::ok();
}

Status Program::fillInput(manifest::InputKind kind, void *target, const StepInput &input,
                          uint32_t group) {
  std::span<const int32_t> source;
  switch (kind) {
  case manifest::InputKind::TokenIds:
    source = input.tokenIds;
    break;
  case manifest::InputKind::Positions:
    source = input.positions;
    break;
  case manifest::InputKind::SeqStart:
    source = input.seqStart;
    break;
  case manifest::InputKind::KvLength:
    source = input.kvLength;
    break;
  case manifest::InputKind::BlockTable:
    source = input.blockTables[group];
    break;
  case manifest::InputKind::LogitRows:
    source = input.logitRows;
    break;
  }
  return source.empty() ? Status::ok()
                        : device_.copyToDevice(target, source.data(), source.size_bytes());
}

Status Program::fillInputs(const StepInput &input) {
  int32_t maxKv = 0;
  for (const int32_t length : input.kvLength) {
    maxKv = std::max(maxKv, length);
  }
  counts_.tokens = static_cast<int32_t>(input.tokenIds.size());
  counts_.seqs = static_cast<int32_t>(input.kvLength.size());
  counts_.logit_rows = static_cast<int32_t>(input.logitRows.size());
  counts_.max_kv = maxKv;
  counts_.max_blocks = static_cast<int32_t>(input.maxBlocks);
  for (uint32_t i = 0; i < program_.buffers()->size(); ++i) {
    const manifest::Buffer &buffer = *program_.buffers()->Get(i);
    if (buffer.kind() == manifest::BufferKind::Input) {
      SLUICE_RETURN_IF_ERROR(fillInput(buffer.input(), buffers_[i], input, buffer.group()));
    }
  }
  return Status::ok();
}

UnitCounts Program::stepCounts() const {
  UnitCounts counts;
  counts.tokens = static_cast<uint64_t>(counts_.tokens);
  counts.seqs = static_cast<uint64_t>(counts_.seqs);
  counts.logitRows = static_cast<uint64_t>(counts_.logit_rows);
  counts.table = counts.seqs * static_cast<uint64_t>(counts_.max_blocks);
  return counts;
}

Status Program::run(const StepInput &input) {
  SLUICE_RETURN_IF_ERROR(checkInput(input));
  SLUICE_RETURN_IF_ERROR(fillInputs(input));
  const uint32_t mode =
      (input.logitRows.empty() ? 0 : kOutputLogits) | (input.probes == nullptr ? 0 : kOutputProbes);
  const UnitCounts counts = stepCounts();
  for (const Entry &entry : entries_) {
    if (entry.kind == manifest::EntryKind::Probe) {
      if (input.probes != nullptr) {
        SLUICE_RETURN_IF_ERROR(runProbe(entry, *input.probes));
      }
      continue;
    }
    // An entry without bits of its own is needed by all modes, also by none.
    if (entry.neededFor != UINT32_MAX && (entry.neededFor & mode) == 0) {
      continue;
    }
    const bool few = entry.fewRows != 0 && input.tokenIds.size() <= entry.fewRows;
    const uint32_t function = few ? entry.fewFunction : entry.function;
    const auto cells = gridCells(*program_.functions()->Get(function), counts);
    if (!cells) {
      return internalError("step: a grid overflows within the capacity");
    }
    if (*cells != 0) {
      SLUICE_RETURN_IF_ERROR(
          device_.launch({function, &counts_, addresses_.data() + entry.firstBuffer, *cells}));
    }
  }
  SLUICE_RETURN_IF_ERROR(device_.finish());
  if (!hostLogits_.empty() && counts_.logit_rows != 0) {
    return device_.copyToHost(hostLogits_.data(), buffers_[plan_.logitsBuffer],
                              counts.logitRows * facts_.vocab * sizeof(float));
  }
  return Status::ok();
}

Status Program::runProbe(const Entry &entry, const ProbeSink &sink) {
  const UnitCounts counts = stepCounts();
  ProbeView view;
  view.name = entry.name;
  view.layer = entry.layer;
  view.isInteger = entry.probe->element() == manifest::ElementType::I32;
  const bool fixed = entry.probe->unit() == manifest::Unit::Fixed;
  view.rows = fixed ? 1 : counts.of(entry.probe->unit());
  view.rowWidth = fixed ? entry.probe->fixed() : entry.probe->per_unit();
  const void *address = addresses_[entry.firstBuffer];
  view.data = device_.hostAddress(address);
  if (view.data == nullptr) {
    hostProbe_.resize(view.rows * view.rowWidth * elementBytes(entry.probe->element()));
    SLUICE_RETURN_IF_ERROR(device_.copyToHost(hostProbe_.data(), address, hostProbe_.size()));
    view.data = hostProbe_.data();
  }
  sink(view);
  return Status::ok();
}

std::span<const float> Program::logits() const {
  const auto count = static_cast<size_t>(counts_.logit_rows) * facts_.vocab;
  const void *data = hostLogits_.empty() ? device_.hostAddress(buffers_[plan_.logitsBuffer])
                                         : static_cast<const void *>(hostLogits_.data());
  return {static_cast<const float *>(data), count};
}

} // namespace sluice
