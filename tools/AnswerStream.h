// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams one answer to standard output; used by `sluice run` for a prompt and for each turn of a
// conversation.
#pragma once

#include "runtime/engine/Engine.h"

#include <string>
#include <vector>

namespace sluice {

struct AnswerOptions {
  bool raw = false;       ///< the last message's text as it is, without the chat template
  bool stats = false;     ///< tokens and seconds on standard error
  uint32_t maxTokens = 0; ///< 0 = up to the context
  SamplingParams sampling;
};

/// From now on SIGINT ends the running answer instead of the program.
void cancelOnInterrupt();

/// The answer's text, already shown. Errors of chatPromptIds, Engine::submit and Engine::step, or
/// why the request failed.
Result<std::string> answer(Engine &engine, const AnswerOptions &o,
                           const std::vector<ChatMessage> &messages);

} // namespace sluice
