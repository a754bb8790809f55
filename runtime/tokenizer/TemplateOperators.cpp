// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic, indexing, slices and membership of template values, as Python has them for 64-bit
// integers.
#include "runtime/tokenizer/TemplateFilters.h"
#include "runtime/tokenizer/TemplateText.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace sluice {

namespace {

/// The error for operands that don't fit; an undefined name is named.
Value badOperands(TemplateRuntime &runtime, std::string_view sign, const Value &a, const Value &b) {
  for (const Value *v : {&a, &b}) {
    if (v->isUndefined()) {
      return runtime.fail((v->text ? "'" + *v->text + "'" : std::string("a value")) +
                          " is undefined");
    }
  }
  return runtime.fail("'" + std::string(sign) + "' doesn't take " + kindName(a.kind) + " and " +
                      kindName(b.kind));
}

bool isSequence(const Value &v) { return v.is(ValueKind::List) || v.is(ValueKind::Tuple); }

/// HTML escapes as markupsafe writes them.
std::string escaped(const std::string &text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&#34;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default:
      out += c;
    }
  }
  return out;
}

/// a + b of texts, lists and tuples.
Value addValues(TemplateRuntime &runtime, const Value &a, const Value &b) {
  if (a.isText() && b.isText()) {
    if (!runtime.reserve(0) || a.text->size() + b.text->size() > runtime.limits().memoryBytes) {
      return runtime.failLimit("a text is longer than the memory limit");
    }
    if (a.markup || b.markup) { // markupsafe.Markup.__add__ and __radd__
      Value sum = runtime.makeText((a.markup ? *a.text : escaped(*a.text)) +
                                   (b.markup ? *b.text : escaped(*b.text)));
      sum.markup = sum.isText();
      return sum;
    }
    return runtime.makeText(*a.text + *b.text);
  }
  if (isSequence(a) && a.kind == b.kind) {
    std::vector<Value> items = a.list->items;
    items.insert(items.end(), b.list->items.begin(), b.list->items.end());
    return runtime.makeList(std::move(items), a.kind);
  }
  return badOperands(runtime, "+", a, b);
}

/// text * count and list * count.
Value repeat(TemplateRuntime &runtime, const Value &what, int64_t count) {
  const uint64_t times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  const uint64_t unit = what.isText() ? what.text->size() : what.list->items.size() * sizeof(Value);
  if (unit > 0 && times > runtime.limits().memoryBytes / unit) {
    return runtime.failLimit("a repetition is longer than the memory limit");
  }
  if (what.isText()) {
    std::string out;
    for (uint64_t i = 0; i < (unit > 0 ? times : 0); ++i) {
      out += *what.text;
    }
    return runtime.makeText(std::move(out));
  }
  std::vector<Value> items;
  for (uint64_t i = 0; i < (unit > 0 ? times : 0); ++i) {
    items.insert(items.end(), what.list->items.begin(), what.list->items.end());
  }
  return runtime.makeList(std::move(items), what.kind);
}

Value overflow(TemplateRuntime &runtime) { return runtime.fail("an integer does not fit 64 bits"); }

/// base ** exponent; a negative exponent gives a float, as in Python.
Value integerPower(TemplateRuntime &runtime, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    return base == 0
               ? runtime.fail("division by zero")
               : Value::ofFloat(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  if (base == 0 || base == 1 || base == -1) {
    result = exponent == 0 ? 1 : (base == -1 && exponent % 2 == 0 ? 1 : base);
    return Value::ofInt(result);
  }
  for (int64_t i = 0; i < exponent; ++i) { // at most 63 rounds before it overflows
    if (__builtin_mul_overflow(result, base, &result)) {
      return overflow(runtime);
    }
  }
  return Value::ofInt(result);
}

/// Python's integer arithmetic, but an error where the result does not fit 64 bits.
Value integerOperation(TemplateRuntime &runtime, std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  if (sign == "+") {
    return __builtin_add_overflow(a, b, &result) ? overflow(runtime) : Value::ofInt(result);
  }
  if (sign == "-") {
    return __builtin_sub_overflow(a, b, &result) ? overflow(runtime) : Value::ofInt(result);
  }
  if (sign == "*") {
    return __builtin_mul_overflow(a, b, &result) ? overflow(runtime) : Value::ofInt(result);
  }
  if (sign == "**") {
    return integerPower(runtime, a, b);
  }
  if (b == 0) {
    return runtime.fail("division by zero");
  }
  if (sign == "/") {
    return Value::ofFloat(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) { // the one quotient that overflows
    if (sign == "%") {
      return Value::ofInt(0);
    }
    return __builtin_sub_overflow(int64_t{0}, a, &result) ? overflow(runtime)
                                                          : Value::ofInt(result);
  }
  // Python rounds down, so that the remainder has the divisor's sign.
  const int64_t remainder = a % b;
  const bool down = remainder != 0 && (remainder < 0) != (b < 0);
  return Value::ofInt(sign == "//" ? a / b - (down ? 1 : 0) : remainder + (down ? b : 0));
}

/// Python's float arithmetic: the remainder has the divisor's sign, x / 0 is an error.
Value floatOperation(TemplateRuntime &runtime, std::string_view sign, double a, double b) {
  if (sign == "+") {
    return Value::ofFloat(a + b);
  }
  if (sign == "-") {
    return Value::ofFloat(a - b);
  }
  if (sign == "*") {
    return Value::ofFloat(a * b);
  }
  if (sign == "**") {
    const bool complex = a < 0 && b != std::floor(b);
    return complex || (a == 0 && b < 0) ? runtime.fail("a power has no real value")
                                        : Value::ofFloat(std::pow(a, b));
  }
  if (b == 0) {
    return runtime.fail("division by zero");
  }
  if (sign == "/") {
    return Value::ofFloat(a / b);
  }
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
  }
  return Value::ofFloat(sign == "%" ? remainder : std::floor((a - remainder) / b + 0.5));
}

} // namespace

