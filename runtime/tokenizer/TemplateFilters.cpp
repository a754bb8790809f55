// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The filters of chat templates that work on one text or number, after jinja2/filters.py; those
// over sequences are in TemplateSequenceFilters.cpp.
#include "runtime/tokenizer/TemplateFilters.h"

#include "runtime/tokenizer/TemplateText.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace sluice {

namespace {

constexpr std::array<std::string_view, 19> kFilters = {
    "trim",   "upper",  "lower",  "title", "capitalize", "replace", "default",
    "d",      "tojson", "int",    "float", "string",     "abs",     "round",
    "indent", "safe",   "length", "count", "join"};

std::optional<std::string_view> optionalText(const Value &v) {
  return v.isText() ? std::optional<std::string_view>(*v.text) : std::nullopt;
}

} // namespace

bool isKnownFilter(std::string_view name) {
  return std::find(kFilters.begin(), kFilters.end(), name) != kFilters.end() ||
         isSequenceFilter(name);
}

bool bindArguments(TemplateRuntime &runtime, std::string_view what,
                   const TemplateArguments &arguments, std::span<const std::string_view> names,
                   size_t required, std::span<Value> out) {
  std::vector<bool> given(names.size(), false);
  if (arguments.positional.size() > names.size()) {
    runtime.fail("'" + std::string(what) + "' takes at most " + std::to_string(names.size()) +
                 " arguments, found " + std::to_string(arguments.positional.size()));
    return false;
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    out[i] = arguments.positional[i];
    given[i] = true;
  }
  for (const auto &[name, value] : arguments.named) {
    const auto it = std::find(names.begin(), names.end(), name);
    const size_t index = static_cast<size_t>(it - names.begin());
    if (it == names.end() || given[index]) {
      runtime.fail("'" + std::string(what) + "' has no argument '" + std::string(name) +
                   "' or has it twice");
      return false;
    }
    out[index] = value;
    given[index] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given[i]) {
      runtime.fail("'" + std::string(what) + "' misses its argument '" + std::string(names[i]) +
                   "'");
      return false;
    }
  }
  return true;
}

namespace {

/// Python's int(text): white space around, a sign, digits with single "_" between. Nothing when it
/// is none.
std::optional<int64_t> parseInteger(TemplateRuntime &runtime, std::string_view text, int base) {
  text = stripped(text, std::nullopt, true, true);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i - 1] != '+' &&
                         text[i - 1] != '-';
    if (text[i] == '_' && between) {
      continue;
    }
    if (text[i] == '+' && i == 0) {
      continue;
    }
    digits += text[i];
  }
  if (text.substr(0, 2) == "+-") {
    return std::nullopt;
  }
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec == std::errc::result_out_of_range) {
    runtime.fail("an integer does not fit 64 bits");
  }
  const bool whole = result.ec == std::errc() && result.ptr == digits.data() + digits.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// Python's float(text), decimal forms only. Nothing when it is none.
std::optional<double> parseFloat(std::string_view text) {
  text = stripped(text, std::nullopt, true, true);
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
  }
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  return whole && !text.empty() ? std::optional(value) : std::nullopt;
}

Value floatToInt(TemplateRuntime &runtime, double value) {
  if (!(std::fabs(value) < 9.2e18)) {
    return runtime.fail("an integer does not fit 64 bits");
  }
  return Value::ofInt(static_cast<int64_t>(value));
}

/// jinja2's do_int: int(text), else int(float(text)), else the default; never an error for a bad
/// text.
Value toInt(TemplateRuntime &runtime, const Value &input, const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"default", "base"};
  std::array<Value, 2> a = {Value::ofInt(0), Value::ofInt(10)};
  if (!bindArguments(runtime, "int", arguments, kNames, 0, a)) {
    return {};
  }
  if (input.isInteger()) {
    return Value::ofInt(input.asInt());
  }
  if (input.is(ValueKind::Float)) {
    return std::isfinite(input.real) ? floatToInt(runtime, input.real) : a[0];
  }
  if (!input.isText()) {
    return a[0];
  }
  const int64_t base = a[1].isInteger() ? a[1].asInt() : 0;
  if (base < 2 || base > 36) {
    return runtime.fail("the base of 'int' must be 2 ... 36");
  }
  if (const auto value = parseInteger(runtime, *input.text, static_cast<int>(base))) {
    return Value::ofInt(*value);
  }
  const auto real = parseFloat(*input.text);
  return real && std::isfinite(*real) ? floatToInt(runtime, *real) : a[0];
}

