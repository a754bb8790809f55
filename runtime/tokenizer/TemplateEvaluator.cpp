// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The statements of a chat template at work; its expressions are in TemplateEvaluation.cpp.
#include "runtime/tokenizer/TemplateEvaluator.h"

#include "runtime/tokenizer/TemplateText.h"

#include <algorithm>

namespace sluice {

TemplateEvaluator::TemplateEvaluator(const TemplateTree &tree, TemplateRuntime &runtime)
    : tree_(tree), runtime_(runtime), scope_(openScope(nullptr)) {
  const std::pair<std::string_view, TemplateFunction> functions[] = {
      {"namespace", TemplateFunction::Namespace},
      {"range", TemplateFunction::Range},
      {"dict", TemplateFunction::Dict},
      {"raise_exception", TemplateFunction::RaiseException}};
  for (const auto &[name, function] : functions) {
    Value value;
    value.kind = ValueKind::Function;
    value.function = function;
    define(name, value);
  }
  scope_ = openScope(scope_); // templates may set variables of these names
}

/// Sets a variable of the innermost scope; outer ones of the same name stay.
void TemplateEvaluator::define(std::string_view name, const Value &value) {
  runtime_.spend(scope_->variables.size() / 16);
  for (auto &[known, old] : scope_->variables) {
    if (known == name) {
      old = value;
      return;
    }
  }
  if (runtime_.reserve(sizeof(Value) + sizeof(name))) {
    scope_->variables.emplace_back(name, value);
  }
}

void TemplateEvaluator::defineClock(int64_t seconds) {
  nowSeconds_ = seconds;
  Value value;
  value.kind = ValueKind::Function;
  value.function = TemplateFunction::StrftimeNow;
  define("strftime_now", value);
}

std::string TemplateEvaluator::run() {
  execute(tree_.root);
  return runtime_.failed() ? std::string() : std::move(output_);
}

TemplateScope *TemplateEvaluator::openScope(TemplateScope *outer) {
  runtime_.reserve(sizeof(TemplateScope));
  return &scopes_.emplace_back(TemplateScope{outer, {}});
}

/// Appends to the output or to the block that is captured, within limits.
void TemplateEvaluator::write(std::string_view text) {
  if (out_ != &output_) {
    if (!runtime_.reserve(text.size())) { // a captured block is memory
      return;
    }
  } else if (text.size() > runtime_.limits().outputBytes - output_.size()) {
    runtime_.failLimit("the chat template writes more than " +
                       std::to_string(runtime_.limits().outputBytes) + " bytes");
    return;
  }
  runtime_.spendBytes(text.size());
  out_->append(text);
}

TemplateEvaluator::Flow TemplateEvaluator::execute(int32_t index) {
  const Level level(*this);
  const TemplateNode &statement = node(index);
  runtime_.setLine(statement.line);
  if (runtime_.failed() || !runtime_.spend(1)) {
    return Flow::Normal;
  }
  return executeNode(statement);
}

TemplateEvaluator::Flow TemplateEvaluator::executeNode(const TemplateNode &statement) {
  const auto &children = statement.children;
  switch (statement.kind) {
  case NodeKind::Data:
    write(*statement.name);
    break;
  case NodeKind::Output: {
    const Value value = evaluate(children[0]);
    if (!runtime_.failed()) {
      write(textOf(runtime_, value));
    }
    break;
  }
  case NodeKind::Block:
    return executeBlock(statement);
  case NodeKind::If:
    return executeIf(statement);
  case NodeKind::For:
    return executeFor(statement);
  case NodeKind::Set: {
    const Value value = evaluate(children[1]);
    if (!runtime_.failed()) {
      assign(node(children[0]), value);
    }
    break;
  }
  case NodeKind::SetBlock:
    executeSetBlock(statement);
    break;
  case NodeKind::Macro:
    executeMacro(statement);
    break;
  case NodeKind::FilterBlock:
    executeFilterBlock(statement);
    break;
  case NodeKind::With:
    return executeWith(statement);
  case NodeKind::Break:
    return Flow::Break;
  case NodeKind::Continue:
    return Flow::Continue;
  default:
    runtime_.fail("internal: an expression stands as a statement");
  }
  return Flow::Normal;
}

TemplateEvaluator::Flow TemplateEvaluator::executeBlock(const TemplateNode &block) {
  for (int32_t child : block.children) {
    const Flow flow = execute(child);
    if (runtime_.failed() || flow != Flow::Normal) {
      return flow;
    }
  }
  return Flow::Normal;
}

TemplateEvaluator::Flow TemplateEvaluator::executeIf(const TemplateNode &statement) {
  const auto &children = statement.children;
  for (size_t i = 0; i + 1 < children.size(); i += 2) {
    const Value condition = evaluate(children[i]);
    if (runtime_.failed()) {
      return Flow::Normal;
    }
    if (isTrue(condition)) {
      return execute(children[i + 1]);
    }
  }
  return children.size() % 2 == 1 ? execute(children.back()) : Flow::Normal;
}

TemplateEvaluator::Flow TemplateEvaluator::executeWith(const TemplateNode &statement) {
  TemplateScope *outer = scope_;
  TemplateScope *inner = openScope(outer);
  for (size_t i = 1; i + 1 < statement.children.size(); i += 2) {
    const Value value = evaluate(statement.children[i + 1]); // sees the outer scope, as in jinja2
    inner->variables.emplace_back(*node(statement.children[i]).name, value);
  }
  scope_ = inner;
  const Flow flow = execute(statement.children[0]);
  scope_ = outer;
  return flow;
}

/// The items that pass the loop's filter.
bool TemplateEvaluator::filterItems(const TemplateNode &statement,
                                    const std::vector<Value> *&items) {
  const int32_t filter = statement.children[4];
  if (filter == kNoNode) {
    return true;
  }
  std::vector<Value> kept;
  TemplateScope *outer = scope_;
  scope_ = openScope(outer);
  for (const Value &item : *items) {
    scope_->variables.clear();
    assign(node(statement.children[0]), item);
    const bool keeps = isTrue(evaluate(filter));
    if (runtime_.failed()) {
      break;
    }
    if (keeps) {
      kept.push_back(item);
    }
  }
  scope_ = outer;
  const Value list = runtime_.makeList(std::move(kept));
  items = runtime_.failed() ? items : &list.list->items;
  return !runtime_.failed();
}

/// The body once per item; `else` when there was no item (also when the filter left none), not
/// after break.
TemplateEvaluator::Flow TemplateEvaluator::executeFor(const TemplateNode &statement) {
  const auto &children = statement.children;
  const Value iterable = evaluate(children[1]);
  const std::vector<Value> *items = runtime_.failed() ? nullptr : elementsOf(runtime_, iterable);
  if (!items || !filterItems(statement, items)) {
    return Flow::Normal;
  }
  TemplateScope *outer = scope_;
  for (size_t i = 0; i < items->size() && !runtime_.failed() && runtime_.spend(1); ++i) {
    scope_ = openScope(outer); // each round has fresh variables
    Value loop;
    loop.kind = ValueKind::Loop;
    loop.loop = runtime_.makeLoop({items, i});
    define("loop", loop);
    assign(node(children[0]), (*items)[i]);
    if (execute(children[2]) == Flow::Break) {
      break;
    }
  }
  scope_ = outer;
  return items->empty() && children[3] != kNoNode ? execute(children[3]) : Flow::Normal;
}

/// Runs a body with its output going into `text`.
TemplateEvaluator::Flow TemplateEvaluator::capture(int32_t body, Value &text) {
  std::string captured;
  std::string *outer = std::exchange(out_, &captured);
  const Flow flow = execute(body);
  out_ = outer;
  text = runtime_.makeText(std::move(captured));
  return flow;
}

void TemplateEvaluator::executeSetBlock(const TemplateNode &statement) {
  TemplateScope *outer = scope_;
  scope_ = openScope(outer);
  Value text;
  capture(statement.children[1], text);
  scope_ = outer;
  text = evaluateBlockFilter(statement.children[2], text);
  if (!runtime_.failed()) {
    assign(node(statement.children[0]), text);
  }
}

void TemplateEvaluator::executeFilterBlock(const TemplateNode &statement) {
  TemplateScope *outer = scope_;
  scope_ = openScope(outer);
  Value text;
  capture(statement.children[0], text);
  scope_ = outer;
  text = evaluateBlockFilter(statement.children[1], text);
  if (!runtime_.failed()) {
    write(textOf(runtime_, text));
  }
}

void TemplateEvaluator::executeMacro(const TemplateNode &statement) {
  if (!runtime_.reserve(sizeof(MacroValue))) {
    return;
  }
  Value value;
  value.kind = ValueKind::Macro;
  value.macro = &macros_.emplace_back(MacroValue{&statement, scope_});
  define(*statement.name, value);
}

/// To a name, a namespace's attribute, or several names.
void TemplateEvaluator::assign(const TemplateNode &target, const Value &value) {
  if (target.kind == NodeKind::Name) {
    define(*target.name, value);
    return;
  }
  if (target.kind == NodeKind::Attribute) {
    assignAttribute(target, value);
    return;
  }
  const std::vector<Value> *items = elementsOf(runtime_, value);
  if (items && items->size() != target.children.size()) {
    runtime_.fail("can't give " + std::to_string(items->size()) + " values to " +
                  std::to_string(target.children.size()) + " names");
  }
  for (size_t i = 0; i < target.children.size() && !runtime_.failed(); ++i) {
    assign(node(target.children[i]), (*items)[i]);
  }
}

void TemplateEvaluator::assignAttribute(const TemplateNode &target, const Value &value) {
  const Value object = evaluate(target.children[0]);
  if (runtime_.failed()) {
    return;
  }
  if (!object.is(ValueKind::Namespace)) {
    runtime_.fail(std::string("only attributes of a namespace can be set, found ") +
                  kindName(object.kind));
    return;
  }
  for (auto &[name, old] : object.space->members) {
    if (name == *target.name) {
      old = value;
      return;
    }
  }
  if (runtime_.reserve(sizeof(Value) + target.name->size())) {
    object.space->members.emplace_back(*target.name, value);
  }
}

} // namespace sluice
