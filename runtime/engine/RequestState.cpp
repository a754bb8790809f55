// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From logits to a token, from the token to text, from text to events.
#include "runtime/engine/RequestState.h"

#include <algorithm>
#include <utility>

namespace sluice {

const char *finishReasonName(FinishReason reason) {
  switch (reason) {
  case FinishReason::Stop:
    return "stop";
  case FinishReason::Length:
    return "length";
  case FinishReason::Cancelled:
    return "cancelled";
  case FinishReason::Error:
    return "error";
  }
  return "error";
}

RequestState::RequestState(RequestId id, RequestSpec spec, CachePools &pools,
                           SamplingWorkspace &workspace, uint64_t contextLimit)
    : id_(id), spec_(std::move(spec)), cache_(pools), sampler_(spec_.sampling, workspace),
      stops_(spec_.sampling.stopStrings, spec_.sampling.stopTokens), tokens_(spec_.prompt),
      promptTokens_(static_cast<uint32_t>(spec_.prompt.size())),
      maxGenerated_(contextLimit - spec_.prompt.size()) {
  if (spec_.maxTokens != 0) {
    maxGenerated_ = std::min<uint64_t>(maxGenerated_, spec_.maxTokens);
  }
  sampler_.acceptPrompt(spec_.prompt);
  spec_.prompt = {}; // tokens_ has it
}

void RequestState::markStarted() {
  if (!started_) {
    started_ = Clock::now();
  }
}

void RequestState::takeLogits(std::span<const float> logits, const Tokenizer *tokenizer) {
  const int32_t token = sampler_.sample(logits);
  if (token == Sampler::kNoToken) {
    end(FinishReason::Error, internalError("the model gave no usable logits at token " +
                                           std::to_string(tokens_.size())));
    return;
  }
  ++generated_;
  if (!firstToken_) {
    firstToken_ = Clock::now();
  }
  if (stops_.isStopToken(token)) {
    stopToken_ = token;
    end(FinishReason::Stop, Status::ok());
    return;
  }
  sampler_.accept(token);
  addToken(token, logits, tokenizer);
  if (stops_.stopped()) {
    end(FinishReason::Stop, Status::ok());
  } else if (generated_ >= maxGenerated_) {
    end(FinishReason::Length, Status::ok());
  }
}

void RequestState::addToken(int32_t token, std::span<const float> logits,
                            const Tokenizer *tokenizer) {
  tokens_.push_back(token);
  std::string text;
  if (tokenizer != nullptr && !tokenizer->isSpecial(token)) {
    text = stops_.feed(utf8_.feed(tokenizer->tokenBytes(token)));
  }
  if (!spec_.onToken) {
    return;
  }
  TokenEvent event;
  event.request = id_;
  event.token = token;
  event.text = text;
  std::vector<TokenLogprob> best;
  if (spec_.logprobs >= 0) {
    event.logprob = Sampler::logprobOf(logits, token);
    best = Sampler::topLogprobs(logits, static_cast<size_t>(spec_.logprobs));
    event.topLogprobs = best;
  }
  if (spec_.wantLogits) {
    event.logits = logits;
  }
  spec_.onToken(event);
}

void RequestState::end(FinishReason reason, Status status) {
  ended_ = true;
  reason_ = reason;
  status_ = std::move(status);
}

uint64_t RequestState::microsBetween(const std::optional<Clock::time_point> &from,
                                     const std::optional<Clock::time_point> &to) const {
  if (!from || !to) {
    return 0;
  }
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(*to - *from).count());
}

void RequestState::sendFinish() {
  if (!spec_.onFinish) {
    return;
  }
  // A character or a stop string may be half there: now they are text. After a stop string:
  // nothing.
  std::string text = stops_.feed(utf8_.finish());
  text += stops_.finish();
  const auto now = Clock::now();
  FinishEvent event;
  event.request = id_;
  event.reason = reason_;
  event.status = status_;
  event.text = text;
  event.stopToken = stopToken_;
  event.stopString = stops_.matchedIndex();
  event.promptTokens = promptTokens_;
  event.generatedTokens = generated_;
  event.queuedMicros = microsBetween(submitted_, started_ ? started_ : std::optional(now));
  event.prefillMicros = microsBetween(started_, firstToken_ ? firstToken_ : std::optional(now));
  event.decodeMicros = microsBetween(firstToken_, now);
  spec_.onFinish(event);
}

} // namespace sluice
