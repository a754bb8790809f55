// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Python's text forms of values.
#include "runtime/tokenizer/TemplateText.h"

#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utf8proc.h>

namespace sluice {

std::string floatText(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  char buffer[64];
  auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end - buffer)); // "-1.25e-07"
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t digitsStart = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(buffer + digitsStart, end, exponent);
  std::string sign(text[0] == '-' ? "-" : "");
  std::string digits;
  for (const char c : text.substr(0, e)) {
    digits += c >= '0' && c <= '9' ? std::string(1, c) : "";
  }
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) { // CPython's float_repr_style "short": format code r
    char tail[16];
    std::snprintf(tail, sizeof tail, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return sign + digits.substr(0, 1) + (count > 1 ? "." + digits.substr(1) : "") + tail;
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const size_t whole = static_cast<size_t>(exponent) + 1;
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

namespace {

/// str.isprintable(): everything but Other and Separator, and the space.
bool isPrintable(char32_t code) {
  if (code == ' ') {
    return true;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_ZS:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    return false;
  default:
    return true;
  }
}

std::string hexEscape(char32_t code) {
  char buffer[16];
  const char *format = code < 0x100 ? "\\x%02x" : (code < 0x10000 ? "\\u%04x" : "\\U%08x");
  std::snprintf(buffer, sizeof buffer, format, static_cast<unsigned>(code));
  return buffer;
}

/// repr() of a text: single quotes unless only they occur in it.
std::string quotedText(std::string_view text) {
  const bool useDouble =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = useDouble ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decodeUtf8(text, i);
    if (c.code == static_cast<char32_t>(quote) || c.code == '\\') {
      out += '\\';
      out += text[i];
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (!isPrintable(c.code)) {
      out += hexEscape(c.code);
    } else {
      out.append(text.substr(i, c.length));
    }
    i += c.length;
  }
  return out + quote;
}

/// A JSON string with ensure_ascii=False.
std::string jsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        char buffer[8];
        std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
        out += buffer;
      } else {
        out += c;
      }
    }
  }
  return out + '"';
}

/// The same with ensure_ascii=True: UTF-16 code units of all that is not ASCII.
std::string asciiJsonText(std::string_view text) {
  const std::string json = jsonText(text);
  std::string out;
  auto unit = [&](char32_t code) {
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(code & 0xFFFF));
    out += buffer;
  };
  for (size_t i = 0; i < json.size();) {
    const Utf8Char c = decodeUtf8(json, i);
    if (c.code < 0x80) {
      out += json[i] == 0x7F ? "\\u007f" : std::string(1, json[i]);
    } else if (c.code < 0x10000) {
      unit(c.code);
    } else {
      unit(0xD800 + ((c.code - 0x10000) >> 10));
      unit(0xDC00 + ((c.code - 0x10000) & 0x3FF));
    }
    i += c.length;
  }
  return out;
}

/// Writes repr() or JSON of nested values into one string, within the runtime's limits.
class Writer {
public:
  Writer(TemplateRuntime &runtime, bool json, JsonStyle style)
      : runtime_(runtime), json_(json), style_(std::move(style)) {}

  std::string run(const Value &value) {
    write(value, 0);
    return std::move(out_);
  }

private:
  void write(const Value &value, int depth) {
    if (depth > kMaxValueDepth) {
      runtime_.failLimit("a value nests deeper than " + std::to_string(kMaxValueDepth) + " levels");
    }
    if (out_.size() > runtime_.limits().memoryBytes) {
      runtime_.reserve(out_.size()); // fails
    }
    if (runtime_.failed() || !runtime_.spend(1)) {
      return;
    }
    switch (value.kind) {
    case ValueKind::None:
      out_ += json_ ? "null" : "None";
      break;
    case ValueKind::Bool:
      out_ += json_ ? (value.boolean ? "true" : "false") : (value.boolean ? "True" : "False");
      break;
    case ValueKind::Int:
      out_ += std::to_string(value.integer);
      break;
    case ValueKind::Float:
      out_ += number(value.real);
      break;
    case ValueKind::String:
      runtime_.spendBytes(value.text->size());
      out_ += !json_         ? quotedText(*value.text)
              : style_.ascii ? asciiJsonText(*value.text)
                             : jsonText(*value.text);
      break;
    case ValueKind::List:
    case ValueKind::Tuple:
      list(value, depth);
      break;
    case ValueKind::Dict:
      dict(*value.dict, depth);
      break;
    case ValueKind::Undefined:
      if (!json_) {
        out_ += "Undefined";
        break;
      }
      [[fallthrough]];
    default:
      runtime_.fail(std::string("a ") + kindName(value.kind) + " can't be written as " +
                    (json_ ? "JSON" : "text"));
    }
  }

  std::string number(double value) const {
    if (json_ && !std::isfinite(value)) {
      return std::isnan(value) ? "NaN" : (value > 0 ? "Infinity" : "-Infinity");
    }
    return floatText(value);
  }

  void separate(bool first, int depth) {
    out_ += first ? "" : style_.itemSeparator;
    if (json_ && style_.indent) {
      newLine(depth + 1);
    }
  }

