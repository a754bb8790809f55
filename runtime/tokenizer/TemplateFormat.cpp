// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts with places to fill: str.format and strftime of chat templates.
#include "runtime/tokenizer/TemplateFilters.h"
#include "runtime/tokenizer/TemplateText.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>

namespace sluice {

namespace {

/// The argument that a field's name means; `next` counts the fields without name.
std::optional<Value> fieldValue(const TemplateArguments &arguments, std::string_view name,
                                size_t &next) {
  size_t index = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool number = parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
  if (name.empty() || number) {
    index = name.empty() ? next++ : index;
    return index < arguments.positional.size() ? std::optional(arguments.positional[index])
                                               : std::nullopt;
  }
  const auto it = std::find_if(arguments.named.begin(), arguments.named.end(),
                               [&](const auto &argument) { return argument.first == name; });
  return it == arguments.named.end() ? std::nullopt : std::optional(it->second);
}

/// Year, month 1 ... 12 and day 1 ... 31 of a number of days since 1970-01-01 in the Gregorian
/// calendar.
struct Date {
  int64_t year;
  int month;
  int day;
};

/// H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days: years begin in
/// March, so that the leap day is the last of a year; eras have 400 years.
Date dateOf(int64_t days) {
  const int64_t shifted = days + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const int64_t dayOfEra = shifted - era * 146097;
  const int64_t yearOfEra =
      (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146096) / 365;
  const int64_t dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100);
  const int64_t marchMonth = (5 * dayOfYear + 2) / 153;
  const int64_t month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  return {yearOfEra + era * 400 + (month <= 2 ? 1 : 0), static_cast<int>(month),
          static_cast<int>(dayOfYear - (153 * marchMonth + 2) / 5 + 1)};
}

std::string padded(int64_t value, int width) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%0*lld", width, static_cast<long long>(value));
  return buffer;
}

/// One conversion of strftime; nothing for those that aren't known.
std::optional<std::string> timeField(char conversion, int64_t days, int64_t secondOfDay) {
  constexpr std::array<const char *, 12> kMonths = {
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  constexpr std::array<const char *, 7> kDays = {
      "Thursday", "Friday",  "Saturday", "Sunday",
      "Monday",   "Tuesday", "Wednesday"}; // 1970-01-01 first
  const Date date = dateOf(days);
  const std::string month = kMonths[static_cast<size_t>(date.month - 1)];
  const std::string day = kDays[static_cast<size_t>(((days % 7) + 7) % 7)];
  const int64_t hour = secondOfDay / 3600;
  switch (conversion) {
  case 'Y':
    return std::to_string(date.year);
  case 'y':
    return padded(date.year % 100, 2);
  case 'm':
    return padded(date.month, 2);
  case 'd':
    return padded(date.day, 2);
  case 'B':
    return month;
  case 'b':
    return month.substr(0, 3);
  case 'A':
    return day;
  case 'a':
    return day.substr(0, 3);
  case 'H':
    return padded(hour, 2);
  case 'I':
    return padded(hour % 12 == 0 ? 12 : hour % 12, 2);
  case 'p':
    return hour < 12 ? "AM" : "PM";
  case 'M':
    return padded(secondOfDay / 60 % 60, 2);
  case 'S':
    return padded(secondOfDay % 60, 2);
  case '%':
    return "%";
  default:
    return std::nullopt;
  }
}

} // namespace

Value formatText(TemplateRuntime &runtime, const std::string &text,
                 const TemplateArguments &arguments) {
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < text.size() && !runtime.failed(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      out += c;
      ++i;
      continue;
    }
    if (c == '}') {
      return runtime.fail("'format' found a single '}'");
    }
    if (c != '{') {
      out += c;
      continue;
    }
    const size_t end = text.find('}', i);
    const std::string field = end == std::string::npos ? "" : text.substr(i + 1, end - i - 1);
    if (end == std::string::npos || field.find_first_of("!:.[{") != std::string::npos) {
      return runtime.fail("'format' takes {}, {0} and {name} only");
    }
    const auto value = fieldValue(arguments, field, next);
    if (!value) {
      return runtime.fail("'format' has no argument for {" + field.substr(0, 40) + "}");
    }
    out += textOf(runtime, *value);
    if (out.size() > runtime.limits().memoryBytes) {
      return runtime.failLimit("a text is longer than the memory limit");
    }
    i = end;
  }
  return runtime.makeText(std::move(out));
}

Value formatTime(TemplateRuntime &runtime, int64_t seconds, const std::string &format) {
  constexpr int64_t kDaySeconds = 86400;
  constexpr int64_t kMaxSeconds = 253402300799; // the end of the year 9999
  if (seconds < 0 || seconds > kMaxSeconds) {
    return runtime.fail("the time given to the template is not in the years 1970 ... 9999");
  }
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const char conversion = i + 1 < format.size() ? format[++i] : ' ';
    const auto field = timeField(conversion, seconds / kDaySeconds, seconds % kDaySeconds);
    if (!field) {
      return runtime.fail(std::string("strftime_now() does not know %") + conversion);
    }
    out += *field;
  }
  return runtime.makeText(std::move(out));
}

} // namespace sluice
