// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Filters, tests and methods of chat templates: what stands behind "|", "is" and "." in an
// expression. The parser asks which exist; the evaluator calls them.
#pragma once

#include "runtime/tokenizer/TemplateValue.h"

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The arguments of a call, evaluated.
struct TemplateArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
  bool empty() const { return positional.empty() && named.empty(); }
};

/// Sorts arguments to parameters `names`: out[i] is Undefined where none was given. False (and an
/// error that names `what`) when there are too many, an unknown name, or fewer than `required`.
bool bindArguments(TemplateRuntime &runtime, std::string_view what,
                   const TemplateArguments &arguments, std::span<const std::string_view> names,
                   size_t required, std::span<Value> out);

// TemplateFilters.cpp, TemplateSequenceFilters.cpp
bool isKnownFilter(std::string_view name);
Value applyFilter(TemplateRuntime &runtime, std::string_view name, const Value &input,
                  const TemplateArguments &arguments);
/// The filters over sequences; nothing when `name` is none of them.
std::optional<Value> applySequenceFilter(TemplateRuntime &runtime, std::string_view name,
                                         const Value &input, const TemplateArguments &arguments);
bool isSequenceFilter(std::string_view name);

// TemplateTests.cpp
bool isKnownTest(std::string_view name);
bool applyTest(TemplateRuntime &runtime, std::string_view name, const Value &input,
               const TemplateArguments &arguments);

// TemplateMethods.cpp
/// value.name(arguments) of strings, lists and dicts.
Value callMethod(TemplateRuntime &runtime, const Value &object, std::string_view name,
                 const TemplateArguments &arguments);
/// text.format(arguments) with {}, {0} and {name}; conversions, formats and attributes are refused.
/// (TemplateFormat.cpp)
Value formatText(TemplateRuntime &runtime, const std::string &text,
                 const TemplateArguments &arguments);
/// strftime of seconds since 1970 in UTC, with C's names of days and months. (TemplateFormat.cpp)
Value formatTime(TemplateRuntime &runtime, int64_t seconds, const std::string &format);
/// True when Python's type has such a method, so that value.name is no lookup of a key.
bool hasMethod(ValueKind kind, std::string_view name);

// TemplateOperators.cpp
/// object.name and object[key]: Undefined where absent; an error for an Undefined object.
Value attributeOf(TemplateRuntime &runtime, const Value &object, const std::string &name);
Value itemOf(TemplateRuntime &runtime, const Value &object, const Value &key);
/// object[start:stop:step]; None where absent.
Value sliceOf(TemplateRuntime &runtime, const Value &object, const Value &start, const Value &stop,
              const Value &step);
/// + - * / // % **
Value binaryOperation(TemplateRuntime &runtime, std::string_view sign, const Value &a,
                      const Value &b);
/// item in container
bool containsItem(TemplateRuntime &runtime, const Value &container, const Value &item);
/// len(value)
Value lengthOf(TemplateRuntime &runtime, const Value &value);

} // namespace sluice