/// jinja2's do_float: the default where float() would raise.
Value toFloat(TemplateRuntime &runtime, const Value &input, const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 1> kNames = {"default"};
  std::array<Value, 1> a = {Value::ofFloat(0)};
  if (!bindArguments(runtime, "float", arguments, kNames, 0, a)) {
    return {};
  }
  if (input.isNumber()) {
    return Value::ofFloat(input.asFloat());
  }
  const auto real = input.isText() ? parseFloat(*input.text) : std::nullopt;
  return real ? Value::ofFloat(*real) : a[0];
}

Value absolute(TemplateRuntime &runtime, const Value &input) {
  if (input.isInteger()) {
    return input.asInt() < 0 ? binaryOperation(runtime, "-", Value::ofInt(0), input)
                             : Value::ofInt(input.asInt());
  }
  return input.is(ValueKind::Float)
             ? Value::ofFloat(std::fabs(input.real))
             : runtime.fail(std::string("'abs' takes a number, found ") + kindName(input.kind));
}

/// jinja2's do_round: always a float.
Value rounded(TemplateRuntime &runtime, const Value &input, const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"precision", "method"};
  std::array<Value, 2> a = {Value::ofInt(0), Value()};
  if (!bindArguments(runtime, "round", arguments, kNames, 0, a)) {
    return {};
  }
  const int64_t precision = a[0].isInteger() ? a[0].asInt() : -1;
  const std::string method = a[1].isText() ? *a[1].text : "common";
  const bool known = method == "common" || method == "floor" || method == "ceil";
  if (!input.isNumber() || precision < 0 || precision > 15 || !known) {
    return runtime.fail(
        "'round' takes a number, a precision of 0 ... 15, and common, ceil or floor");
  }
  const double value = input.asFloat();
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = value * scale;
    return Value::ofFloat((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  // Python rounds the exact binary value to decimal digits, half to even; so does printf.
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
  return Value::ofFloat(std::strtod(buffer, nullptr));
}

/// jinja2's do_title: words begin behind blanks, hyphens and opening brackets.
Value titled(TemplateRuntime &runtime, const std::string &text) {
  std::string out;
  size_t start = 0;
  while (start < text.size() && !runtime.failed()) {
    const size_t wordStart =
        std::min(text.find_first_not_of("- \t\n\r\v\f({[<", start), text.size());
    out += text.substr(start, wordStart - start);
    const size_t wordEnd = std::min(text.find_first_of("- \t\n\r\v\f({[<", wordStart), text.size());
    out +=
        changeCase(runtime, text.substr(wordStart, wordEnd - wordStart), LetterCase::Capitalized);
    start = wordEnd;
  }
  return runtime.makeText(std::move(out));
}

/// jinja2's do_indent.
Value indented(TemplateRuntime &runtime, const std::string &text,
               const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 3> kNames = {"width", "first", "blank"};
  std::array<Value, 3> a = {Value::ofInt(4), Value::ofBool(false), Value::ofBool(false)};
  if (!bindArguments(runtime, "indent", arguments, kNames, 0, a)) {
    return {};
  }
  std::string prefix;
  if (a[0].isText()) {
    prefix = *a[0].text;
  } else if (a[0].isInteger() && a[0].asInt() <= 1000) {
    prefix.assign(static_cast<size_t>(std::max<int64_t>(a[0].asInt(), 0)), ' ');
  } else {
    return runtime.fail("the width of 'indent' must be a text or at most 1000");
  }
  const uint64_t lines = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  if (!runtime.reserve(lines * prefix.size())) {
    return {};
  }
  std::string out = isTrue(a[1]) ? prefix : "";
  for (size_t start = 0;;) {
    const size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    const bool indent = start > 0 && (isTrue(a[2]) || !line.empty());
    out += (indent ? prefix : "") + line;
    if (end == std::string::npos) {
      return runtime.makeText(std::move(out));
    }
    out += '\n';
    start = end + 1;
  }
}

/// jinja2's do_join: every item as text, maybe an attribute of it.
Value joined(TemplateRuntime &runtime, const Value &input, const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"d", "attribute"};
  std::array<Value, 2> a;
  if (!bindArguments(runtime, "join", arguments, kNames, 0, a)) {
    return {};
  }
  Value source = input;
  if (!a[1].isUndefined() && !a[1].is(ValueKind::None)) {
    const auto mapped = applySequenceFilter(runtime, "map", input, {{}, {{"attribute", a[1]}}});
    source = mapped.value_or(Value());
  }
  const std::vector<Value> *items = elementsOf(runtime, source);
  if (!items) {
    return {};
  }
  const std::string between = textOf(runtime, a[0]);
  std::string out;
  for (size_t i = 0; i < items->size() && !runtime.failed(); ++i) {
    const std::string item = textOf(runtime, (*items)[i]);
    if (out.size() + between.size() + item.size() > runtime.limits().memoryBytes) {
      return runtime.failLimit("a text is longer than the memory limit");
    }
    out += (i > 0 ? between : "") + item;
  }
  return runtime.makeText(std::move(out));
}

