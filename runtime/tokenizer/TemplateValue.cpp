// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of templates: making them within limits, truth, equality, order and iteration as in
// Python.
#include "runtime/tokenizer/TemplateValue.h"

#include "runtime/tokenizer/Unicode.h"

#include <algorithm>

namespace sluice {

Value Value::undefined(const std::string *name) {
  Value v;
  v.text = name;
  return v;
}
Value Value::none() {
  Value v;
  v.kind = ValueKind::None;
  return v;
}
Value Value::ofBool(bool value) {
  Value v;
  v.kind = ValueKind::Bool;
  v.boolean = value;
  return v;
}
Value Value::ofInt(int64_t value) {
  Value v;
  v.kind = ValueKind::Int;
  v.integer = value;
  return v;
}
Value Value::ofFloat(double value) {
  Value v;
  v.kind = ValueKind::Float;
  v.real = value;
  return v;
}
Value Value::ofText(const std::string *value) {
  Value v;
  v.kind = ValueKind::String;
  v.text = value;
  return v;
}

Value TemplateRuntime::failWith(Code code, std::string_view message) {
  if (status_) {
    status_ = Status(code, "line " + std::to_string(line_) + ": " + std::string(message));
  }
  return {};
}

Value TemplateRuntime::fail(std::string_view message) {
  return failWith(Code::InvalidArgument, message);
}

Value TemplateRuntime::failLimit(std::string_view message) {
  return failWith(Code::Capacity, message);
}

// Steps never exceed the limit, so the difference can't wrap; the same holds for bytes below.
bool TemplateRuntime::spend(uint64_t steps) {
  if (steps > limits_.steps - steps_) {
    failLimit("the chat template takes more than " + std::to_string(limits_.steps) + " steps");
    return false;
  }
  steps_ += steps;
  return !failed();
}

bool TemplateRuntime::reserve(uint64_t bytes) {
  if (bytes > limits_.memoryBytes - bytes_) {
    failLimit("the chat template uses more than " + std::to_string(limits_.memoryBytes) +
              " bytes of memory");
    return false;
  }
  bytes_ += bytes;
  return !failed();
}

Value TemplateRuntime::makeText(std::string text) {
  if (!reserve(sizeof(std::string) + text.size()) || !spendBytes(text.size())) {
    return {};
  }
  return Value::ofText(&texts_.emplace_back(std::move(text)));
}

Value TemplateRuntime::makeList(std::vector<Value> items, ValueKind kind) {
  if (!reserve(sizeof(ListValue) + items.size() * sizeof(Value)) || !spend(items.size() / 4)) {
    return {};
  }
  Value v;
  v.kind = kind;
  v.list = &lists_.emplace_back(ListValue{std::move(items), false});
  return v;
}

Value TemplateRuntime::makeDict(std::vector<std::pair<Value, Value>> entries) {
  if (!reserve(sizeof(DictValue) + entries.size() * 2 * sizeof(Value)) ||
      !spend(entries.size() / 4)) {
    return {};
  }
  Value v;
  v.kind = ValueKind::Dict;
  v.dict = &dicts_.emplace_back(DictValue{std::move(entries)});
  return v;
}

Value TemplateRuntime::makeNamespace() {
  if (!reserve(sizeof(NamespaceValue))) {
    return {};
  }
  Value v;
  v.kind = ValueKind::Namespace;
  v.space = &spaces_.emplace_back();
  return v;
}

const LoopValue *TemplateRuntime::makeLoop(const LoopValue &loop) {
  reserve(sizeof(LoopValue));
  return &loops_.emplace_back(loop);
}

const char *kindName(ValueKind kind) {
  switch (kind) {
  case ValueKind::Undefined:
    return "undefined";
  case ValueKind::None:
    return "none";
  case ValueKind::Bool:
    return "bool";
  case ValueKind::Int:
    return "int";
  case ValueKind::Float:
    return "float";
  case ValueKind::String:
    return "string";
  case ValueKind::List:
    return "list";
  case ValueKind::Tuple:
    return "tuple";
  case ValueKind::Lazy:
    return "generator";
  case ValueKind::Dict:
    return "dict";
  case ValueKind::Namespace:
    return "namespace";
  case ValueKind::Macro:
    return "macro";
  case ValueKind::Loop:
    return "loop";
  case ValueKind::Function:
    return "function";
  }
  return "value";
}

// Everything without a length or a number is true, as in Python.
bool isTrue(const Value &value) {
  switch (value.kind) {
  case ValueKind::Undefined:
  case ValueKind::None:
    return false;
  case ValueKind::Bool:
    return value.boolean;
  case ValueKind::Int:
    return value.integer != 0;
  case ValueKind::Float:
    return value.real != 0;
  case ValueKind::String:
    return !value.text->empty();
  case ValueKind::List:
  case ValueKind::Tuple:
    return !value.list->items.empty();
  case ValueKind::Dict:
    return !value.dict->entries.empty();
  default:
    return true;
  }
}

namespace {

bool tooDeep(TemplateRuntime &runtime, int depth) {
  if (depth <= kMaxValueDepth) {
    return false;
  }
  runtime.failLimit("a value nests deeper than " + std::to_string(kMaxValueDepth) + " levels");
  return true;
}

bool dictsEqual(TemplateRuntime &runtime, const DictValue &a, const DictValue &b, int depth) {
  if (a.entries.size() != b.entries.size()) {
    return false;
  }
  for (const auto &[key, value] : a.entries) {
    const Value *other = findKey(runtime, b, key);
    if (!other || !valuesEqual(runtime, value, *other, depth + 1)) {
      return false;
    }
  }
  return true;
}

int sign(double a, double b) { return a < b ? -1 : (a > b ? 1 : 0); }

/// Exact order of two numbers: int against int not by way of double.
int compareNumbers(const Value &a, const Value &b) {
  if (a.isInteger() && b.isInteger()) {
    return a.asInt() < b.asInt() ? -1 : (a.asInt() > b.asInt() ? 1 : 0);
  }
  return sign(a.asFloat(), b.asFloat());
}

} // namespace

bool valuesEqual(TemplateRuntime &runtime, const Value &a, const Value &b, int depth) {
  if (tooDeep(runtime, depth) || !runtime.spend(1)) {
    return false;
  }
  if (a.isNumber() && b.isNumber()) {
    return a.isInteger() && b.isInteger() ? a.asInt() == b.asInt() : a.asFloat() == b.asFloat();
  }
  if (a.kind != b.kind) {
    return false;
  }
  switch (a.kind) {
  case ValueKind::Undefined:
  case ValueKind::None:
    return true;
  case ValueKind::String:
    return runtime.spendBytes(std::min(a.text->size(), b.text->size())) && *a.text == *b.text;
  case ValueKind::List:
  case ValueKind::Tuple:
    return std::equal(
        a.list->items.begin(), a.list->items.end(), b.list->items.begin(), b.list->items.end(),
        [&](const Value &x, const Value &y) { return valuesEqual(runtime, x, y, depth + 1); });
  case ValueKind::Dict:
    return dictsEqual(runtime, *a.dict, *b.dict, depth);
  case ValueKind::Namespace:
    return a.space == b.space;
  case ValueKind::Macro:
    return a.macro == b.macro;
  case ValueKind::Function:
    return a.function == b.function;
  default:
    return false;
  }
}

// NaN compares as equal: nothing that is sorted depends on more than a defined answer.
std::optional<int> compareValues(TemplateRuntime &runtime, const Value &a, const Value &b,
                                 int depth) {
  if (tooDeep(runtime, depth) || !runtime.spend(1)) {
    return std::nullopt;
  }
  if (a.isNumber() && b.isNumber()) {
    return compareNumbers(a, b);
  }
  if (a.isText() && b.isText()) { // UTF-8 bytes are in the order of code points
    runtime.spendBytes(std::min(a.text->size(), b.text->size()));
    const int order = a.text->compare(*b.text);
    return order < 0 ? -1 : (order > 0 ? 1 : 0);
  }
  const bool lists = a.kind == b.kind && (a.is(ValueKind::List) || a.is(ValueKind::Tuple));
  if (!lists) {
    runtime.fail(std::string("can't order ") + kindName(a.kind) + " and " + kindName(b.kind));
    return std::nullopt;
  }
  const auto &x = a.list->items;
  const auto &y = b.list->items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!valuesEqual(runtime, x[i], y[i], depth + 1)) {
      return compareValues(runtime, x[i], y[i], depth + 1);
    }
  }
  return x.size() < y.size() ? -1 : (x.size() > y.size() ? 1 : 0);
}

