// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// StopMatcher: stop strings split over pieces, what is held back, and equality with a plain search
// for any split.
#include "runtime/sampling/StopMatcher.h"

#include "runtime/sampling/CounterRandom.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace sluice {
namespace {

StopMatcher matcherFor(std::vector<std::string> stops) {
  return StopMatcher(stops, std::vector<int32_t>{});
}

TEST(StopMatcher, WithoutStopsPassesTextThrough) {
  StopMatcher matcher = matcherFor({});
  EXPECT_EQ(matcher.feed("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, FindsAStringSplitOverTwoToFourTokens) {
  for (const std::vector<std::string> &pieces : {std::vector<std::string>{"Hi", " <|e", "nd|> x"},
                                                 {"Hi ", "<|", "end", "|> x"},
                                                 {"Hi <", "|e", "nd", "|", "> x"},
                                                 {"Hi <|end|> x"}}) {
    StopMatcher matcher = matcherFor({"<|end|>"});
    std::string shown;
    for (const std::string &piece : pieces) {
      shown += matcher.feed(piece);
    }
    EXPECT_EQ(shown, "Hi ");
    EXPECT_TRUE(matcher.stopped());
    EXPECT_EQ(matcher.feed("more"), "");
    EXPECT_EQ(matcher.finish(), "");
  }
}

TEST(StopMatcher, HoldsBackOnlyTheLongestPossiblePrefix) {
  StopMatcher matcher = matcherFor({"abac", "bb"});
  EXPECT_EQ(matcher.feed("xaba"), "x"); // "aba" may become "abac"
  EXPECT_EQ(matcher.feed("b"), "ab");   // now only "ab" may
  EXPECT_EQ(matcher.feed("x"), "abx");  // nothing may
  EXPECT_EQ(matcher.feed("b"), "");     // "b" may become "bb"
  EXPECT_EQ(matcher.finish(), "b");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, FirstCompleteStringWinsThenTheLongest) {
  StopMatcher first = matcherFor({"xabc", "ab"});
  EXPECT_EQ(first.feed("..xabc"), "..x");
  EXPECT_EQ(first.matchedIndex(), 1);
  StopMatcher longest = matcherFor({"b", "aab", "ab"});
  EXPECT_EQ(longest.feed("caab"), "c");
  EXPECT_EQ(longest.matchedIndex(), 1);
}

TEST(StopMatcher, StopTokens) {
  StopMatcher matcher(std::vector<std::string>{}, std::vector<int32_t>{7, 2});
  EXPECT_TRUE(matcher.isStopToken(2));
  EXPECT_TRUE(matcher.isStopToken(7));
  EXPECT_FALSE(matcher.isStopToken(3));
}

TEST(StopMatcher, HoldsWholeCharacters) {
  StopMatcher matcher = matcherFor({"é!"});
  EXPECT_EQ(matcher.feed("caf\xC3\xA9"), "caf");
  EXPECT_EQ(matcher.feed("?"), "é?");
}

/// What the matcher must show, by plain search: cut before the match that ends first.
std::string plainSearch(const std::string &text, const std::vector<std::string> &stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string &stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) {
      return text.substr(0, end - longest);
    }
  }
  return text;
}

TEST(StopMatcher, EqualsPlainSearchForRandomTextsAndSplits) {
  uint64_t counter = 0;
  auto below = [&](uint64_t n) {
    return static_cast<size_t>(uniformAt(3, counter++) * static_cast<double>(n));
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + below(3));
    for (std::string &stop : stops) {
      for (size_t n = 1 + below(5); n > 0; --n) {
        stop += static_cast<char>('a' + below(2));
      }
    }
    std::string text;
    for (size_t n = below(30); n > 0; --n) {
      text += static_cast<char>('a' + below(3));
    }
    StopMatcher matcher = matcherFor(stops);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + below(4);
      shown += matcher.feed(std::string_view(text).substr(at, length));
      at += length;
      EXPECT_EQ(plainSearch(text, stops).rfind(shown, 0), 0U); // never more than may be shown
    }
    shown += matcher.finish();
    ASSERT_EQ(shown, plainSearch(text, stops)) << text;
  }
}

} // namespace
} // namespace sluice
