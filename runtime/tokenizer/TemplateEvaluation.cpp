// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expressions of a chat template at work, and calls of functions, methods and macros.
#include "runtime/tokenizer/TemplateEvaluator.h"
#include "runtime/tokenizer/TemplateText.h"

#include <algorithm>

namespace sluice {

namespace {
/// jinja2's sandbox: MAX_RANGE.
constexpr uint64_t kMaxRange = 100'000;
} // namespace

Value TemplateEvaluator::evaluate(int32_t index) {
  const Level level(*this);
  if (runtime_.failed() || !runtime_.spend(1)) {
    return {};
  }
  const TemplateNode &expression = node(index);
  runtime_.setLine(expression.line);
  const Value value = evaluateNode(expression);
  return runtime_.failed() ? Value() : value;
}

Value TemplateEvaluator::evaluateNode(const TemplateNode &expression) {
  const auto &children = expression.children;
  switch (expression.kind) {
  case NodeKind::Literal:
    return expression.value;
  case NodeKind::Name:
    return evaluateName(expression);
  case NodeKind::ListLiteral:
  case NodeKind::TupleLiteral:
    return evaluateList(expression);
  case NodeKind::DictLiteral:
    return evaluateDict(expression);
  case NodeKind::Attribute: {
    const Value object = evaluate(children[0]);
    runtime_.setLine(expression.line);
    return runtime_.failed() ? Value() : attributeOf(runtime_, object, *expression.name);
  }
  case NodeKind::Item: {
    const Value object = evaluate(children[0]);
    const Value key = evaluate(children[1]);
    return runtime_.failed() ? Value() : itemOf(runtime_, object, key);
  }
  case NodeKind::Slice:
    return evaluateSlice(expression);
  case NodeKind::Call:
    return evaluateCall(expression);
  case NodeKind::Filter:
    return evaluateFilter(expression, evaluate(children[0]));
  case NodeKind::Test: {
    const Value input = evaluate(children[0]);
    const TemplateArguments arguments = evaluateArguments(expression);
    return runtime_.failed()
               ? Value()
               : Value::ofBool(applyTest(runtime_, *expression.name, input, arguments));
  }
  case NodeKind::Not:
    return Value::ofBool(!isTrue(evaluate(children[0])));
  case NodeKind::Negate:
  case NodeKind::Plus:
    return evaluateUnary(expression);
  case NodeKind::Binary: {
    const Value a = evaluate(children[0]);
    const Value b = evaluate(children[1]);
    runtime_.setLine(expression.line);
    return runtime_.failed() ? Value() : binaryOperation(runtime_, *expression.name, a, b);
  }
  case NodeKind::Concat:
    return evaluateConcat(expression);
  case NodeKind::And:
  case NodeKind::Or:
    return evaluateLogic(expression);
  case NodeKind::Compare:
    return evaluateCompare(expression);
  case NodeKind::Conditional:
    return evaluateConditional(expression);
  default:
    return runtime_.fail("internal: a statement stands as an expression");
  }
}

/// From the innermost scope outwards; Undefined when there is no such variable.
Value TemplateEvaluator::evaluateName(const TemplateNode &expression) {
  for (const TemplateScope *scope = scope_; scope; scope = scope->outer) {
    runtime_.spend(scope->variables.size() / 16);
    for (const auto &[name, value] : scope->variables) {
      if (name == *expression.name) {
        return value;
      }
    }
  }
  for (std::string_view global : {"lipsum", "cycler", "joiner"}) { // jinja2 has these
    if (*expression.name == global) {
      return runtime_.fail("function '" + *expression.name + "' is not supported");
    }
  }
  return Value::undefined(expression.name);
}

Value TemplateEvaluator::evaluateList(const TemplateNode &expression) {
  std::vector<Value> items;
  for (int32_t child : expression.children) {
    items.push_back(evaluate(child));
  }
  return runtime_.makeList(std::move(items), expression.kind == NodeKind::TupleLiteral
                                                 ? ValueKind::Tuple
                                                 : ValueKind::List);
}

Value TemplateEvaluator::evaluateDict(const TemplateNode &expression) {
  DictValue dict;
  for (size_t i = 0; i + 1 < expression.children.size() && !runtime_.failed(); i += 2) {
    const Value key = evaluate(expression.children[i]);
    const Value value = evaluate(expression.children[i + 1]);
    const bool hashable = key.isText() || key.isNumber() || key.is(ValueKind::None);
    if (!hashable && !runtime_.failed()) {
      return runtime_.fail(std::string("a ") + kindName(key.kind) + " can't be a key of a dict");
    }
    setKey(runtime_, dict, key, value);
  }
  return runtime_.makeDict(std::move(dict.entries));
}

Value TemplateEvaluator::evaluateSlice(const TemplateNode &expression) {
  const Value object = evaluate(expression.children[0]);
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    const int32_t child = expression.children[i + 1];
    parts[i] = child == kNoNode ? Value::none() : evaluate(child);
  }
  return runtime_.failed() ? Value() : sliceOf(runtime_, object, parts[0], parts[1], parts[2]);
}