Value binaryOperation(TemplateRuntime &runtime, std::string_view sign, const Value &a,
                      const Value &b) {
  if (a.isInteger() && b.isInteger()) {
    return integerOperation(runtime, sign, a.asInt(), b.asInt());
  }
  if (a.isNumber() && b.isNumber()) {
    return floatOperation(runtime, sign, a.asFloat(), b.asFloat());
  }
  if (sign == "+") {
    return addValues(runtime, a, b);
  }
  if (sign == "*" && (a.isText() || isSequence(a)) && b.isInteger()) {
    return repeat(runtime, a, b.asInt());
  }
  if (sign == "*" && (b.isText() || isSequence(b)) && a.isInteger()) {
    return repeat(runtime, b, a.asInt());
  }
  if (sign == "%" && a.isText()) {
    return runtime.fail("formatting with '%' is not supported; join texts with '~'");
  }
  return badOperands(runtime, sign, a, b);
}

Value lengthOf(TemplateRuntime &runtime, const Value &value) {
  switch (value.kind) {
  case ValueKind::Undefined:
    return Value::ofInt(0);
  case ValueKind::String:
    runtime.spendBytes(value.text->size());
    return Value::ofInt(static_cast<int64_t>(textLength(*value.text)));
  case ValueKind::List:
  case ValueKind::Tuple:
    return Value::ofInt(static_cast<int64_t>(value.list->items.size()));
  case ValueKind::Dict:
    return Value::ofInt(static_cast<int64_t>(value.dict->entries.size()));
  default:
    return runtime.fail(std::string("a ") + kindName(value.kind) + " has no length");
  }
}

bool containsItem(TemplateRuntime &runtime, const Value &container, const Value &item) {
  if (container.isText()) {
    if (!item.isText()) {
      runtime.fail(std::string("'in' a string takes a string, found ") + kindName(item.kind));
      return false;
    }
    runtime.spendBytes(container.text->size());
    return container.text->find(*item.text) != std::string::npos;
  }
  if (container.is(ValueKind::Dict)) {
    return findKey(runtime, *container.dict, item) != nullptr;
  }
  const std::vector<Value> *elements = elementsOf(runtime, container);
  return elements && std::any_of(elements->begin(), elements->end(), [&](const Value &element) {
           return valuesEqual(runtime, element, item);
         });
}

namespace {

Value undefinedObject(TemplateRuntime &runtime, const Value &object) {
  return runtime.fail((object.text ? "'" + *object.text + "'" : std::string("a value")) +
                      " is undefined");
}

/// jinja2's LoopContext.
Value loopAttribute(TemplateRuntime &runtime, const LoopValue &loop, const std::string &name) {
  const auto number = [](size_t n) { return Value::ofInt(static_cast<int64_t>(n)); };
  const size_t length = loop.items->size();
  if (name == "index") {
    return number(loop.index + 1);
  }
  if (name == "index0") {
    return number(loop.index);
  }
  if (name == "revindex") {
    return number(length - loop.index);
  }
  if (name == "revindex0") {
    return number(length - loop.index - 1);
  }
  if (name == "first") {
    return Value::ofBool(loop.index == 0);
  }
  if (name == "last") {
    return Value::ofBool(loop.index + 1 == length);
  }
  if (name == "length") {
    return number(length);
  }
  if (name == "depth" || name == "depth0") { // of recursive loops, which don't exist here
    return number(name == "depth" ? 1 : 0);
  }
  if (name == "previtem") {
    return loop.index > 0 ? (*loop.items)[loop.index - 1] : Value::undefined(nullptr);
  }
  if (name == "nextitem") {
    return loop.index + 1 < length ? (*loop.items)[loop.index + 1] : Value::undefined(nullptr);
  }
  return runtime.fail("loop." + name + " is not supported");
}

} // namespace

