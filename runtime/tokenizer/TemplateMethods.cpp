// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Methods of strings, lists and dicts in chat templates, as Python has them. Methods that change
// their object are refused, as jinja2's immutable sandbox does.
#include "runtime/tokenizer/TemplateFilters.h"
#include "runtime/tokenizer/TemplateText.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <array>
#include <utf8proc.h>

namespace sluice {

namespace {

constexpr std::array<std::string_view, 47> kTextMethods = {
    "strip",       "lstrip",       "rstrip",    "split",     "rsplit",       "splitlines",
    "startswith",  "endswith",     "upper",     "lower",     "title",        "capitalize",
    "replace",     "join",         "find",      "rfind",     "index",        "count",
    "isdigit",     "isalpha",      "isspace",   "isalnum",   "removeprefix", "removesuffix",
    "format",      "format_map",   "encode",    "zfill",     "center",       "ljust",
    "rjust",       "swapcase",     "casefold",  "partition", "rpartition",   "rindex",
    "isupper",     "islower",      "istitle",   "isnumeric", "isdecimal",    "isascii",
    "isprintable", "isidentifier", "translate", "maketrans", "expandtabs"};
constexpr std::array<std::string_view, 11> kListMethods = {"index",  "count",   "copy", "append",
                                                           "extend", "insert",  "pop",  "remove",
                                                           "clear",  "reverse", "sort"};
constexpr std::array<std::string_view, 11> kDictMethods = {
    "items", "keys",    "values",     "get",   "copy",    "update",
    "pop",   "popitem", "setdefault", "clear", "fromkeys"};

Value notSupported(TemplateRuntime &runtime, ValueKind kind, std::string_view name) {
  return runtime.fail(std::string("method '") + std::string(name) + "' of a " + kindName(kind) +
                      " is not supported");
}

bool allCharacters(std::string_view text, bool (*test)(char32_t)) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decodeUtf8(text, i);
    if (!test(c.code)) {
      return false;
    }
    i += c.length;
  }
  return !text.empty();
}