Value TemplateEvaluator::evaluateUnary(const TemplateNode &expression) {
  const Value operand = evaluate(expression.children[0]);
  if (runtime_.failed()) {
    return {};
  }
  if (operand.is(ValueKind::Float)) { // 0 - 0.0 would lose the sign
    return Value::ofFloat(expression.kind == NodeKind::Negate ? -operand.real : operand.real);
  }
  const std::string_view sign = expression.kind == NodeKind::Negate ? "-" : "+";
  return binaryOperation(runtime_, sign, Value::ofInt(0), operand);
}

/// ~: everything as text.
Value TemplateEvaluator::evaluateConcat(const TemplateNode &expression) {
  std::string text;
  for (int32_t child : expression.children) {
    const Value part = evaluate(child);
    if (runtime_.failed()) {
      return {};
    }
    const std::string more = textOf(runtime_, part);
    if (text.size() + more.size() > runtime_.limits().memoryBytes) {
      return runtime_.failLimit("a text is longer than the memory limit");
    }
    text += more;
  }
  return runtime_.makeText(std::move(text));
}

/// `and` and `or` give one of their operands, as in Python.
Value TemplateEvaluator::evaluateLogic(const TemplateNode &expression) {
  const Value left = evaluate(expression.children[0]);
  const bool decides = isTrue(left) == (expression.kind == NodeKind::Or);
  return decides ? left : evaluate(expression.children[1]);
}

/// a < b <= c holds when every pair does; stops at the first that doesn't.
Value TemplateEvaluator::evaluateCompare(const TemplateNode &expression) {
  Value left = evaluate(expression.children[0]);
  for (size_t i = 0; i < expression.names.size(); ++i) {
    const Value right = evaluate(expression.children[i + 1]);
    runtime_.setLine(expression.line);
    if (runtime_.failed()) {
      return {};
    }
    const std::string &sign = *expression.names[i];
    bool holds = false;
    if (sign == "==" || sign == "!=") {
      holds = valuesEqual(runtime_, left, right) == (sign == "==");
    } else if (sign == "in" || sign == "not in") {
      holds = containsItem(runtime_, right, left) == (sign == "in");
    } else {
      const auto order = compareValues(runtime_, left, right);
      const int o = order.value_or(0);
      holds = sign == "<" ? o < 0 : (sign == "<=" ? o <= 0 : (sign == ">" ? o > 0 : o >= 0));
    }
    if (!holds) {
      return Value::ofBool(false);
    }
    left = right;
  }
  return Value::ofBool(true);
}

Value TemplateEvaluator::evaluateConditional(const TemplateNode &expression) {
  const Value condition = evaluate(expression.children[1]);
  if (runtime_.failed()) {
    return {};
  }
  if (isTrue(condition)) {
    return evaluate(expression.children[0]);
  }
  const int32_t otherwise = expression.children[2];
  return otherwise == kNoNode ? Value::undefined(nullptr) : evaluate(otherwise);
}

