// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values of chat templates, and the memory and step limits of one render. Everything made while
// rendering belongs to TemplateRuntime and dies with it, so values are plain small copies and may
// point at each other.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/ChatTemplate.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct ListValue;
struct DictValue;
struct NamespaceValue;
struct MacroValue;
struct LoopValue;
enum class TemplateFunction : uint8_t { Namespace, Range, Dict, RaiseException, StrftimeNow };

/// Undefined: a name or attribute that doesn't exist. Lazy: what Python's filters return as a
/// generator (always true, no length, read once).
enum class ValueKind : uint8_t {
  Undefined,
  None,
  Bool,
  Int,
  Float,
  String,
  List,
  Tuple,
  Lazy,
  Dict,
  Namespace,
  Macro,
  Loop,
  Function
};

struct Value {
  ValueKind kind = ValueKind::Undefined;
  bool markup = false; ///< String: came from `safe`; what is added to it with + is escaped for
                       ///< HTML, as in jinja2
  union {
    bool boolean;
    int64_t integer;
    double real;
    const std::string *text; ///< String; for Undefined the name that was looked up, or null
    ListValue *list;         ///< List, Tuple, Lazy
    const DictValue *dict;
    NamespaceValue *space;
    const MacroValue *macro;
    const LoopValue *loop;
    TemplateFunction function;
  };

  Value() : text(nullptr) {}
  static Value undefined(const std::string *name);
  static Value none();
  static Value ofBool(bool value);
  static Value ofInt(int64_t value);
  static Value ofFloat(double value);
  static Value ofText(const std::string *value);

  bool is(ValueKind k) const { return kind == k; }
  bool isUndefined() const { return kind == ValueKind::Undefined; }
  bool isText() const { return kind == ValueKind::String; }
  /// Bool counts as a number, as in Python.
  bool isNumber() const {
    return kind == ValueKind::Bool || kind == ValueKind::Int || kind == ValueKind::Float;
  }
  bool isInteger() const { return kind == ValueKind::Bool || kind == ValueKind::Int; }
  int64_t asInt() const { return kind == ValueKind::Bool ? int64_t{boolean} : integer; }
  double asFloat() const { return kind == ValueKind::Float ? real : static_cast<double>(asInt()); }
};

struct ListValue {
  std::vector<Value> items;
  bool consumed = false; ///< Lazy: it was read
};
struct DictValue {
  std::vector<std::pair<Value, Value>> entries; ///< in order of insertion
};
struct NamespaceValue {
  std::vector<std::pair<std::string, Value>> members;
};
struct LoopValue {
  const std::vector<Value> *items;
  size_t index;
};

/// One render's memory, limits and first error. After an error all functions give Undefined or
/// false; callers look at failed() and return.
class TemplateRuntime {
public:
  explicit TemplateRuntime(const TemplateLimits &limits) : limits_(limits) {}
  TemplateRuntime(const TemplateRuntime &) = delete;
  TemplateRuntime &operator=(const TemplateRuntime &) = delete;

  bool failed() const { return !status_; }
  const Status &status() const { return status_; }
  void setLine(uint32_t line) { line_ = line; }
  uint32_t line() const { return line_; }
  /// Records "line N: message" as InvalidArgument, unless there is an error already.
  Value fail(std::string_view message);
  /// The same as Capacity: a limit is reached.
  Value failLimit(std::string_view message);

  /// Counts work; false (and an error) when the limit is reached.
  bool spend(uint64_t steps);
  /// Counts the work of touching bytes.
  bool spendBytes(uint64_t bytes) { return spend(bytes / 64); }
  /// Counts memory before it is taken; false (and an error) when the limit is reached.
  bool reserve(uint64_t bytes);

  Value makeText(std::string text);
  Value makeList(std::vector<Value> items, ValueKind kind = ValueKind::List);
  Value makeDict(std::vector<std::pair<Value, Value>> entries);
  Value makeNamespace();
  const LoopValue *makeLoop(const LoopValue &loop);
  const TemplateLimits &limits() const { return limits_; }

private:
  Value failWith(Code code, std::string_view message);

  TemplateLimits limits_;
  Status status_;
  uint32_t line_ = 1;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  std::deque<std::string> texts_;
  std::deque<ListValue> lists_;
  std::deque<DictValue> dicts_;
  std::deque<NamespaceValue> spaces_;
  std::deque<LoopValue> loops_;
};

/// Deepest nesting of lists and dicts that is compared, printed or converted.
constexpr int kMaxValueDepth = 64;

/// The Python type's name, for messages.
const char *kindName(ValueKind kind);
/// bool(value).
bool isTrue(const Value &value);
/// a == b. Deep nesting fails.
bool valuesEqual(TemplateRuntime &runtime, const Value &a, const Value &b, int depth = 0);
/// -1, 0, 1; nothing (and an error that names both types) when Python can't order them.
std::optional<int> compareValues(TemplateRuntime &runtime, const Value &a, const Value &b,
                                 int depth = 0);
/// The elements that a for loop sees: characters of a string, keys of a dict. Nothing (and an
/// error) when there are none. Valid as long as the runtime.
const std::vector<Value> *elementsOf(TemplateRuntime &runtime, const Value &value);
/// The value of a key; null when absent.
const Value *findKey(TemplateRuntime &runtime, const DictValue &dict, const Value &key);
/// dict[key] = value; a known key keeps its place.
void setKey(TemplateRuntime &runtime, DictValue &dict, const Value &key, const Value &value);
/// Number of characters.
size_t textLength(std::string_view text);
/// The characters of a text as one-character strings.
std::vector<Value> charactersOf(TemplateRuntime &runtime, std::string_view text);

} // namespace sluice
