// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The filters of chat templates over lists and dicts, after jinja2/filters.py.
#include "runtime/tokenizer/TemplateFilters.h"
#include "runtime/tokenizer/TemplateText.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sluice {

namespace {

constexpr std::array<std::string_view, 16> kFilters = {
    "first", "last",   "list",       "items", "dictsort", "select", "reject", "selectattr",
    "map",   "unique", "rejectattr", "sort",  "reverse",  "min",    "max",    "sum"};

/// value.a.b.0 for the attribute "a.b.0", as jinja2's make_attrgetter.
Value dottedAttribute(TemplateRuntime &runtime, Value value, const Value &attribute) {
  if (attribute.isInteger()) {
    return itemOf(runtime, value, attribute);
  }
  if (!attribute.isText()) {
    return runtime.fail(std::string("an attribute's name must be a text, found ") +
                        kindName(attribute.kind));
  }
  const std::string &path = *attribute.text;
  for (size_t start = 0; start <= path.size() && !runtime.failed();) {
    const size_t end = std::min(path.find('.', start), path.size());
    const std::string part = path.substr(start, end - start);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && parsed.ec == std::errc() &&
                        parsed.ptr == part.data() + part.size() && part[0] != '-';
    value = itemOf(runtime, value, number ? Value::ofInt(index) : runtime.makeText(part));
    start = end + 1;
  }
  return value;
}

/// Texts compare in lower case unless asked otherwise.
Value sortKey(TemplateRuntime &runtime, const Value &item, const Value &attribute,
              bool caseSensitive) {
  const bool plain = attribute.isUndefined() || attribute.is(ValueKind::None);
  const Value key = plain ? item : dottedAttribute(runtime, item, attribute);
  return key.isText() && !caseSensitive
             ? runtime.makeText(changeCase(runtime, *key.text, LetterCase::Lower))
             : key;
}

struct Keyed {
  Value key;
  Value item;
};

/// The items with what they are ordered by; shorter after an error.
std::vector<Keyed> withKeys(TemplateRuntime &runtime, const std::vector<Value> &items,
                            const Value &attribute, bool caseSensitive) {
  std::vector<Keyed> keyed;
  for (const Value &item : items) {
    if (runtime.failed() || !runtime.spend(1)) {
      break;
    }
    keyed.push_back({sortKey(runtime, item, attribute, caseSensitive), item});
  }
  return keyed;
}

/// Merge sort from below: stable, and safe for any answer of compareValues (NaN, or values that
/// can't be ordered, which end the render with an error).
void sortKeyed(TemplateRuntime &runtime, std::vector<Keyed> &keyed, bool reverse) {
  std::vector<Keyed> merged(keyed.size());
  for (size_t width = 1; width < keyed.size() && !runtime.failed(); width *= 2) {
    for (size_t start = 0; start < keyed.size(); start += 2 * width) {
      const size_t middle = std::min(start + width, keyed.size());
      const size_t end = std::min(start + 2 * width, keyed.size());
      size_t left = start;
      size_t right = middle;
      for (size_t out = start; out < end; ++out) {
        bool takeRight = left == middle;
        if (left < middle && right < end) {
          const auto order = compareValues(runtime, keyed[right].key, keyed[left].key);
          takeRight = order && (reverse ? *order > 0 : *order < 0);
        }
        merged[out] = keyed[takeRight ? right++ : left++];
      }
    }
    keyed.swap(merged);
  }
}

std::vector<Value> itemsOf(const std::vector<Keyed> &keyed) {
  std::vector<Value> items;
  for (const Keyed &k : keyed) {
    items.push_back(k.item);
  }
  return items;
}

/// jinja2's do_sort: a list, stable also in reverse.
Value sorted(TemplateRuntime &runtime, const std::vector<Value> &items,
             const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 3> kNames = {"reverse", "case_sensitive", "attribute"};
  std::array<Value, 3> a;
  if (!bindArguments(runtime, "sort", arguments, kNames, 0, a)) {
    return {};
  }
  std::vector<Keyed> keyed = withKeys(runtime, items, a[2], isTrue(a[1]));
  sortKeyed(runtime, keyed, isTrue(a[0]));
  return runtime.makeList(itemsOf(keyed));
}

/// jinja2's do_dictsort: a list of (key, value).
Value dictSorted(TemplateRuntime &runtime, const Value &input, const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 3> kNames = {"case_sensitive", "by", "reverse"};
  std::array<Value, 3> a;
  if (!bindArguments(runtime, "dictsort", arguments, kNames, 0, a)) {
    return {};
  }
  const bool byValue = a[1].isText() && *a[1].text == "value";
  const bool byKey = a[1].isUndefined() || (a[1].isText() && *a[1].text == "key");
  if (!input.is(ValueKind::Dict) || (!byValue && !byKey)) {
    return runtime.fail("'dictsort' takes a dict, by 'key' or 'value'");
  }
  std::vector<Keyed> keyed;
  for (const auto &[key, value] : input.dict->entries) {
    keyed.push_back({sortKey(runtime, byValue ? value : key, Value(), isTrue(a[0])),
                     runtime.makeList({key, value}, ValueKind::Tuple)});
  }
  sortKeyed(runtime, keyed, isTrue(a[2]));
  return runtime.makeList(itemsOf(keyed));
}

/// min and max: the first of equal items; Undefined of nothing.
Value extreme(TemplateRuntime &runtime, std::string_view name, const std::vector<Value> &items,
              const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"case_sensitive", "attribute"};
  std::array<Value, 2> a;
  if (!bindArguments(runtime, name, arguments, kNames, 0, a)) {
    return {};
  }
  const std::vector<Keyed> keyed = withKeys(runtime, items, a[1], isTrue(a[0]));
  if (keyed.empty()) {
    return Value::undefined(nullptr);
  }
  const Keyed *best = &keyed[0];
  for (const Keyed &k : keyed) {
    const auto order = compareValues(runtime, k.key, best->key);
    if (order && (name == "min" ? *order < 0 : *order > 0)) {
      best = &k;
    }
  }
  return best->item;
}

