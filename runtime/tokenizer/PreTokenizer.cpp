// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the steps and runs them one after the other over all pieces.
#include "runtime/tokenizer/PreTokenizer.h"

#include "runtime/tokenizer/Unicode.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr int kMaxDepth = 8;
/// ByteLevel with use_regex: the expression of OpenAI's encoder.py.
constexpr std::string_view kByteLevelRegex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

} // namespace

PreTokenizer::Run::Run(const PreTokenizer &pre, size_t textBytes) : budget_(textBytes) {
  for (const Step &step : pre.steps_) {
    if (const auto *split = std::get_if<SplitStep>(&step)) {
      searches_.emplace_back(split->pattern, budget_);
    }
  }
}

Result<PreTokenizer> PreTokenizer::fromJson(const JsonView &view) {
  PreTokenizer pre;
  if (!view.isNull()) {
    SLUICE_RETURN_IF_ERROR(pre.add(view, 0));
  }
  if (!pre.hasByteLevel_) {
    return view.notSupported("no ByteLevel step was found, expected byte-level BPE; give token ids "
                             "instead of text (--ids)");
  }
  return pre;
}

Status PreTokenizer::add(const JsonView &view, int depth) {
  auto type = view.type();
  if (!type) {
    return type.error();
  }
  if (*type == "Sequence" && depth < kMaxDepth) {
    const JsonView items = view.member("pretokenizers");
    if (!items.isArray()) {
      return items.wrong("expected an array");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      SLUICE_RETURN_IF_ERROR(add(items.element(i), depth + 1));
    }
    return Status::ok();
  }
  if (hasByteLevel_) {
    return view.notSupported(*type + " after ByteLevel is not supported; ByteLevel must be last");
  }
  if (*type == "Split") {
    return addSplit(view);
  }
  if (*type == "Digits") {
    return addDigits(view);
  }
  if (*type == "ByteLevel") {
    return addByteLevel(view);
  }
  return view.notSupported("pre-tokenizer " + *type +
                           " is not supported; expected ByteLevel, Split, Digits or Sequence; give "
                           "token ids instead of text (--ids)");
}

Status PreTokenizer::addSplit(const JsonView &view) {
  const JsonView pattern = view.member("pattern");
  const bool isRegex = !pattern.member("Regex").isNull();
  const JsonView source = pattern.member(isRegex ? "Regex" : "String");
  auto text = source.string();
  if (!text) {
    return pattern.wrong("expected {\"Regex\": ...} or {\"String\": ...}");
  }
  auto compiled = isRegex ? RegexPattern::compile(*text) : RegexPattern::literal(*text);
  if (!compiled) {
    const std::string message = compiled.error().message();
    return compiled.error().code() == Code::Unsupported ? source.notSupported(message)
                                                        : source.wrong(message);
  }
  auto name = view.member("behavior").string();
  if (!name) {
    return name.error();
  }
  auto invert = view.member("invert").boolean(false);
  if (!invert) {
    return invert.error();
  }
  struct Named {
    const char *name;
    Behavior behavior;
  };
  for (const Named &known : {Named{"Isolated", Behavior::Isolated},
                             {"Removed", Behavior::Removed},
                             {"MergedWithPrevious", Behavior::MergedWithPrevious},
                             {"MergedWithNext", Behavior::MergedWithNext},
                             {"Contiguous", Behavior::Contiguous}}) {
    if (*name == known.name) {
      steps_.emplace_back(SplitStep{std::move(*compiled), known.behavior, *invert});
      return Status::ok();
    }
  }
  return view.member("behavior").notSupported("split behavior " + *name + " is not known");
}

Status PreTokenizer::addDigits(const JsonView &view) {
  auto individual = view.member("individual_digits").boolean(false);
  if (!individual) {
    return individual.error();
  }
  steps_.emplace_back(DigitsStep{*individual});
  return Status::ok();
}

Status PreTokenizer::addByteLevel(const JsonView &view) {
  auto prefix = view.member("add_prefix_space").boolean(true);
  auto useRegex = view.member("use_regex").boolean(true); // old files leave it out
  if (!prefix) {
    return prefix.error();
  }
  if (!useRegex) {
    return useRegex.error();
  }
  if (*prefix) {
    steps_.emplace_back(PrefixSpaceStep{});
  }
  if (*useRegex) {
    auto compiled = RegexPattern::compile(kByteLevelRegex);
    if (!compiled) {
      return compiled.error();
    }
    steps_.emplace_back(SplitStep{std::move(*compiled), Behavior::Isolated, false});
  }
  hasByteLevel_ = true;
  return Status::ok();
}

