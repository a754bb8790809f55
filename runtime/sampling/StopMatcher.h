// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds a request's stop strings in its streamed text, across token borders. Stands between
// Utf8Stream and the client: text goes in as it is generated and comes out as soon as it can't be
// part of a stop string any more.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The stop string that is complete first in the stream wins; among those that end at the same byte
/// the longest. The result doesn't depend on how the text is cut into pieces. Knuth-Morris-Pratt
/// per string: time is (bytes fed) * (strings), memory held back is shorter than the longest
/// string.
class StopMatcher {
public:
  /// Empty strings are ignored (SamplingParams::validate refuses them).
  StopMatcher(std::span<const std::string> stopStrings, std::span<const int32_t> stopTokens);

  /// True for a token that ends the generation; its bytes must not be fed.
  bool isStopToken(int32_t id) const;
  /// Takes the next piece of text; returns what may be shown now. After a match: the text before
  /// the stop string, then always nothing. Whole UTF-8 characters in, whole characters out.
  std::string feed(std::string_view piece);
  /// The text held back, when the generation ended without a match; nothing after a match.
  std::string finish();
  bool stopped() const { return matched_ >= 0; }
  /// Index of the stop string that matched, in the constructor's order; -1 without a match.
  int32_t matchedIndex() const { return matched_; }

private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t>
        fallback;         // [bytes] u32: length of the longest proper border of each prefix
    uint32_t matched = 0; // bytes of `text` that end the stream so far
    int32_t index = 0;
  };
  static void advance(Pattern &pattern, char byte);

  std::vector<Pattern> patterns_;
  std::vector<int32_t> stopTokens_; // sorted
  std::string held_;                // ends of the stream that begin a stop string
  int32_t matched_ = -1;
};

} // namespace sluice
