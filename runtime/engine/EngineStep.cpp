// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One step of the engine, a transaction: plan, reserve blocks, run, commit or roll back, then
// sample.
#include "runtime/engine/EngineState.h"

#include <algorithm>
#include <string>

namespace sluice {
namespace {

// The policy looks at no more of a long queue than one step could admit.
size_t lookahead(uint32_t maxSeqs, size_t waiting) { return std::min<size_t>(maxSeqs, waiting); }

uint64_t microsSince(RequestState::Clock::time_point start) {
  const auto elapsed = RequestState::Clock::now() - start;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count());
}

ScheduledRequest viewOf(const RequestState &request) {
  return {static_cast<uint32_t>(request.tokens().size()), request.cache().length()};
}

} // namespace

void StepBuilder::clear() {
  tokenIds_.clear();
  positions_.clear();
  seqStart_.assign(1, 0);
  kvLength_.clear();
  logitRows_.clear();
  caches_.clear();
}

void StepBuilder::add(std::span<const int32_t> tokens, const SequenceCache &cache, Logits logits) {
  const uint32_t rows = cache.reserved();
  for (uint32_t r = 0; r < rows; ++r) {
    if (logits == Logits::All || (logits == Logits::Last && r + 1 == rows)) {
      logitRows_.push_back(static_cast<int32_t>(tokenIds_.size()));
    }
    tokenIds_.push_back(tokens[cache.length() + r]);
    positions_.push_back(static_cast<int32_t>(cache.length() + r));
  }
  seqStart_.push_back(static_cast<int32_t>(tokenIds_.size()));
  kvLength_.push_back(static_cast<int32_t>(cache.length() + rows));
  caches_.push_back(&cache);
}

StepInput StepBuilder::input() {
  size_t maxBlocks = 0;
  for (const SequenceCache *cache : caches_) {
    for (size_t group = 0; group < tables_.size(); ++group) {
      maxBlocks = std::max(maxBlocks, cache->table(group).size());
    }
  }
  for (size_t group = 0; group < tables_.size(); ++group) {
    tables_[group].assign(caches_.size() * maxBlocks, -1);
    for (size_t s = 0; s < caches_.size(); ++s) {
      const auto table = caches_[s]->table(group);
      std::copy(table.begin(), table.end(),
                tables_[group].begin() + static_cast<std::ptrdiff_t>(s * maxBlocks));
    }
    tableViews_[group] = tables_[group];
  }
  StepInput input;
  input.tokenIds = tokenIds_;
  input.positions = positions_;
  input.seqStart = seqStart_;
  input.kvLength = kvLength_;
  input.blockTables = tableViews_;
  input.maxBlocks = static_cast<uint32_t>(maxBlocks);
  input.logitRows = logitRows_;
  return input;
}

void Engine::State::takeCancelled() {
  if (!cancelsPending) {
    return;
  }
  cancelsPending = false;
  for (const auto &[id, request] : live) {
    if (request->cancelWanted() && !request->ended()) {
      request->end(FinishReason::Cancelled, Status::ok());
    }
  }
  removeEnded();
}

// Takes all ended requests out and gives their blocks back; only then their callbacks run, which
// may submit and cancel.
void Engine::State::removeEnded() {
  std::erase(running, nullptr); // the preempted ones stand in the queue
  std::vector<std::unique_ptr<RequestState>> ended;
  const auto takeFrom = [&](auto &requests) {
    const auto first = std::stable_partition(requests.begin(), requests.end(),
                                             [](const auto &request) { return !request->ended(); });
    std::move(first, requests.end(), std::back_inserter(ended));
    requests.erase(first, requests.end());
  };
  takeFrom(running);
  takeFrom(waiting);
  for (const auto &request : ended) {
    live.erase(request->id());
    request->cache().clear();
    ++stats.finished;
  }
  for (const auto &request : ended) {
    request->sendFinish();
  }
}

