// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cuts text into the pieces that are merged separately ("pre_tokenizer" of tokenizer.json). Stands
// between AddedTokens and BytePairEncoder.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/JsonView.h"
#include "runtime/tokenizer/RegexPattern.h"

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice {

/// ByteLevel, alone or as the last item of a Sequence of Split, Digits and Sequence.
class PreTokenizer {
public:
  /// What becomes of the matches of a Split; names and meaning as in the `tokenizers` package
  /// (SplitDelimiterBehavior).
  enum class Behavior { Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous };

  /// State of one encode() call.
  class Run {
  public:
    Run(const PreTokenizer &pre, size_t textBytes);
    Run(const Run &) = delete; // searches_ points at budget_
    Run &operator=(const Run &) = delete;

  private:
    friend class PreTokenizer;
    RegexBudget budget_;
    std::vector<RegexSearch> searches_; // one per step with a regex, in order of the steps
    std::deque<std::string> storage_;   // pieces that were changed (a space in front)
  };

  static Result<PreTokenizer> fromJson(const JsonView &view);
  /// Replaces `pieces` by those of `text` (UTF-8). They point into `text` or `run`. No piece is
  /// empty.
  Status split(std::string_view text, Run &run, std::vector<std::string_view> &pieces) const;

private:
  struct SplitStep {
    RegexPattern pattern;
    Behavior behavior;
    bool invert; ///< what lies between matches counts as the match
  };
  struct DigitsStep {
    bool individual;
  };
  struct PrefixSpaceStep {};
  using Step = std::variant<SplitStep, DigitsStep, PrefixSpaceStep>;
  struct Range {
    size_t start;
    size_t end;
    bool isMatch;
  };
  Status add(const JsonView &view, int depth);
  Status addSplit(const JsonView &view);
  Status addDigits(const JsonView &view);
  Status addByteLevel(const JsonView &view);
  static Status findRanges(RegexSearch &search, std::string_view text, std::vector<Range> &ranges);
  static void findDigits(std::string_view text, std::vector<Range> &ranges);
  static void cut(std::string_view text, Behavior behavior, std::vector<Range> &ranges,
                  std::vector<std::string_view> &out);

  std::vector<Step> steps_;
  bool hasByteLevel_ = false;
};

} // namespace sluice