/// The first of each group of equal items. Quadratic, hence paid for by steps in valuesEqual.
Value unique(TemplateRuntime &runtime, const std::vector<Value> &items,
             const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"case_sensitive", "attribute"};
  std::array<Value, 2> a;
  if (!bindArguments(runtime, "unique", arguments, kNames, 0, a)) {
    return {};
  }
  std::vector<Keyed> kept;
  for (const Keyed &k : withKeys(runtime, items, a[1], isTrue(a[0]))) {
    const bool known = std::any_of(kept.begin(), kept.end(), [&](const Keyed &other) {
      return valuesEqual(runtime, k.key, other.key);
    });
    if (!known) {
      kept.push_back(k);
    }
    if (runtime.failed()) {
      return {};
    }
  }
  return runtime.makeList(itemsOf(kept), ValueKind::Lazy);
}

/// sum(attribute, start) with the + of templates.
Value total(TemplateRuntime &runtime, const std::vector<Value> &items,
            const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"attribute", "start"};
  std::array<Value, 2> a = {Value(), Value::ofInt(0)};
  if (!bindArguments(runtime, "sum", arguments, kNames, 0, a)) {
    return {};
  }
  Value sum = a[1];
  for (const Value &item : items) {
    const bool plain = a[0].isUndefined() || a[0].is(ValueKind::None);
    sum = binaryOperation(runtime, "+", sum, plain ? item : dottedAttribute(runtime, item, a[0]));
    if (runtime.failed()) {
      return {};
    }
  }
  return sum;
}

/// select, reject, selectattr, rejectattr: [attribute,] [test, arguments of the test].
Value selected(TemplateRuntime &runtime, std::string_view name, const std::vector<Value> &items,
               const TemplateArguments &arguments) {
  const bool byAttribute = name == "selectattr" || name == "rejectattr";
  const bool keep = name == "select" || name == "selectattr";
  size_t at = 0;
  Value attribute;
  if (byAttribute) {
    if (arguments.positional.empty()) {
      return runtime.fail("'" + std::string(name) + "' misses its attribute");
    }
    attribute = arguments.positional[at++];
  }
  std::string test;
  if (at < arguments.positional.size()) {
    test = textOf(runtime, arguments.positional[at++]);
  }
  TemplateArguments rest{
      {arguments.positional.begin() + static_cast<ptrdiff_t>(at), arguments.positional.end()},
      arguments.named};
  std::vector<Value> kept;
  for (const Value &item : items) {
    if (runtime.failed() || !runtime.spend(1)) {
      return {};
    }
    const Value subject = byAttribute ? dottedAttribute(runtime, item, attribute) : item;
    const bool passes = test.empty() ? isTrue(subject) : applyTest(runtime, test, subject, rest);
    if (passes == keep) {
      kept.push_back(item);
    }
  }
  return runtime.makeList(std::move(kept), ValueKind::Lazy);
}