Value TemplateEvaluator::evaluateFilter(const TemplateNode &expression, const Value &input) {
  const TemplateArguments arguments = evaluateArguments(expression);
  runtime_.setLine(expression.line);
  return runtime_.failed() ? Value() : applyFilter(runtime_, *expression.name, input, arguments);
}

/// The filters of {% set x | a | b %} and {% filter a | b %}: the innermost one takes the block's
/// text.
Value TemplateEvaluator::evaluateBlockFilter(int32_t filter, const Value &text) {
  if (filter == kNoNode || runtime_.failed()) {
    return text;
  }
  return evaluateFilter(node(filter), evaluateBlockFilter(node(filter).children[0], text));
}

/// children[1 ...]: positional ones, then the named ones.
TemplateArguments TemplateEvaluator::evaluateArguments(const TemplateNode &expression) {
  TemplateArguments arguments;
  const size_t numNamed = expression.names.size();
  const size_t numPositional = expression.children.size() - 1 - numNamed;
  for (size_t i = 0; i + 1 < expression.children.size() && !runtime_.failed(); ++i) {
    const Value value = evaluate(expression.children[i + 1]);
    if (i < numPositional) {
      arguments.positional.push_back(value);
    } else {
      arguments.named.emplace_back(*expression.names[i - numPositional], value);
    }
  }
  return arguments;
}

/// object.name(...) is a method of a text, list or dict, or what a namespace or dict holds under
/// that name; else the callee is an expression like any other.
Value TemplateEvaluator::evaluateCall(const TemplateNode &expression) {
  const TemplateNode &callee = node(expression.children[0]);
  if (callee.kind == NodeKind::Attribute) {
    const Value object = evaluate(callee.children[0]);
    const TemplateArguments arguments = evaluateArguments(expression);
    runtime_.setLine(expression.line);
    if (runtime_.failed()) {
      return {};
    }
    if (object.is(ValueKind::Loop)) {
      return callLoop(*object.loop, *callee.name, arguments);
    }
    const bool member = object.is(ValueKind::Namespace) ||
                        (object.is(ValueKind::Dict) && !hasMethod(object.kind, *callee.name));
    if (!member) {
      return object.isUndefined() ? attributeOf(runtime_, object, *callee.name)
                                  : callMethod(runtime_, object, *callee.name, arguments);
    }
  }
  const Value function = evaluate(expression.children[0]);
  const TemplateArguments arguments = evaluateArguments(expression);
  runtime_.setLine(expression.line);
  if (runtime_.failed()) {
    return {};
  }
  if (function.is(ValueKind::Function)) {
    return callFunction(function.function, arguments);
  }
  if (function.is(ValueKind::Macro)) {
    return callMacro(*function.macro, arguments);
  }
  if (function.isUndefined()) {
    return runtime_.fail((function.text ? "'" + *function.text + "'" : std::string("a function")) +
                         " is undefined and can't be called");
  }
  return runtime_.fail(std::string("a ") + kindName(function.kind) + " can't be called");
}