/// The general categories L*.
bool isLetter(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/// split and rsplit; without separator runs of white space separate, and none stands at the ends.
Value splitText(TemplateRuntime &runtime, const std::string &text, std::string_view name,
                const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 2> kNames = {"sep", "maxsplit"};
  std::array<Value, 2> a = {Value::none(), Value::ofInt(-1)};
  if (!bindArguments(runtime, name, arguments, kNames, 0, a)) {
    return {};
  }
  const bool bySpace = a[0].is(ValueKind::None);
  if ((!bySpace && (!a[0].isText() || a[0].text->empty())) || !a[1].isInteger()) {
    return runtime.fail("'" + std::string(name) + "' takes a text that is not empty, and a number");
  }
  int64_t left = a[1].asInt();
  if (name == "rsplit" && left >= 0) {
    return notSupported(runtime, ValueKind::String, "rsplit with maxsplit");
  }
  std::vector<Value> parts;
  std::string_view rest = text;
  while (!runtime.failed() && runtime.spend(1)) {
    if (bySpace) {
      rest = stripped(rest, std::nullopt, true, false);
      if (rest.empty()) {
        break;
      }
    }
    size_t end = 0;
    size_t width = 0;
    if (bySpace) {
      while (end < rest.size() && !isPythonSpace(decodeUtf8(rest, end).code)) {
        end += decodeUtf8(rest, end).length;
      }
    } else {
      end = std::min(rest.find(*a[0].text), rest.size());
      width = a[0].text->size();
    }
    const bool last = end == rest.size() || left == 0;
    if (last) {
      // What remains after maxsplit stays as it is.
      const std::string_view part = left == 0 ? rest : rest.substr(0, end);
      parts.push_back(runtime.makeText(std::string(part)));
      break;
    }
    parts.push_back(runtime.makeText(std::string(rest.substr(0, end))));
    rest.remove_prefix(end + width);
    left -= left > 0 ? 1 : 0;
  }
  return runtime.makeList(std::move(parts));
}

/// The line breaks of str.splitlines().
Value splitLines(TemplateRuntime &runtime, const std::string &text) {
  std::vector<Value> lines;
  for (size_t start = 0; start < text.size() && runtime.spend(1);) {
    size_t end = start;
    size_t width = 0;
    while (end < text.size() && width == 0) {
      const Utf8Char c = decodeUtf8(text, end);
      const bool breaks = (c.code >= 0x0A && c.code <= 0x0D) ||
                          (c.code >= 0x1C && c.code <= 0x1E) || c.code == 0x85 ||
                          c.code == 0x2028 || c.code == 0x2029;
      if (breaks) {
        width =
            c.length + (c.code == '\r' && end + 1 < text.size() && text[end + 1] == '\n' ? 1U : 0U);
      } else {
        end += c.length;
      }
    }
    lines.push_back(runtime.makeText(text.substr(start, end - start)));
    start = end + width;
  }
  return runtime.makeList(std::move(lines));
}

/// str.replace(old, new, count), also for an empty `old`.
Value replaceText(TemplateRuntime &runtime, const std::string &text,
                  const TemplateArguments &arguments) {
  constexpr std::array<std::string_view, 3> kNames = {"old", "new", "count"};
  std::array<Value, 3> a = {Value(), Value(), Value::ofInt(-1)};
  if (!bindArguments(runtime, "replace", arguments, kNames, 2, a)) {
    return {};
  }
  if (!a[0].isText() || !a[1].isText()) {
    return runtime.fail("'replace' takes two texts");
  }
  const std::string &from = *a[0].text;
  const std::string &to = *a[1].text;
  int64_t left = a[2].isInteger() ? a[2].asInt() : -1;
  std::string out;
  size_t at = 0;
  while (at <= text.size() && left != 0) {
    const size_t found = text.find(from, at);
    if (found == std::string::npos || !runtime.spend(1)) {
      break;
    }
    out.append(text, at, found - at);
    out += to;
    at = found + from.size();
    if (from.empty()) { // before each character and at the end
      const size_t length = found < text.size() ? decodeUtf8(text, found).length : 1;
      out.append(text, found, found < text.size() ? length : 0);
      at = found + length;
    }
    left -= left > 0 ? 1 : 0;
    if (out.size() > runtime.limits().memoryBytes) {
      return runtime.failLimit("a text is longer than the memory limit");
    }
  }
  if (at < text.size()) {
    out.append(text, at);
  }
  return runtime.makeText(std::move(out));
}

/// startswith, endswith: a text or a tuple of texts.
Value hasAffix(TemplateRuntime &runtime, const std::string &text, const Value &affix,
               bool atStart) {
  if (affix.is(ValueKind::Tuple)) {
    for (const Value &one : affix.list->items) {
      const Value found =
          one.is(ValueKind::Tuple) ? Value() : hasAffix(runtime, text, one, atStart);
      if (runtime.failed() || isTrue(found)) {
        return found;
      }
    }
    return Value::ofBool(false);
  }
  if (!affix.isText()) {
    return runtime.fail(std::string("a prefix or suffix must be a text, found ") +
                        kindName(affix.kind));
  }
  const std::string_view view = text;
  return Value::ofBool(atStart ? view.substr(0, affix.text->size()) == *affix.text
                               : view.size() >= affix.text->size() &&
                                     view.substr(view.size() - affix.text->size()) == *affix.text);
}

/// find, rfind, index, count: in characters.
Value searchText(TemplateRuntime &runtime, const std::string &text, std::string_view name,
                 const Value &what) {
  if (!what.isText()) {
    return runtime.fail("'" + std::string(name) + "' takes a text");
  }
  runtime.spendBytes(text.size());
  if (name == "count") {
    int64_t count = 0;
    if (what.text->empty()) {
      return Value::ofInt(static_cast<int64_t>(textLength(text)) + 1);
    }
    for (size_t at = text.find(*what.text); at != std::string::npos;
         at = text.find(*what.text, at + what.text->size())) {
      ++count;
    }
    return Value::ofInt(count);
  }
  const size_t at = name == "rfind" ? text.rfind(*what.text) : text.find(*what.text);
  if (at == std::string::npos) {
    return name == "index" ? runtime.fail("substring not found") : Value::ofInt(-1);
  }
  return Value::ofInt(static_cast<int64_t>(textLength(std::string_view(text).substr(0, at))));
}

Value stripText(TemplateRuntime &runtime, const std::string &text, std::string_view name,
                const TemplateArguments &arguments) {
  const Value chars = arguments.positional.empty() ? Value::none() : arguments.positional[0];
  if (!arguments.named.empty() || arguments.positional.size() > 1 ||
      !(chars.isText() || chars.is(ValueKind::None))) {
    return runtime.fail("'" + std::string(name) + "' takes one text");
  }
  const auto set = chars.isText() ? std::optional<std::string_view>(*chars.text) : std::nullopt;
  return runtime.makeText(std::string(stripped(text, set, name != "rstrip", name != "lstrip")));
}

/// Methods without arguments; nothing for other names.
std::optional<Value> plainTextMethod(TemplateRuntime &runtime, const std::string &text,
                                     std::string_view name) {
  if (name == "upper") {
    return runtime.makeText(changeCase(runtime, text, LetterCase::Upper));
  }
  if (name == "lower") {
    return runtime.makeText(changeCase(runtime, text, LetterCase::Lower));
  }
  if (name == "title") {
    return runtime.makeText(changeCase(runtime, text, LetterCase::Title));
  }
  if (name == "capitalize") {
    return runtime.makeText(changeCase(runtime, text, LetterCase::Capitalized));
  }
  if (name == "splitlines") {
    return splitLines(runtime, text);
  }
  if (name == "isdigit") {
    const bool ascii = allCharacters(text, [](char32_t c) { return c < 0x80; });
    const bool digits = allCharacters(text, [](char32_t c) { return c >= '0' && c <= '9'; });
    return ascii || text.empty()
               ? Value::ofBool(digits)
               : runtime.fail("'isdigit' of a text that is not ASCII is not supported");
  }
  if (name == "isspace") {
    return Value::ofBool(allCharacters(text, isPythonSpace));
  }
  if (name == "isalpha") {
    return Value::ofBool(allCharacters(text, isLetter));
  }
  if (name == "isalnum") {
    return Value::ofBool(
        allCharacters(text, [](char32_t c) { return isLetter(c) || isNumeric(c); }));
  }
  return std::nullopt;
}

Value callTextMethod(TemplateRuntime &runtime, const Value &object, std::string_view name,
                     const TemplateArguments &arguments) {
  const std::string &text = *object.text;
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return stripText(runtime, text, name, arguments);
  }
  if (name == "split" || name == "rsplit") {
    return splitText(runtime, text, name, arguments);
  }
  if (name == "replace") {
    return replaceText(runtime, text, arguments);
  }
  if (name == "format") {
    return formatText(runtime, text, arguments);
  }
  if (arguments.empty()) {
    if (const auto result = plainTextMethod(runtime, text, name)) {
      return *result;
    }
  }
  const bool one = arguments.named.empty() && arguments.positional.size() == 1;
  if (!one) {
    return notSupported(runtime, ValueKind::String, std::string(name) + " with these arguments");
  }
  const Value &argument = arguments.positional[0];
  if (name == "startswith" || name == "endswith") {
    return hasAffix(runtime, text, argument, name == "startswith");
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "count") {
    return searchText(runtime, text, name, argument);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const bool prefix = name == "removeprefix";
    const Value has = hasAffix(runtime, text, argument, prefix);
    if (!argument.isText() || !isTrue(has)) {
      return argument.isText() ? object : runtime.fail("'" + std::string(name) + "' takes a text");
    }
    const size_t length = text.size() - argument.text->size();
    return runtime.makeText(text.substr(prefix ? argument.text->size() : 0, length));
  }
  if (name == "join") {
    const std::vector<Value> *items = elementsOf(runtime, argument);
    if (items &&
        !std::all_of(items->begin(), items->end(), [](const Value &v) { return v.isText(); })) {
      return runtime.fail("'join' takes texts only");
    }
    return items ? applyFilter(runtime, "join", runtime.makeList(*items), {{object}, {}}) : Value();
  }
  return notSupported(runtime, ValueKind::String, name);
}