/// The `tojson` of transformers, not of jinja2: plain json.dumps, nothing escaped for HTML.
Value toJson(TemplateRuntime &runtime, const Value &input, const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 4> kNames = {"ensure_ascii", "indent", "separators",
                                                      "sort_keys"};
  std::array<Value, 4> a = {Value::ofBool(false), Value::none(), Value::none(),
                            Value::ofBool(false)};
  if (!bindArguments(runtime, "tojson", arguments, kNames, 0, a)) {
    return {};
  }
  JsonStyle style;
  style.ascii = isTrue(a[0]);
  style.sortKeys = isTrue(a[3]);
  if (a[1].is(ValueKind::Int) && a[1].integer >= 0 && a[1].integer <= 64) {
    style.indent = static_cast<int>(a[1].integer);
    style.itemSeparator = ",";
  } else if (!a[1].is(ValueKind::None)) {
    return runtime.fail("the indent of 'tojson' must be none or 0 ... 64");
  }
  if (!a[2].is(ValueKind::None)) {
    const bool pair = (a[2].is(ValueKind::Tuple) || a[2].is(ValueKind::List)) &&
                      a[2].list->items.size() == 2 && a[2].list->items[0].isText() &&
                      a[2].list->items[1].isText();
    if (!pair) {
      return runtime.fail("the separators of 'tojson' must be two texts");
    }
    style.itemSeparator = *a[2].list->items[0].text;
    style.keySeparator = *a[2].list->items[1].text;
  }
  return runtime.makeText(jsonOf(runtime, input, style));
}

/// The filters whose input is turned into text first.
Value textFilter(TemplateRuntime &runtime, std::string_view name, const std::string &text,
                 const TemplateArguments &arguments) {
  if (name == "trim") {
    constexpr std::array<std::string_view, 1> kNames = {"chars"};
    std::array<Value, 1> a;
    return bindArguments(runtime, name, arguments, kNames, 0, a)
               ? runtime.makeText(std::string(stripped(text, optionalText(a[0]), true, true)))
               : Value();
  }
  if (name == "replace") {
    const Value input = Value::ofText(&text);
    return callMethod(runtime, input, "replace", arguments);
  }
  if (name == "indent") {
    return indented(runtime, text, arguments);
  }
  if (!arguments.empty()) {
    return runtime.fail("filter '" + std::string(name) + "' takes no arguments");
  }
  if (name == "title") {
    return titled(runtime, text);
  }
  if (name == "upper" || name == "lower" || name == "capitalize") {
    const LetterCase to = name == "upper"   ? LetterCase::Upper
                          : name == "lower" ? LetterCase::Lower
                                            : LetterCase::Capitalized;
    return runtime.makeText(changeCase(runtime, text, to));
  }
  return runtime.makeText(text); // string
}

/// jinja2's do_default.
Value withDefault(TemplateRuntime &runtime, const Value &input,
                  const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"default_value", "boolean"};
  const Value empty = runtime.makeText("");
  std::array<Value, 2> a = {empty, Value::ofBool(false)};
  if (!bindArguments(runtime, "default", arguments, kNames, 0, a)) {
    return {};
  }
  return input.isUndefined() || (isTrue(a[1]) && !isTrue(input)) ? a[0] : input;
}

} // namespace

Value applyFilter(TemplateRuntime &runtime, std::string_view name, const Value &input,
                  const TemplateArguments &arguments) {
  if (!isKnownFilter(name)) { // a name computed at run time: map(name)
    return runtime.fail("filter '" + std::string(name.substr(0, 40)) + "' is not supported");
  }
  if (name == "safe") {
    Value marked = input.isText() ? input : runtime.makeText(textOf(runtime, input));
    marked.markup = marked.isText();
    return marked;
  }
  if (input.markup && name != "default" && name != "d") {
    return runtime.fail("filter '" + std::string(name) +
                        "' of a text marked safe is not supported");
  }
  if (name == "default" || name == "d") {
    return withDefault(runtime, input, arguments);
  }
  if (name == "tojson") {
    return toJson(runtime, input, arguments);
  }
  if (name == "join") {
    return joined(runtime, input, arguments);
  }
  if (name == "int") {
    return toInt(runtime, input, arguments);
  }
  if (name == "float") {
    return toFloat(runtime, input, arguments);
  }
  if (name == "round") {
    return rounded(runtime, input, arguments);
  }
  if (name == "abs") {
    return absolute(runtime, input);
  }
  if (name == "length" || name == "count") {
    return lengthOf(runtime, input);
  }
  if (const auto result = applySequenceFilter(runtime, name, input, arguments)) {
    return *result;
  }
  const std::string text = textOf(runtime, input);
  return runtime.failed() ? Value() : textFilter(runtime, name, text, arguments);
}

} // namespace sluice
