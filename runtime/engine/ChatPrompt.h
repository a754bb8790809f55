// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a conversation to the token ids of a request: chat template, then tokenizer. Used by the
// command line and servers.
#pragma once

#include "runtime/engine/Engine.h"

#include <vector>

namespace sluice {

/// Ids of a prompt that ends where the assistant begins. With `raw`, or where the package has no
/// chat template, the last message's text as it is. A template or tokenizer that was refused at
/// load is an error here, never a silent fallback.
Result<std::vector<int32_t>> chatPromptIds(const Engine &engine,
                                           const std::vector<ChatMessage> &messages, bool raw);

} // namespace sluice