/// map(attribute="a.b", default=...) or map("filter", arguments).
Value mapped(TemplateRuntime &runtime, const std::vector<Value> &items,
             const TemplateArguments &arguments) {
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    constexpr std::array<std::string_view, 2> kNames = {"attribute", "default"};
    std::array<Value, 2> a;
    if (!bindArguments(runtime, "map", arguments, kNames, 1, a)) {
      return {};
    }
    for (const Value &item : items) {
      Value value = dottedAttribute(runtime, item, a[0]);
      out.push_back(value.isUndefined() ? (a[1].isUndefined() ? value : a[1]) : value);
      if (runtime.failed() || !runtime.spend(1)) {
        return {};
      }
    }
    return runtime.makeList(std::move(out), ValueKind::Lazy);
  }
  const std::string filter = textOf(runtime, arguments.positional[0]);
  const TemplateArguments rest{{arguments.positional.begin() + 1, arguments.positional.end()},
                               arguments.named};
  if (filter == "map" || filter == "select" || filter == "reject") {
    return runtime.fail("'map' of '" + filter + "' is not supported");
  }
  for (const Value &item : items) {
    if (runtime.failed() || !runtime.spend(1)) {
      return {};
    }
    out.push_back(applyFilter(runtime, filter, item, rest));
  }
  return runtime.makeList(std::move(out), ValueKind::Lazy);
}

/// jinja2's do_items: Undefined has none.
Value pairsOf(TemplateRuntime &runtime, const Value &input) {
  std::vector<Value> pairs;
  if (!input.is(ValueKind::Dict) && !input.isUndefined()) {
    return runtime.fail(std::string("'items' takes a dict, found ") + kindName(input.kind));
  }
  for (size_t i = 0; input.is(ValueKind::Dict) && i < input.dict->entries.size(); ++i) {
    const auto &[key, value] = input.dict->entries[i];
    pairs.push_back(runtime.makeList({key, value}, ValueKind::Tuple));
  }
  return runtime.makeList(std::move(pairs), ValueKind::Lazy);
}

Value reversed(TemplateRuntime &runtime, const Value &input) {
  if (input.isText()) {
    return sliceOf(runtime, input, Value::none(), Value::none(), Value::ofInt(-1));
  }
  const std::vector<Value> *items = elementsOf(runtime, input);
  return items ? runtime.makeList({items->rbegin(), items->rend()}, ValueKind::Lazy) : Value();
}

/// The filters that take no arguments.
Value plainFilter(TemplateRuntime &runtime, std::string_view name, const Value &input) {
  if (name == "items") {
    return pairsOf(runtime, input);
  }
  if (name == "reverse") {
    return reversed(runtime, input);
  }
  if (name == "last" && input.is(ValueKind::Lazy)) {
    return runtime.fail("'last' of a filter's result; write |list before it");
  }
  const std::vector<Value> *items = elementsOf(runtime, input);
  if (!items) {
    return {};
  }
  if (name == "list") {
    return runtime.makeList(*items);
  }
  if (items->empty()) {
    return Value::undefined(nullptr);
  }
  return name == "first" ? items->front() : items->back();
}

} // namespace

bool isSequenceFilter(std::string_view name) {
  return std::find(kFilters.begin(), kFilters.end(), name) != kFilters.end();
}

std::optional<Value> applySequenceFilter(TemplateRuntime &runtime, std::string_view name,
                                         const Value &input, const TemplateArguments &arguments) {
  if (!isSequenceFilter(name)) {
    return std::nullopt;
  }
  if (name == "dictsort") {
    return dictSorted(runtime, input, arguments);
  }
  for (std::string_view plain : {"first", "last", "list", "items", "reverse"}) {
    if (name == plain) {
      return arguments.empty()
                 ? plainFilter(runtime, name, input)
                 : runtime.fail("filter '" + std::string(name) + "' takes no arguments");
    }
  }
  const bool lazy = name == "map" || name == "select" || name == "reject" || name == "selectattr" ||
                    name == "rejectattr";
  if (lazy && !isTrue(input)) { // jinja2 looks at the items only when there are some: none is fine
    return runtime.makeList({}, ValueKind::Lazy);
  }
  const std::vector<Value> *items = elementsOf(runtime, input);
  if (!items) {
    return Value();
  }
  if (name == "sort") {
    return sorted(runtime, *items, arguments);
  }
  if (name == "unique") {
    return unique(runtime, *items, arguments);
  }
  if (name == "sum") {
    return total(runtime, *items, arguments);
  }
  if (name == "min" || name == "max") {
    return extreme(runtime, name, *items, arguments);
  }
  return name == "map" ? mapped(runtime, *items, arguments)
                       : selected(runtime, name, *items, arguments);
}

} // namespace sluice
