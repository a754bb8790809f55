// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles and runs expressions with PCRE2's interpreter (no JIT: no writable code memory, exact
// limits). An automatic callout before each item of the expression is where the time budget is
// checked.
#include "runtime/tokenizer/RegexPattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctime>
#include <pcre2.h>

namespace sluice {

namespace {

constexpr size_t kMaxPatternBytes = 16384;
constexpr uint32_t kMaxNesting = 100;
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 65'536;
constexpr int kBudgetSpent = -1000; // a callout's own error code: below all of PCRE2's
constexpr uint32_t kStepsPerClockRead = 1024;

int64_t threadNanos() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); // processor time: a busy machine doesn't shorten it
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int onCallout(pcre2_callout_block *, void *budget) {
  return static_cast<RegexBudget *>(budget)->spend() ? 0 : kBudgetSpent;
}

std::string pcreMessage(int code) {
  unsigned char buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char *>(buffer);
}

} // namespace

void RegexPattern::Free::operator()(pcre2_real_code_8 *code) const { pcre2_code_free(code); }
void RegexSearch::FreeData::operator()(pcre2_real_match_data_8 *data) const {
  pcre2_match_data_free(data);
}
void RegexSearch::FreeContext::operator()(pcre2_real_match_context_8 *context) const {
  pcre2_match_context_free(context);
}

Result<RegexPattern> RegexPattern::compile(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    return invalidArgument("regex has " + std::to_string(pattern.size()) +
                           " bytes, expected 1 to " + std::to_string(kMaxPatternBytes));
  }
  auto translated = translateOniguruma(pattern);
  if (!translated) {
    return translated.error();
  }
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) {
    return outOfMemory("no memory for a regex");
  }
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxNesting);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Ruby's ^ and $ match at every line, hence MULTILINE.
  RegexPattern result;
  result.code_.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_AUTO_CALLOUT | PCRE2_NEVER_BACKSLASH_C,
      &error, &offset, context.get()));
  if (!result.code_) {
    return invalidArgument("regex can't be compiled: " + pcreMessage(error) + " (near byte " +
                           std::to_string(offset) + " of " + *translated + ")");
  }
  return result;
}

Result<RegexPattern> RegexPattern::literal(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool ascii = static_cast<unsigned char>(c) < 0x80;
    const bool plain = !ascii || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z') || c < 0x20 || c == 0x7F;
    escaped += plain ? "" : "\\";
    escaped += c;
  }
  return compile(escaped);
}

RegexBudget::RegexBudget(size_t textBytes)
    : deadlineNanos_(threadNanos() + 2'000'000'000 +
                     static_cast<int64_t>(textBytes) * 1'000'000'000 / (1 << 20)) {}

bool RegexBudget::spend() {
  if (++steps_ % kStepsPerClockRead == 0 && threadNanos() > deadlineNanos_) {
    over_ = true;
  }
  return !over_;
}

RegexSearch::RegexSearch(const RegexPattern &pattern, RegexBudget &budget)
    : pattern_(&pattern), data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)) {
  if (context_) {
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
    pcre2_set_callout(context_.get(), &onCallout, &budget);
  }
}

Result<RegexSearch::Match> RegexSearch::next(std::string_view text, size_t from) {
  if (!data_ || !context_) {
    return outOfMemory("no memory for a regex match");
  }
  const int rc = pcre2_match(pattern_->code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                             text.size(), from, PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  if (rc == PCRE2_ERROR_NOMATCH) {
    return Match{};
  }
  if (rc < 0) {
    const std::string reason =
        rc == kBudgetSpent ? "it takes too much processor time" : pcreMessage(rc);
    return invalidArgument("a split regex of tokenizer.json fails on this text: " + reason +
                           "; shorten the text or simplify the regex");
  }
  const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(data_.get());
  // Start <= end always holds: only \K could break it, which translateOniguruma refuses.
  return Match{true, bounds[0], bounds[1]};
}

} // namespace sluice
