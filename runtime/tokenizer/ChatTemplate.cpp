// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gives a template its variables (messages, tokens, the caller's JSON) and runs it.
#include "runtime/tokenizer/ChatTemplate.h"

#include "runtime/tokenizer/TemplateEvaluator.h"
#include "runtime/tokenizer/TemplateJson.h"
#include "runtime/tokenizer/TemplateLexer.h"
#include "runtime/tokenizer/TemplateParser.h"
#include "runtime/tokenizer/Unicode.h"

#include <utility>

namespace sluice {

namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

Value messagesValue(TemplateRuntime &runtime, const std::vector<ChatMessage> &messages) {
  const Value role = runtime.makeText("role");
  const Value content = runtime.makeText("content");
  std::vector<Value> list;
  for (const ChatMessage &message : messages) {
    list.push_back(runtime.makeDict(
        {{role, runtime.makeText(message.role)}, {content, runtime.makeText(message.content)}}));
    if (runtime.failed()) {
      return {};
    }
  }
  return runtime.makeList(std::move(list));
}

} // namespace

struct ChatTemplate::Parts {
  TemplateTree tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ChatTemplate::ChatTemplate(ChatTemplate &&) noexcept = default;
ChatTemplate &ChatTemplate::operator=(ChatTemplate &&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view text) {
  if (text.size() > kMaxTemplateBytes) {
    return invalidArgument("the chat template has " + std::to_string(text.size()) +
                           " bytes, expected at most " + std::to_string(kMaxTemplateBytes));
  }
  if (const auto offset = firstInvalidUtf8(text)) {
    return invalidArgument("the chat template is not UTF-8 at byte " + std::to_string(*offset));
  }
  auto tokens = lexTemplate(text);
  if (!tokens) {
    return tokens.error();
  }
  auto tree = TemplateParser(std::move(*tokens)).run();
  if (!tree) {
    return tree.error();
  }
  return ChatTemplate(std::make_unique<Parts>(Parts{std::move(*tree)}));
}

Result<std::string> ChatTemplate::render(const std::vector<ChatMessage> &messages,
                                         const RenderOptions &options) const {
  for (const ChatMessage &message : messages) {
    if (firstInvalidUtf8(message.content) || firstInvalidUtf8(message.role)) {
      return invalidArgument("a message is not valid UTF-8");
    }
  }
  TemplateRuntime runtime(options.limits);
  TemplateEvaluator evaluator(parts_->tree, runtime);
  evaluator.define("messages", messagesValue(runtime, messages));
  evaluator.define("add_generation_prompt", Value::ofBool(options.addGenerationPrompt));
  if (options.nowSeconds) {
    evaluator.defineClock(*options.nowSeconds);
  }
  evaluator.define("tools", Value::none());
  evaluator.define("documents", Value::none());
  for (const auto &[name, token] :
       {std::pair("bos_token", &options.bosToken), std::pair("eos_token", &options.eosToken)}) {
    if (!token->empty() && !firstInvalidUtf8(*token)) {
      evaluator.define(name, Value::ofText(token));
    }
  }
  if (!options.variablesJson.empty() && !runtime.failed()) {
    const Value variables = valueFromJson(runtime, options.variablesJson);
    if (!runtime.failed() && !variables.is(ValueKind::Dict)) {
      runtime.fail("the chat template's variables are not a JSON object");
    }
    for (size_t i = 0; !runtime.failed() && i < variables.dict->entries.size(); ++i) {
      const auto &[name, value] = variables.dict->entries[i];
      evaluator.define(*name.text, value);
    }
  }
  std::string prompt = evaluator.run();
  if (runtime.failed()) {
    return runtime.status();
  }
  return prompt;
}

} // namespace sluice
