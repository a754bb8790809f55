// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tests of chat templates ("x is defined"), after jinja2/tests.py.
#include "runtime/tokenizer/TemplateFilters.h"
#include "runtime/tokenizer/TemplateText.h"

#include <algorithm>
#include <array>

namespace sluice {

namespace {

constexpr std::array<std::string_view, 37> kTests = {
    "defined",     "undefined", "none",  "string",  "mapping",     "iterable", "sequence",
    "number",      "integer",   "float", "boolean", "true",        "false",    "callable",
    "odd",         "even",      "lower", "upper",   "divisibleby", "eq",       "equalto",
    "==",          "ne",        "!=",    "lt",      "lessthan",    "<",        "gt",
    "greaterthan", ">",         "le",    "<=",      "ge",          ">=",       "in",
    "filter",      "test"};

/// Tests that look at the value's type only; nothing for other names.
std::optional<bool> typeTest(std::string_view name, const Value &v) {
  const bool list = v.is(ValueKind::List) || v.is(ValueKind::Tuple);
  if (name == "defined") {
    return !v.isUndefined();
  }
  if (name == "undefined") {
    return v.isUndefined();
  }
  if (name == "none") {
    return v.is(ValueKind::None);
  }
  if (name == "string") {
    return v.isText();
  }
  if (name == "mapping") {
    return v.is(ValueKind::Dict);
  }
  if (name == "iterable") {
    return list || v.isText() || v.is(ValueKind::Dict) || v.is(ValueKind::Lazy) ||
           v.is(ValueKind::Loop) || v.isUndefined();
  }
  if (name == "sequence") {
    return list || v.isText() || v.is(ValueKind::Dict) || v.isUndefined();
  }
  if (name == "number") {
    return v.isNumber();
  }
  if (name == "integer") {
    return v.is(ValueKind::Int);
  }
  if (name == "float") {
    return v.is(ValueKind::Float);
  }
  if (name == "boolean") {
    return v.is(ValueKind::Bool);
  }
  if (name == "true" || name == "false") {
    return v.is(ValueKind::Bool) && v.boolean == (name == "true");
  }
  if (name == "callable") {
    return v.is(ValueKind::Function) || v.is(ValueKind::Macro);
  }
  return std::nullopt;
}

bool caseTest(TemplateRuntime &runtime, const Value &v, LetterCase to) {
  // True when there is a letter with case and none has the other one.
  const std::string text = textOf(runtime, v);
  const LetterCase other = to == LetterCase::Upper ? LetterCase::Lower : LetterCase::Upper;
  return changeCase(runtime, text, to) == text && changeCase(runtime, text, other) != text;
}

/// odd, even, divisibleby.
bool numberTest(TemplateRuntime &runtime, std::string_view name, const Value &v, const Value &by) {
  const Value divisor = name == "divisibleby" ? by : Value::ofInt(2);
  const Value rest = binaryOperation(runtime, "%", v, divisor);
  const bool zero = rest.isNumber() && rest.asFloat() == 0;
  return name == "odd" ? rest.isNumber() && rest.asFloat() == 1 : zero;
}

/// lt, le, gt, ge and their other names.
bool orderTest(TemplateRuntime &runtime, std::string_view name, const Value &a, const Value &b) {
  const auto order = compareValues(runtime, a, b);
  if (!order) {
    return false;
  }
  if (name == "lt" || name == "lessthan" || name == "<") {
    return *order < 0;
  }
  if (name == "gt" || name == "greaterthan" || name == ">") {
    return *order > 0;
  }
  return name == "le" || name == "<=" ? *order <= 0 : *order >= 0;
}

} // namespace

bool isKnownTest(std::string_view name) {
  return std::find(kTests.begin(), kTests.end(), name) != kTests.end();
}

bool applyTest(TemplateRuntime &runtime, std::string_view name, const Value &input,
               const TemplateArguments &arguments) {
  if (!isKnownTest(name)) { // a name computed at run time: selectattr("a", name)
    runtime.fail("test '" + std::string(name.substr(0, 40)) + "' is not supported");
    return false;
  }
  const bool takesValue = !typeTest(name, input) && name != "odd" && name != "even" &&
                          name != "lower" && name != "upper" && name != "filter" && name != "test";
  if (!arguments.named.empty() || arguments.positional.size() != (takesValue ? 1U : 0U)) {
    runtime.fail("test '" + std::string(name) + "' takes " +
                 (takesValue ? "one argument" : "no argument"));
    return false;
  }
  if (const auto result = typeTest(name, input)) {
    return *result;
  }
  if (name == "lower" || name == "upper") {
    return caseTest(runtime, input, name == "upper" ? LetterCase::Upper : LetterCase::Lower);
  }
  if (name == "filter" || name == "test") {
    const std::string asked = textOf(runtime, input);
    return name == "filter" ? isKnownFilter(asked) : isKnownTest(asked);
  }
  const Value other = takesValue ? arguments.positional[0] : Value();
  if (name == "odd" || name == "even" || name == "divisibleby") {
    return numberTest(runtime, name, input, other);
  }
  if (name == "eq" || name == "equalto" || name == "==") {
    return valuesEqual(runtime, input, other);
  }
  if (name == "ne" || name == "!=") {
    return !valuesEqual(runtime, input, other);
  }
  if (name == "in") {
    return containsItem(runtime, other, input);
  }
  return orderTest(runtime, name, input, other);
}

} // namespace sluice
