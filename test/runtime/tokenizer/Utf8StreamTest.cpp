// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Utf8Stream: never half a character, and the same text however the bytes are cut. Unicode:
// decoding of bad sequences.
#include "runtime/tokenizer/Utf8Stream.h"

#include "runtime/tokenizer/Unicode.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace sluice {
namespace {

TEST(Utf8Stream, ReleasesWholeCharactersOnly) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.feed("\x91"), "");
  EXPECT_EQ(stream.feed("\x8B!"), "\U0001F44B!");
  EXPECT_EQ(stream.feed("\xE4"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesBadBytesAtOnce) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xE4\xBD"
                        "a"),
            "\uFFFDa"); // one for the maximal subpart
  EXPECT_EQ(stream.feed("\x80\xFF"), "\uFFFD\uFFFD");
  EXPECT_EQ(stream.feed("\xED\xA0"), "\uFFFD\uFFFD"); // a surrogate: no valid beginning after ED
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, TextDoesNotDependOnTheCuts) {
  const std::vector<std::string> texts = {
      "héllo \u4F60\u597D \U0001F468\u200D\U0001F469",
      "\xC3\x28\xF0\x9F\x92\xF0\x9F\x92\xA9\xE2\x82",
      "\xF4\x8F\xBF\xBF\xF4\x90\x80\x80\xC0\x80\xE0\x80\x80\xED\x9F\xBF",
      std::string("\0\x7F\xC2", 3)};
  for (const std::string &text : texts) {
    for (size_t step = 1; step <= 5; ++step) {
      Utf8Stream stream;
      std::string shown;
      for (size_t at = 0; at < text.size(); at += step) {
        const std::string part = stream.feed(std::string_view(text).substr(at, step));
        EXPECT_FALSE(firstInvalidUtf8(part));
        shown += part;
      }
      shown += stream.finish();
      EXPECT_EQ(shown, lossyUtf8(text)) << step;
    }
  }
}

TEST(Unicode, RoundTripsEveryScalarValue) {
  std::string text;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) {
      continue;
    }
    text.clear();
    appendUtf8(text, code);
    const Utf8Char c = decodeUtf8(text, 0);
    ASSERT_TRUE(c.valid);
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.length, text.size());
  }
}

TEST(Unicode, LossyTextHasOneReplacementPerMaximalSubpart) {
  // Unicode 15, table 3-8 and Rust's documentation of from_utf8_lossy.
  EXPECT_EQ(lossyUtf8("\x41\xC0\xAF\x41\xF4\x80\x80\x41"), "A\uFFFD\uFFFDA\uFFFDA");
  EXPECT_EQ(lossyUtf8("Hello \xF0\x90\x80World"), "Hello \uFFFDWorld");
  // Overlong forms, surrogates, and beyond U+10FFFF: no byte goes with the lead byte.
  EXPECT_EQ(lossyUtf8("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossyUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossyUtf8("\xF0\x80\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossyUtf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

} // namespace
} // namespace sluice
