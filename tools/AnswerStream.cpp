// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One request from submit to its end, shown as it grows.
#include "tools/AnswerStream.h"

#include "runtime/engine/ChatPrompt.h"

#include <algorithm>
#include <csignal>
#include <iostream>

namespace sluice {

static volatile std::sig_atomic_t interrupted =
    0; // set by SIGINT, read between steps: a signal handler has no other way

void cancelOnInterrupt() {
  std::signal(SIGINT, [](int) { interrupted = 1; });
}

Result<std::string> answer(Engine &engine, const AnswerOptions &o,
                           const std::vector<ChatMessage> &messages) {
  auto ids = chatPromptIds(engine, messages, o.raw);
  if (!ids) {
    return ids.error();
  }
  std::string text;
  Status failed;
  auto show = [&](std::string_view piece) {
    text += piece;
    std::cout << piece << std::flush;
  };
  RequestSpec spec;
  spec.prompt = std::move(*ids);
  spec.maxTokens = o.maxTokens;
  spec.sampling = o.sampling;
  spec.onToken = [&](const TokenEvent &event) { show(event.text); };
  spec.onFinish = [&](const FinishEvent &event) {
    show(event.text);
    failed = event.status;
    if (o.stats) {
      double prefill = static_cast<double>(event.prefillMicros) / 1e6,
             decode = static_cast<double>(event.decodeMicros) / 1e6;
      std::cerr << "\nprompt " << event.promptTokens << " tokens in " << prefill << " s ("
                << event.promptTokens / std::max(prefill, 1e-9) << " tokens/s), answer "
                << event.generatedTokens << " tokens in " << decode << " s ("
                << (event.generatedTokens > 1 ? (event.generatedTokens - 1) / std::max(decode, 1e-9)
                                              : 0)
                << " tokens/s), finish " << finishReasonName(event.reason) << "\n";
    }
  };
  auto id = engine.submit(std::move(spec));
  if (!id) {
    return id.error();
  }
  for (bool more = true; more;) {
    if (interrupted != 0) {
      (void)engine.cancel(*id); // NotFound: it ended by itself just now
      interrupted = 0;
    }
    auto next = engine.step();
    if (!next) {
      return next.error();
    }
    more = *next;
  }
  std::cout << "\n" << std::flush;
  return failed ? Result<std::string>(std::move(text)) : Result<std::string>(failed);
}

} // namespace sluice