/// index, count, copy; the others would change the list.
Value callListMethod(TemplateRuntime &runtime, const Value &object, std::string_view name,
                     const TemplateArguments &arguments) {
  const std::vector<Value> &items = object.list->items;
  if (name == "copy" && arguments.empty()) {
    return runtime.makeList(items);
  }
  const bool one = arguments.named.empty() && arguments.positional.size() == 1;
  if (one && (name == "index" || name == "count")) {
    int64_t count = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const bool equal = valuesEqual(runtime, items[i], arguments.positional[0]);
      if (equal && name == "index") {
        return Value::ofInt(static_cast<int64_t>(i));
      }
      count += equal ? 1 : 0;
    }
    return name == "index" ? runtime.fail("the list has no such item") : Value::ofInt(count);
  }
  if (name != "index" && name != "count" && name != "copy") {
    return runtime.fail("method '" + std::string(name) +
                        "' changes a list, which templates may not; "
                        "use {% set %} and +");
  }
  return notSupported(runtime, object.kind, name);
}

/// get, items, keys, values, copy; the others would change the dict. Views are lists here.
Value callDictMethod(TemplateRuntime &runtime, const Value &object, std::string_view name,
                     const TemplateArguments &arguments) {
  const auto &entries = object.dict->entries;
  if (name == "get") {
    const bool fits = arguments.named.empty() && !arguments.positional.empty() &&
                      arguments.positional.size() <= 2;
    if (!fits) {
      return runtime.fail("'get' takes a key and maybe a default");
    }
    const Value *found = findKey(runtime, *object.dict, arguments.positional[0]);
    return found ? *found
                 : (arguments.positional.size() == 2 ? arguments.positional[1] : Value::none());
  }
  const bool view = name == "items" || name == "keys" || name == "values";
  if (view && arguments.empty()) {
    std::vector<Value> out;
    for (const auto &[key, value] : entries) {
      out.push_back(name == "keys"     ? key
                    : name == "values" ? value
                                       : runtime.makeList({key, value}, ValueKind::Tuple));
    }
    return runtime.makeList(std::move(out));
  }
  if (name == "copy" && arguments.empty()) {
    return runtime.makeDict(entries);
  }
  return view || name == "copy"
             ? notSupported(runtime, object.kind, std::string(name) + " with arguments")
             : runtime.fail("method '" + std::string(name) +
                            "' changes a dict, which templates may not");
}

template <size_t N>
bool contains(const std::array<std::string_view, N> &names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

} // namespace

bool hasMethod(ValueKind kind, std::string_view name) {
  switch (kind) {
  case ValueKind::String:
    return contains(kTextMethods, name);
  case ValueKind::List:
    return contains(kListMethods, name);
  case ValueKind::Tuple:
    return name == "index" || name == "count";
  case ValueKind::Dict:
    return contains(kDictMethods, name);
  default:
    return false;
  }
}

Value callMethod(TemplateRuntime &runtime, const Value &object, std::string_view name,
                 const TemplateArguments &arguments) {
  if (!hasMethod(object.kind, name)) {
    return runtime.fail("a " + std::string(kindName(object.kind)) + " has no method '" +
                        std::string(name) + "'");
  }
  if (object.markup) {
    return runtime.fail("method '" + std::string(name) +
                        "' of a text marked safe is not supported");
  }
  switch (object.kind) {
  case ValueKind::String:
    return callTextMethod(runtime, object, name, arguments);
  case ValueKind::Dict:
    return callDictMethod(runtime, object, name, arguments);
  default:
    return callListMethod(runtime, object, name, arguments);
  }
}

} // namespace sluice
