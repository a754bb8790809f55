// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renders the chat template and tokenizes.
#include "runtime/engine/ChatPrompt.h"

namespace sluice {

/// Puts the beginning-of-text token in front where the model is trained with one and the text does
/// not bring it.
static Result<std::vector<int32_t>> withBos(const Engine &engine,
                                            Result<std::vector<int32_t>> ids) {
  const ModelFacts &model = engine.model();
  if (ids && model.addBos && (ids->empty() || ids->front() != model.bosId)) {
    ids->insert(ids->begin(), model.bosId);
  }
  return ids;
}

Result<std::vector<int32_t>> chatPromptIds(const Engine &engine,
                                           const std::vector<ChatMessage> &messages, bool raw) {
  const Tokenizer *tokenizer = engine.tokenizer();
  if (!tokenizer) {
    return engine.tokenizerStatus()
               ? unsupported(
                     "the package holds no tokenizer; `sluice logits --ids` works on token ids")
               : engine.tokenizerStatus();
  }
  if (!raw && !engine.chatTemplateStatus()) {
    return Status(engine.chatTemplateStatus().code(),
                  "chat template: " + engine.chatTemplateStatus().message() +
                      "; --raw gives the text to the model as it is");
  }
  if (raw || !engine.chatTemplate()) {
    return withBos(engine, tokenizer->encode(messages.back().content));
  }
  RenderOptions render;
  render.addGenerationPrompt = true;
  if (engine.model().bosId >= 0) {
    render.bosToken = std::string(tokenizer->tokenBytes(engine.model().bosId));
  }
  auto text = engine.chatTemplate()->render(messages, render);
  if (!text) {
    return text.error();
  }
  return withBos(engine, tokenizer->encode(*text, {.addSpecial = false, .parseSpecial = true}));
}

} // namespace sluice