  void newLine(int depth) {
    const uint64_t width = static_cast<uint64_t>(*style_.indent) * static_cast<uint64_t>(depth);
    if (runtime_.reserve(width)) {
      out_ += '\n';
      out_.append(width, ' ');
    }
  }

  void close(const char *bracket, bool empty, int depth) {
    if (json_ && style_.indent && !empty) {
      newLine(depth);
    }
    out_ += bracket;
  }

  void list(const Value &value, int depth) {
    const auto &items = value.list->items;
    const bool tuple = value.is(ValueKind::Tuple) && !json_;
    out_ += tuple ? "(" : "[";
    for (size_t i = 0; i < items.size() && !runtime_.failed(); ++i) {
      separate(i == 0, depth);
      write(items[i], depth + 1);
    }
    out_ += tuple && items.size() == 1 ? "," : "";
    close(tuple ? ")" : "]", items.empty(), depth);
  }

  /// The members in the order of their keys, which must all be texts.
  std::vector<std::pair<Value, Value>> sorted(const DictValue &value) {
    auto entries = value.entries;
    const bool texts = std::all_of(entries.begin(), entries.end(),
                                   [](const auto &entry) { return entry.first.isText(); });
    if (!texts || !runtime_.spend(entries.size())) {
      runtime_.fail("only texts can be sorted as keys");
      return {};
    }
    std::sort(entries.begin(), entries.end(),
              [](const auto &a, const auto &b) { return *a.first.text < *b.first.text; });
    return entries;
  }

  void dict(const DictValue &value, int depth) {
    out_ += "{";
    bool first = true;
    for (const auto &[key, member] : style_.sortKeys ? sorted(value) : value.entries) {
      if (runtime_.failed()) {
        return;
      }
      separate(first, depth);
      first = false;
      const bool quote = json_ && !key.isText(); // JSON keys are strings
      if (quote && !key.isNumber() && !key.is(ValueKind::None)) {
        runtime_.fail(std::string("a ") + kindName(key.kind) + " can't be a key of JSON");
        return;
      }
      out_ += quote ? "\"" : "";
      write(key, depth + 1);
      out_ += quote ? "\"" : "";
      out_ += style_.keySeparator;
      write(member, depth + 1);
    }
    close("}", value.entries.empty(), depth);
  }

  TemplateRuntime &runtime_;
  bool json_;
  JsonStyle style_;
  std::string out_;
};

} // namespace

std::string textOf(TemplateRuntime &runtime, const Value &value) {
  if (value.isText()) {
    runtime.spendBytes(value.text->size());
    return *value.text;
  }
  if (value.isUndefined()) {
    return {};
  }
  return Writer(runtime, false, {}).run(value);
}

std::string jsonOf(TemplateRuntime &runtime, const Value &value, const JsonStyle &style) {
  return Writer(runtime, true, style).run(value);
}

namespace {

/// True where Python's mapping gives several characters or looks at the context
/// (SpecialCasing.txt).
bool hasSpecialCase(char32_t code, bool upper) {
  if (!upper) {
    return code == 0x130 || code == 0x3A3;
  }
  return code == 0xDF || code == 0x149 || code == 0x1F0 || code == 0x390 || code == 0x3B0 ||
         code == 0x587 || (code >= 0x1E96 && code <= 0x1E9A) ||
         (code >= 0x1F50 && code <= 0x1FFC) || (code >= 0xFB00 && code <= 0xFB17);
}

bool isCased(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

} // namespace

std::string changeCase(TemplateRuntime &runtime, std::string_view text, LetterCase to) {
  std::string out;
  bool previousCased = false;
  if (!runtime.spend(text.size() / 8)) {
    return out;
  }
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decodeUtf8(text, i);
    const bool first = to == LetterCase::Title ? !previousCased : i == 0;
    const bool upper = to == LetterCase::Upper || (to != LetterCase::Lower && first);
    if (hasSpecialCase(c.code, upper)) {
      char name[16];
      std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(c.code));
      runtime.fail(std::string("the other case of ") + name + " is not supported");
      return out;
    }
    const auto code = static_cast<utf8proc_int32_t>(c.code);
    const utf8proc_int32_t mapped = !upper                    ? utf8proc_tolower(code)
                                    : to == LetterCase::Upper ? utf8proc_toupper(code)
                                                              : utf8proc_totitle(code);
    appendUtf8(out, static_cast<char32_t>(mapped));
    previousCased = isCased(c.code);
    i += c.length;
  }
  return out;
}

// Characters of a set are compared as whole UTF-8 sequences.
std::string_view stripped(std::string_view text, std::optional<std::string_view> characters,
                          bool left, bool right) {
  auto drops = [&](std::string_view one, char32_t code) {
    return characters ? characters->find(one) != std::string_view::npos : isPythonSpace(code);
  };
  while (left && !text.empty()) {
    const Utf8Char c = decodeUtf8(text, 0);
    if (!drops(text.substr(0, c.length), c.code)) {
      break;
    }
    text.remove_prefix(c.length);
  }
  while (right && !text.empty()) {
    const size_t start = previousUtf8(text, text.size());
    if (!drops(text.substr(start), decodeUtf8(text, start).code)) {
      break;
    }
    text.remove_suffix(text.size() - start);
  }
  return text;
}

} // namespace sluice
