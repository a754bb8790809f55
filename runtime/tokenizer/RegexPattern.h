// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The regular expressions of pre-tokenizers: Oniguruma's syntax (what the `tokenizers` package
// runs) on PCRE2, with limits that a hostile expression can't pass. Used by PreTokenizer.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

// PCRE2's opaque types; the header with its macros stays in the .cpp.
struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace sluice {

/// Rewrites an Oniguruma (Ruby syntax, UTF-8) expression for PCRE2 with the same meaning: \s \w \d
/// \h \b are spelled out as classes (the two libraries disagree on them), scripts by Script alone,
/// {,n} as {0,n}. What has another meaning in PCRE2 or isn't known to have the same is Unsupported
/// and named: set operations in classes, back references, callouts, ...
Result<std::string> translateOniguruma(std::string_view pattern);

class RegexPattern {
public:
  /// `pattern` in Oniguruma syntax, at most 16 KiB. InvalidArgument or Unsupported with the reason.
  static Result<RegexPattern> compile(std::string_view pattern);
  /// Matches the text itself.
  static Result<RegexPattern> literal(std::string_view text);

private:
  friend class RegexSearch;
  struct Free {
    void operator()(pcre2_real_code_8 *code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

/// Processor time that all regex searches of one encode() may use together.
class RegexBudget {
public:
  /// 2 s and 1 s for each MiB of text: some 20 times what ordinary expressions need.
  explicit RegexBudget(size_t textBytes);
  /// Counts one step; looks at the clock now and then. False once the time is over.
  bool spend();

private:
  int64_t deadlineNanos_;
  uint32_t steps_ = 0;
  bool over_ = false;
};

/// One thread's use of a pattern. The pattern and the budget must outlive it.
class RegexSearch {
public:
  struct Match {
    bool found = false;
    size_t start = 0;
    size_t end = 0;
  };
  RegexSearch(const RegexPattern &pattern, RegexBudget &budget);
  /// The first match at or after `from` in `text` (valid UTF-8). InvalidArgument when a limit is
  /// reached: more processor time than the budget, 10 million backtracks or 64 MiB for one match.
  Result<Match> next(std::string_view text, size_t from);

private:
  struct FreeData {
    void operator()(pcre2_real_match_data_8 *data) const;
  };
  struct FreeContext {
    void operator()(pcre2_real_match_context_8 *context) const;
  };
  const RegexPattern *pattern_;
  std::unique_ptr<pcre2_real_match_data_8, FreeData> data_;
  std::unique_ptr<pcre2_real_match_context_8, FreeContext> context_;
};

} // namespace sluice
