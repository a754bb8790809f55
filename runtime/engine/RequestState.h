// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A request while the engine has it: its tokens, cache, sampler and text. Private to the engine.
#pragma once

#include "runtime/engine/Request.h"
#include "runtime/engine/SequenceCache.h"
#include "runtime/sampling/Sampler.h"
#include "runtime/sampling/StopMatcher.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/Utf8Stream.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

class RequestState {
public:
  using Clock = std::chrono::steady_clock;

  /// `spec` is checked, its stop tokens are complete. `contextLimit`: tokens, prompt and answer.
  /// Pools and workspace must outlive the request.
  RequestState(RequestId id, RequestSpec spec, CachePools &pools, SamplingWorkspace &workspace,
               uint64_t contextLimit);

  RequestId id() const { return id_; }
  const RequestSpec &spec() const { return spec_; }
  SequenceCache &cache() { return cache_; }
  const SequenceCache &cache() const { return cache_; }
  /// Prompt and generated tokens, without a stop token.
  const std::vector<int32_t> &tokens() const { return tokens_; }
  uint32_t promptTokens() const { return promptTokens_; }
  bool ended() const { return ended_; }
  bool cancelWanted() const { return cancelWanted_; }
  void wantCancel() { cancelWanted_ = true; }

  /// The first step that holds rows of it begins.
  void markStarted();
  /// Samples from the logits [vocab] f32 of its last token, sends the TokenEvent, and ends the
  /// request when that was the last token. `tokenizer` may be null: no text.
  void takeLogits(std::span<const float> logits, const Tokenizer *tokenizer);
  /// Ends it; once.
  void end(FinishReason reason, Status status);
  /// Sends the FinishEvent; after end().
  void sendFinish();

private:
  void addToken(int32_t token, std::span<const float> logits, const Tokenizer *tokenizer);
  uint64_t microsBetween(const std::optional<Clock::time_point> &from,
                         const std::optional<Clock::time_point> &to) const;

  RequestId id_;
  RequestSpec spec_;
  SequenceCache cache_;
  Sampler sampler_;
  Utf8Stream utf8_;
  StopMatcher stops_;
  std::vector<int32_t> tokens_;
  uint32_t promptTokens_;
  uint64_t maxGenerated_; // by maxTokens and the context limit
  uint32_t generated_ = 0;
  bool ended_ = false;
  bool cancelWanted_ = false;
  FinishReason reason_ = FinishReason::Error;
  Status status_;
  int32_t stopToken_ = -1;
  Clock::time_point submitted_ = Clock::now();
  std::optional<Clock::time_point> started_;
  std::optional<Clock::time_point> firstToken_;
};

} // namespace sluice
