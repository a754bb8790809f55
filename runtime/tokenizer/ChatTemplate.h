// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns chat messages into a prompt by the model's chat template: a subset of Jinja with limits and
// without access to the host. Parsed once when a package is loaded; the server and `run` render
// with it before they tokenize.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct ChatMessage {
  std::string role;    ///< "system", "user", "assistant", ...
  std::string content; ///< UTF-8
};

/// What one render may use; beyond it render() returns Capacity.
struct TemplateLimits {
  uint64_t steps = 4'000'000; ///< expressions and statements evaluated, plus bytes touched / 64
  uint64_t outputBytes = uint64_t{16} << 20;
  uint64_t memoryBytes = uint64_t{64} << 20; ///< strings, lists and dicts made while rendering
  uint32_t callDepth = 64;                   ///< macros within macros
};

struct RenderOptions {
  bool addGenerationPrompt = false;
  std::string bosToken; ///< empty: `bos_token` is undefined in the template
  std::string eosToken; ///< empty: `eos_token` is undefined
  /// A JSON object whose members become variables of the template (`tools`, `enable_thinking`,
  /// ...); empty for none.
  std::string variablesJson;
  /// The time that `strftime_now` formats (transformers gives templates the host's clock; here the
  /// caller decides), in seconds since 1970, UTC. Without it `strftime_now` is undefined, and
  /// templates fall back to a date of their own.
  std::optional<int64_t> nowSeconds;
  TemplateLimits limits;
};

/// Semantics: jinja2 3.1 ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True) with
/// the `tojson` and `raise_exception` of transformers (utils/chat_template_utils.py). `messages`,
/// `add_generation_prompt`, `tools` and `documents` (none unless given) are always defined.
/// Understood: if, for (else, filter, break, continue), set (also blocks and namespaces), macro,
/// call-free expressions of all operators, and the filters, tests and methods listed in
/// TemplateFilters.cpp, TemplateTests.cpp and TemplateMethods.cpp. All else is an error that names
/// the line; nothing is skipped silently.
class ChatTemplate {
public:
  /// At most 1 MiB of UTF-8. InvalidArgument: not Jinja; Unsupported: Jinja that is not understood.
  /// "line N: ...".
  static Result<ChatTemplate> parse(std::string_view text);
  ChatTemplate(ChatTemplate &&) noexcept;
  ChatTemplate &operator=(ChatTemplate &&) noexcept;
  ~ChatTemplate();

  /// The prompt. InvalidArgument "line N: ..." where Jinja would raise (also the message of
  /// raise_exception); Capacity where a limit is reached. May run in several threads at once.
  Result<std::string> render(const std::vector<ChatMessage> &messages,
                             const RenderOptions &options = {}) const;

private:
  struct Parts;
  explicit ChatTemplate(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

} // namespace sluice