Value attributeOf(TemplateRuntime &runtime, const Value &object, const std::string &name) {
  switch (object.kind) {
  case ValueKind::Undefined:
    return undefinedObject(runtime, object);
  case ValueKind::Loop:
    return loopAttribute(runtime, *object.loop, name);
  case ValueKind::Namespace:
    for (const auto &[member, value] : object.space->members) {
      if (member == name) {
        return value;
      }
    }
    return Value::undefined(&name);
  case ValueKind::Macro:
  case ValueKind::Function:
    return runtime.fail(std::string("attributes of a ") + kindName(object.kind) +
                        " are not supported");
  default:
    break;
  }
  if (hasMethod(object.kind, name)) { // Python would give the method, not an entry of that name
    return runtime.fail("method '" + name + "' is used without a call; for a key write ['" + name +
                        "']");
  }
  if (object.is(ValueKind::Dict)) {
    for (const auto &[key, value] : object.dict->entries) {
      if (key.isText() && *key.text == name) {
        return value;
      }
    }
  }
  return Value::undefined(&name);
}

Value itemOf(TemplateRuntime &runtime, const Value &object, const Value &key) {
  if (object.isUndefined()) {
    return undefinedObject(runtime, object);
  }
  if (object.is(ValueKind::Dict)) {
    const Value *found = findKey(runtime, *object.dict, key);
    if (found) {
      return *found;
    }
  }
  const bool sequence = object.isText() || isSequence(object);
  if (sequence && key.isInteger()) {
    const Value length = lengthOf(runtime, object);
    const int64_t count = length.isInteger() ? length.asInt() : 0;
    const int64_t index = key.asInt() < 0 ? key.asInt() + count : key.asInt();
    if (index < 0 || index >= count) {
      return Value::undefined(nullptr);
    }
    if (!object.isText()) {
      return object.list->items[static_cast<size_t>(index)];
    }
    return sliceOf(runtime, object, Value::ofInt(index), Value::ofInt(index + 1), Value::none());
  }
  if (key.isText()) { // as jinja2: what is no entry may be an attribute
    return object.is(ValueKind::Dict) && !hasMethod(object.kind, *key.text)
               ? Value::undefined(key.text)
               : attributeOf(runtime, object, *key.text);
  }
  return Value::undefined(nullptr);
}

namespace {

struct SliceRange {
  int64_t start;
  int64_t stop;
  int64_t step;
};

/// Python's slice.indices(length).
std::optional<SliceRange> sliceRange(TemplateRuntime &runtime, const Value &start,
                                     const Value &stop, const Value &step, int64_t length) {
  for (const Value *part : {&start, &stop, &step}) {
    if (!part->isInteger() && !part->is(ValueKind::None)) {
      runtime.fail(std::string("a slice takes integers, found ") + kindName(part->kind));
      return std::nullopt;
    }
  }
  const int64_t by = step.is(ValueKind::None) ? 1 : step.asInt();
  if (by == 0) {
    runtime.fail("a slice's step is zero");
    return std::nullopt;
  }
  const int64_t low = by < 0 ? -1 : 0;
  const int64_t high = by < 0 ? length - 1 : length;
  auto bound = [&](const Value &part, int64_t absent) {
    if (part.is(ValueKind::None)) {
      return absent;
    }
    const int64_t value = part.asInt();
    return std::clamp(value < 0 ? std::max(value, -length - 1) + length : value, low, high);
  };
  return SliceRange{bound(start, by < 0 ? high : low), bound(stop, by < 0 ? low : high), by};
}

} // namespace

Value sliceOf(TemplateRuntime &runtime, const Value &object, const Value &start, const Value &stop,
              const Value &step) {
  if (object.isUndefined()) {
    return undefinedObject(runtime, object);
  }
  if (!object.isText() && !isSequence(object)) {
    return runtime.fail(std::string("a ") + kindName(object.kind) + " can't be sliced");
  }
  const Value length = lengthOf(runtime, object);
  if (runtime.failed()) {
    return {};
  }
  const auto range = sliceRange(runtime, start, stop, step, length.asInt());
  if (!range) {
    return {};
  }
  std::vector<size_t> offsets; // of each character, and the end
  if (object.isText()) {
    if (!runtime.spend(object.text->size() / 16)) {
      return {};
    }
    for (size_t i = 0; i < object.text->size(); i += decodeUtf8(*object.text, i).length) {
      offsets.push_back(i);
    }
    offsets.push_back(object.text->size());
  }
  std::string text;
  std::vector<Value> items;
  int64_t i = range->start;
  while (range->step > 0 ? i < range->stop : i > range->stop) {
    const size_t index = static_cast<size_t>(i);
    if (object.isText()) {
      text.append(*object.text, offsets[index], offsets[index + 1] - offsets[index]);
    } else {
      items.push_back(object.list->items[index]);
    }
    if (__builtin_add_overflow(i, range->step, &i)) {
      break;
    }
  }
  return object.isText() ? runtime.makeText(std::move(text))
                         : runtime.makeList(std::move(items), object.kind);
}

} // namespace sluice
