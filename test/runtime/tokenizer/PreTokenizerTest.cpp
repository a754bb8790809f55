// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PreTokenizer: pieces equal to the `tokenizers` package on pieces.json (made by make_vectors.py),
// and what the translation of regular expressions refuses.
#include "runtime/tokenizer/PreTokenizer.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sluice {
namespace {

TEST(PreTokenizer, PiecesEqualTheReference) {
  std::ifstream in("test/runtime/tokenizer/pieces.json", std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  const nlohmann::json vectors = nlohmann::json::parse(text.str());
  ASSERT_GT(vectors["cases"].size(), 50U);
  for (const nlohmann::json &c : vectors["cases"]) {
    const nlohmann::json bytes = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    const nlohmann::json root = {{"type", "Sequence"}, {"pretokenizers", {c[0], bytes}}};
    auto pre = PreTokenizer::fromJson(JsonView(&root, "pre_tokenizer"));
    ASSERT_TRUE(pre) << pre.error().message();
    for (size_t i = 0; i < vectors["texts"].size(); ++i) {
      const std::string source = vectors["texts"][i];
      PreTokenizer::Run run(*pre, source.size());
      std::vector<std::string_view> pieces;
      ASSERT_TRUE(pre->split(source, run, pieces));
      EXPECT_EQ(std::vector<std::string>(pieces.begin(), pieces.end()),
                c[1][i].get<std::vector<std::string>>())
          << c[0] << " on \"" << source << '"';
    }
  }
}

TEST(Oniguruma, RefusesWhatPcre2ReadsDifferently) {
  for (const char *regex :
       {"[a&&b]",   "[[a]b]",  "[[:alpha:]]", "(*UTF)a", "(?~a)", "(?m:a)",  "a(?i)b",
        "(?P<n>a)", "(?<n>a)", "a{1,3}+",     "a{2}?",   "\\1",   "\\k<n>",  "\\G",
        "\\R",      "\\X",     "\\K",         "\\Qa",    "\\pL",  "\\p{L&}", "\\xE4",
        "\\u12",    "[\\W]",   "[a-\\d]",     "[\\s-z]", "\\0"}) {
    auto translated = translateOniguruma(regex);
    ASSERT_FALSE(translated) << regex << " became " << *translated;
    EXPECT_EQ(translated.error().code(), Code::Unsupported) << regex;
    EXPECT_NE(translated.error().message().find("regex construct"), std::string::npos);
  }
  for (const char *regex : {"[a", "a\\", "[a\\", "\xFF"}) {
    EXPECT_FALSE(translateOniguruma(regex)) << regex;
  }
  for (const char *regex : {"(", "a**", "(?<=a+)b", "\\p{NoSuchScript}", ""}) {
    EXPECT_FALSE(RegexPattern::compile(regex)) << regex;
  }
  EXPECT_FALSE(RegexPattern::compile(std::string(100'000, 'a')));
  EXPECT_FALSE(RegexPattern::compile(std::string(500, '(') + std::string(500, ')')));
  EXPECT_FALSE(RegexPattern::compile("(((a{9999}){9999}){9999})"));
}

} // namespace
} // namespace sluice