const std::vector<Value> *elementsOf(TemplateRuntime &runtime, const Value &value) {
  std::vector<Value> made;
  switch (value.kind) {
  case ValueKind::List:
  case ValueKind::Tuple:
    return &value.list->items;
  case ValueKind::Lazy:
    if (value.list->consumed) { // Python would give nothing the second time
      runtime.fail("the result of a filter is read twice; write |list behind the filter");
      return nullptr;
    }
    value.list->consumed = true;
    return &value.list->items;
  case ValueKind::Undefined:
    break;
  case ValueKind::String:
    made = charactersOf(runtime, *value.text);
    break;
  case ValueKind::Dict:
    for (const auto &[key, member] : value.dict->entries) {
      made.push_back(key);
    }
    break;
  default:
    runtime.fail(std::string("can't iterate over ") + kindName(value.kind));
    return nullptr;
  }
  const Value list = runtime.makeList(std::move(made));
  return runtime.failed() ? nullptr : &list.list->items;
}

const Value *findKey(TemplateRuntime &runtime, const DictValue &dict, const Value &key) {
  runtime.spend(dict.entries.size() / 8);
  for (const auto &[name, value] : dict.entries) {
    const bool equal =
        name.isText() && key.isText() ? *name.text == *key.text : valuesEqual(runtime, name, key);
    if (equal) {
      return &value;
    }
  }
  return nullptr;
}

void setKey(TemplateRuntime &runtime, DictValue &dict, const Value &key, const Value &value) {
  if (const Value *old = findKey(runtime, dict, key)) {
    const auto it = std::find_if(dict.entries.begin(), dict.entries.end(),
                                 [&](const auto &entry) { return &entry.second == old; });
    it->second = value;
  } else {
    dict.entries.emplace_back(key, value);
  }
}

size_t textLength(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; // all texts are valid UTF-8
  }));
}

std::vector<Value> charactersOf(TemplateRuntime &runtime, std::string_view text) {
  std::vector<Value> made;
  for (size_t i = 0; i < text.size() && runtime.spend(1);) {
    const size_t length = decodeUtf8(text, i).length;
    made.push_back(runtime.makeText(std::string(text.substr(i, length))));
    i += length;
  }
  return made;
}

} // namespace sluice
