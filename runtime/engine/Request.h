// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a caller asks of the engine and what it hears back. Filled by the command line, the server
// and the C API; read by Engine.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/sampling/Sampler.h"
#include "runtime/sampling/SamplingParams.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

using RequestId = uint64_t; ///< from 1, never used twice by one engine

enum class FinishReason {
  Stop,      ///< a stop token or a stop string
  Length,    ///< maxTokens or the context limit
  Cancelled, ///< cancel()
  Error,     ///< FinishEvent::status says what
};

/// "stop", "length", "cancelled", "error".
const char *finishReasonName(FinishReason reason);

/// One generated token that is part of the answer (a stop token makes no TokenEvent).
struct TokenEvent {
  RequestId request = 0;
  int32_t token = 0;
  /// UTF-8 that may be shown now: whole characters, no part of a stop string; often empty.
  std::string_view text;
  float logprob = 0;                         ///< natural log; 0 unless asked for
  std::span<const TokenLogprob> topLogprobs; ///< as many as asked for, best first
  std::span<const float> logits;             ///< [vocab] f32, raw; empty unless asked for
};

/// The last event of a request.
struct FinishEvent {
  RequestId request = 0;
  FinishReason reason = FinishReason::Stop;
  Status status;           ///< ok unless reason is Error
  std::string_view text;   ///< what was held back for stop strings or half characters
  int32_t stopToken = -1;  ///< the token that ended it, or -1
  int32_t stopString = -1; ///< index of the stop string that ended it, or -1
  uint32_t promptTokens = 0;
  uint32_t generatedTokens = 0; ///< sampled, the stop token included
  uint64_t queuedMicros = 0;    ///< from submit to the first step
  uint64_t prefillMicros = 0;   ///< from the first step to the first token
  uint64_t decodeMicros = 0;    ///< from the first token to the end
};

/// Callbacks run on the thread that calls Engine::step (or EngineLoop's), one at a time; they may
/// call submit and cancel, not step. What their arguments point to lives during the call only.
struct RequestSpec {
  std::vector<int32_t> prompt; ///< at least one id in [0, vocab)
  uint32_t maxTokens = 0;      ///< 0 = up to the context limit
  SamplingParams sampling;     ///< also stop strings and stop tokens
  bool ignoreEos = false;      ///< false: the model's end tokens are stop tokens, too
  bool wantLogits = false;     ///< fills TokenEvent::logits
  int32_t logprobs = -1;       ///< -1 = none, else TokenEvent::logprob and this many topLogprobs
  std::function<void(const TokenEvent &)> onToken;
  std::function<void(const FinishEvent &)> onFinish;
};

} // namespace sluice