void Engine::State::makePlan() {
  runningView.clear();
  for (const auto &request : running) {
    runningView.push_back(viewOf(*request));
  }
  waitingView.clear();
  for (size_t i = 0; i < lookahead(maxSeqs, waiting.size()); ++i) {
    waitingView.push_back(viewOf(*waiting[i]));
  }
  freeBlocks.clear();
  for (const BlockPool &pool : pools.pools) {
    freeBlocks.push_back(pool.numFree());
  }
  SchedulerView view;
  view.running = runningView;
  view.waiting = waitingView;
  view.freeBlocks = freeBlocks;
  view.shape = &pools.shape;
  view.maxTokens = runner->facts().capacity.tokens;
  view.maxSeqs = maxSeqs;
  planStep(view, plan);
}

// Preempts, admits and reserves as planned.
Status Engine::State::carryOutPlan() {
  for (uint32_t i = 0; i < plan.admitted; ++i) {
    waiting.front()->markStarted();
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  // Youngest first and each to the front: the queue stays in order of arrival.
  for (const uint32_t index : plan.preempted) {
    running[index]->cache().clear();
    waiting.push_front(std::move(running[index]));
    ++stats.preemptions;
  }
  for (const RowShare &share : plan.shares) {
    if (!running[share.index]->cache().reserve(share.rows)) {
      return internalError("the scheduler planned more cache blocks than are free");
    }
  }
  return Status::ok();
}

Status Engine::State::runShares() {
  builder.clear();
  for (const RowShare &share : plan.shares) {
    const RequestState &request = *running[share.index];
    const bool last = request.cache().length() + share.rows == request.tokens().size();
    builder.add(request.tokens(), request.cache(),
                last ? StepBuilder::Logits::Last : StepBuilder::Logits::None);
  }
  return runner->run(builder.input());
}

void Engine::State::commitShares(uint64_t micros) {
  uint64_t prefillRows = 0;
  uint64_t decodeRows = 0;
  for (const RowShare &share : plan.shares) {
    RequestState &request = *running[share.index];
    const bool decodes = share.rows == 1 && request.cache().length() >= request.promptTokens();
    (decodes ? decodeRows : prefillRows) += share.rows;
    request.cache().commit();
  }
  ++stats.steps;
  stats.prefillTokens += prefillRows;
  stats.decodeTokens += decodeRows;
  const uint64_t prefillPart = micros * prefillRows / (prefillRows + decodeRows);
  stats.prefillMicros += prefillPart;
  stats.decodeMicros += micros - prefillPart;
}

Status Engine::State::step() {
  takeCancelled();
  makePlan();
  if (plan.empty()) {
    if (!running.empty() || !waiting.empty()) {
      return internalError("the scheduler found nothing to do for " +
                           std::to_string(running.size()) + " running and " +
                           std::to_string(waiting.size()) + " waiting requests");
    }
    return Status::ok();
  }
  SLUICE_RETURN_IF_ERROR(carryOutPlan());
  const auto runStart = RequestState::Clock::now();
  const Status ran = plan.shares.empty() ? Status::ok() : runShares();
  if (!ran) { // this step's requests end; their blocks, the reserved ones too, are given back
    for (const RowShare &share : plan.shares) {
      running[share.index]->end(FinishReason::Error, ran);
    }
  } else if (!plan.shares.empty()) {
    commitShares(microsSince(runStart));
    const auto sampleStart = RequestState::Clock::now();
    const Tokenizer *text = tokenizer ? &*tokenizer : nullptr;
    const auto logits = runner->logits(); // [logit rows, vocab] f32, in the order of the shares
    size_t row = 0;
    for (const RowShare &share : plan.shares) {
      RequestState &request = *running[share.index];
      if (request.cache().length() == request.tokens().size()) {
        request.takeLogits(logits.subspan(row * facts.vocab, facts.vocab), text);
        ++row;
      }
    }
    stats.sampleMicros += microsSince(sampleStart);
  }
  removeEnded();
  return Status::ok();
}

} // namespace sluice