/// Covers `text` with matches and the stretches between, as onig's find_iter does: an empty match
/// right after another match is passed over by one character.
Status PreTokenizer::findRanges(RegexSearch &search, std::string_view text,
                                std::vector<Range> &ranges) {
  size_t done = 0;
  size_t from = 0;
  bool matchedBefore = false;
  while (from <= text.size()) {
    auto match = search.next(text, from);
    if (!match) {
      return match.error();
    }
    if (!match->found) {
      break;
    }
    if (match->start == match->end && matchedBefore && match->end == done) {
      from += from < text.size() ? decodeUtf8(text, from).length : 1U;
      continue;
    }
    if (done != match->start) {
      ranges.push_back({done, match->start, false});
    }
    ranges.push_back({match->start, match->end, true});
    done = match->end;
    from = match->end;
    matchedBefore = true;
  }
  if (done != text.size()) {
    ranges.push_back({done, text.size(), false});
  }
  return Status::ok();
}

/// One range per character.
void PreTokenizer::findDigits(std::string_view text, std::vector<Range> &ranges) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decodeUtf8(text, i);
    const bool isDigit = isNumeric(c.code);
    if (!isDigit && !ranges.empty() && !ranges.back().isMatch) {
      ranges.back().end += c.length;
    } else {
      ranges.push_back({i, i + c.length, isDigit});
    }
    i += c.length;
  }
}

/// Joins or drops ranges by `behavior` (tokenizers/src/tokenizer/normalizer.rs,
/// NormalizedString::split).
void PreTokenizer::cut(std::string_view text, Behavior behavior, std::vector<Range> &ranges,
                       std::vector<std::string_view> &out) {
  std::vector<Range> joined;
  const bool backwards = behavior == Behavior::MergedWithNext;
  if (backwards) {
    std::reverse(ranges.begin(), ranges.end());
  }
  bool previousMatch = false;
  for (const Range &range : ranges) {
    bool join = false;
    switch (behavior) {
    case Behavior::Isolated:
      break;
    case Behavior::Removed:
      if (range.isMatch) {
        continue;
      }
      break;
    case Behavior::Contiguous:
      join = range.isMatch == previousMatch;
      break;
    case Behavior::MergedWithPrevious:
    case Behavior::MergedWithNext:
      join = range.isMatch && !previousMatch;
      break;
    }
    previousMatch = range.isMatch;
    if (!join || joined.empty()) {
      joined.push_back(range);
    } else if (backwards) {
      joined.back().start = range.start;
    } else {
      joined.back().end = range.end;
    }
  }
  if (backwards) {
    std::reverse(joined.begin(), joined.end());
  }
  for (const Range &range : joined) {
    if (range.start < range.end) {
      out.push_back(text.substr(range.start, range.end - range.start));
    }
  }
}

Status PreTokenizer::split(std::string_view text, Run &run,
                           std::vector<std::string_view> &pieces) const {
  pieces.clear();
  if (!text.empty()) {
    pieces.push_back(text);
  }
  size_t search = 0;
  std::vector<std::string_view> next;
  std::vector<Range> ranges;
  for (const Step &step : steps_) {
    next.clear();
    const auto *splitStep = std::get_if<SplitStep>(&step);
    const auto *digits = std::get_if<DigitsStep>(&step);
    for (std::string_view piece : pieces) {
      ranges.clear();
      if (splitStep) {
        SLUICE_RETURN_IF_ERROR(findRanges(run.searches_[search], piece, ranges));
        for (Range &range : ranges) {
          range.isMatch = range.isMatch != splitStep->invert;
        }
        cut(piece, splitStep->behavior, ranges, next);
      } else if (digits) {
        findDigits(piece, ranges);
        cut(piece, digits->individual ? Behavior::Isolated : Behavior::Contiguous, ranges, next);
      } else if (piece.front() != ' ') {
        next.push_back(run.storage_.emplace_back(" " + std::string(piece)));
      } else {
        next.push_back(piece);
      }
    }
    search += splitStep ? 1 : 0;
    pieces.swap(next);
  }
  return Status::ok();
}

} // namespace sluice