Value TemplateEvaluator::callFunction(TemplateFunction function,
                                      const TemplateArguments &arguments) {
  if (function == TemplateFunction::Range) {
    return callRange(arguments);
  }
  if (function == TemplateFunction::RaiseException) {
    const bool fits = arguments.positional.size() == 1 && arguments.named.empty();
    return runtime_.fail("the chat template refuses these messages: " +
                         (fits ? textOf(runtime_, arguments.positional[0]) : std::string()));
  }
  if (function == TemplateFunction::StrftimeNow) {
    const bool fits = arguments.positional.size() == 1 && arguments.named.empty() &&
                      arguments.positional[0].isText();
    return fits ? formatTime(runtime_, nowSeconds_, *arguments.positional[0].text)
                : runtime_.fail("strftime_now() takes one text");
  }
  // namespace(...) and dict(...): maybe a dict, then names.
  std::vector<std::pair<Value, Value>> entries;
  if (!arguments.positional.empty()) {
    if (arguments.positional.size() > 1 || !arguments.positional[0].is(ValueKind::Dict)) {
      return runtime_.fail("namespace() and dict() take at most one dict before names");
    }
    entries = arguments.positional[0].dict->entries;
  }
  for (const auto &[name, value] : arguments.named) {
    const auto it = std::find_if(entries.begin(), entries.end(), [&, n = name](const auto &entry) {
      return entry.first.isText() && *entry.first.text == n;
    });
    if (it != entries.end()) {
      it->second = value;
    } else {
      entries.emplace_back(runtime_.makeText(std::string(name)), value);
    }
  }
  if (function == TemplateFunction::Dict) {
    return runtime_.makeDict(std::move(entries));
  }
  const Value space = runtime_.makeNamespace();
  for (const auto &[key, value] : entries) {
    if (runtime_.failed() || !key.isText()) {
      return runtime_.fail("a namespace's names must be texts");
    }
    space.space->members.emplace_back(*key.text, value);
  }
  return space;
}

/// Python's range(), as a list.
Value TemplateEvaluator::callRange(const TemplateArguments &arguments) {
  const auto &given = arguments.positional;
  const bool integers =
      std::all_of(given.begin(), given.end(), [](const Value &v) { return v.isInteger(); });
  if (given.empty() || given.size() > 3 || !integers || !arguments.named.empty()) {
    return runtime_.fail("range() takes one to three integers");
  }
  const int64_t start = given.size() > 1 ? given[0].asInt() : 0;
  const int64_t stop = given.size() > 1 ? given[1].asInt() : given[0].asInt();
  const int64_t step = given.size() > 2 ? given[2].asInt() : 1;
  if (step == 0) {
    return runtime_.fail("range() with a step of zero");
  }
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() >= kMaxRange) {
      return runtime_.failLimit("range() gives more than " + std::to_string(kMaxRange) +
                                " numbers");
    }
    items.push_back(Value::ofInt(i));
    if (__builtin_add_overflow(i, step, &i)) {
      break;
    }
  }
  return runtime_.makeList(std::move(items));
}

/// The macro's body runs in a scope inside of the one where it was defined, not of the caller's.
Value TemplateEvaluator::callMacro(const MacroValue &macro, const TemplateArguments &arguments) {
  const TemplateNode &definition = *macro.node;
  std::vector<std::string_view> names;
  for (const std::string *name : definition.names) {
    names.push_back(*name);
  }
  std::vector<Value> values(names.size());
  if (!bindArguments(runtime_, *definition.name, arguments, names, 0, values)) {
    return {};
  }
  if (++calls_ > runtime_.limits().callDepth) {
    return runtime_.failLimit("macros call each other more than " +
                              std::to_string(runtime_.limits().callDepth) + " levels deep");
  }
  TemplateScope *outer = scope_;
  scope_ = openScope(macro.scope);
  const size_t numDefaults = definition.children.size() - 1;
  for (size_t i = 0; i < names.size(); ++i) {
    const size_t firstDefault = names.size() - numDefaults;
    const bool named =
        std::any_of(arguments.named.begin(), arguments.named.end(),
                    [&](const auto &argument) { return argument.first == names[i]; });
    const bool given = i < arguments.positional.size() || named;
    Value value = given ? values[i] : Value::undefined(definition.names[i]);
    if (!given && i >= firstDefault) {
      value = evaluate(definition.children[1 + i - firstDefault]);
    }
    define(names[i], value);
  }
  Value text;
  capture(definition.children[0], text);
  scope_ = outer;
  --calls_;
  return text;
}

Value TemplateEvaluator::callLoop(const LoopValue &loop, const std::string &name,
                                  const TemplateArguments &arguments) {
  if (name != "cycle" || arguments.positional.empty() || !arguments.named.empty()) {
    return runtime_.fail("loop." + name + "() is not supported");
  }
  return arguments.positional[loop.index % arguments.positional.size()];
}

} // namespace sluice
