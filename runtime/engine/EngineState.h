// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an engine holds. Private to the files of the engine: Engine.cpp opens and answers,
// EngineStep.cpp moves requests on, Evaluation.cpp computes given tokens.
#pragma once

#include "runtime/device/CpuDevice.h"
#include "runtime/engine/Engine.h"
#include "runtime/engine/RequestState.h"
#include "runtime/engine/SchedulingPolicy.h"
#include "runtime/engine/SequenceCache.h"

#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

namespace sluice {

/// The input of one step while it is put together. Reused by all steps: its vectors keep their
/// memory.
class StepBuilder {
public:
  explicit StepBuilder(size_t numGroups) : tables_(numGroups), tableViews_(numGroups) {}

  void clear();
  /// Adds the next cache.reserved() rows of a sequence; `tokens` are all its tokens. `logits`:
  /// which of these rows are logit rows: all, the last, or none.
  enum class Logits { None, Last, All };
  void add(std::span<const int32_t> tokens, const SequenceCache &cache, Logits logits);
  /// Valid until the next clear().
  StepInput input();

private:
  std::vector<int32_t> tokenIds_;                    // [tokens]
  std::vector<int32_t> positions_;                   // [tokens]
  std::vector<int32_t> seqStart_;                    // [seqs + 1]
  std::vector<int32_t> kvLength_;                    // [seqs]
  std::vector<int32_t> logitRows_;                   // [logitRows]
  std::vector<const SequenceCache *> caches_;        // [seqs]
  std::vector<std::vector<int32_t>> tables_;         // [groups][seqs * maxBlocks]
  std::vector<std::span<const int32_t>> tableViews_; // [groups]
};

struct Engine::State {
  State(std::unique_ptr<StepRunner> stepRunner, ModelFacts modelFacts,
        const EngineOptions &engineOptions);

  // Declared so that what is used is destroyed after what uses it: requests give blocks back to
  // pools, the program's memory goes back to the device, its weights lie in the package.
  EngineOptions options;
  ModelFacts facts;
  std::optional<PackageReader> package;
  std::unique_ptr<CpuDevice> device;
  std::unique_ptr<StepRunner> runner;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chatTemplate;
  Status tokenizerStatus;
  Status chatTemplateStatus;
  uint64_t contextLimit = 0;
  uint32_t maxSeqs = 0;

  CachePools pools;
  SamplingWorkspace workspace;
  std::atomic<RequestId> nextId{1};
  std::vector<std::unique_ptr<RequestState>> running; // in order of arrival
  std::deque<std::unique_ptr<RequestState>> waiting;  // likewise, all later than the running ones
  std::unordered_map<RequestId, RequestState *> live; // running and waiting
  bool cancelsPending = false;
  EngineStats stats;
  StepBuilder builder;

  // Reused by every step.
  StepPlan plan;
  std::vector<ScheduledRequest> runningView;
  std::vector<ScheduledRequest> waitingView;
  std::vector<uint32_t> freeBlocks;

  // EngineStep.cpp
  Status step();
  void makePlan();
  Status carryOutPlan();
  Status runShares();
  void commitShares(uint64_t micros);
  void takeCancelled();
  void removeEnded();
};

} // namespace sluice
