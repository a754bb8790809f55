// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokenizer: ids and texts equal to the `tokenizers` package on the committed vectors (made by
// make_vectors.py), then errors, limits and hostile inputs.
#include "runtime/tokenizer/Tokenizer.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string readFile(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

const fs::path kHere = "test/runtime/tokenizer"; // tests run in the repository's root

Tokenizer load(const std::string &name) {
  auto tokenizer = Tokenizer::fromJson(readFile(kHere / "data" / (name + ".json")));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(*tokenizer);
}

/// The tokenizer.json `name` after `edit`.
template <typename Edit> Result<Tokenizer> loadEdited(const std::string &name, Edit edit) {
  nlohmann::json root = nlohmann::json::parse(readFile(kHere / "data" / (name + ".json")));
  edit(root);
  return Tokenizer::fromJson(root.dump());
}

class TokenizerVectors : public testing::TestWithParam<int> {};

TEST_P(TokenizerVectors, EqualTheReference) {
  const nlohmann::json vectors = nlohmann::json::parse(readFile(kHere / "vectors.json"));
  const nlohmann::json &entry = vectors["tokenizers"][static_cast<size_t>(GetParam())];
  fs::path path = entry["file"].get<std::string>();
  if (entry["root"] == "fixtures") {
    const char *fixtures = std::getenv("SLUICE_FIXTURES");
    path = fs::path(fixtures ? fixtures : "../shared/fixtures") / path;
  }
  if (!fs::exists(path)) {
    GTEST_SKIP() << path << " is absent";
  }
  auto tokenizer = Tokenizer::fromJson(readFile(path));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  ASSERT_GT(entry["cases"].size(), 30U);
  for (const nlohmann::json &c : entry["cases"]) {
    const std::string text = vectors["texts"][c[0].get<size_t>()];
    const EncodeOptions options{c[1].get<int>() != 0, c[2].get<int>() != 0};
    const std::vector<int32_t> expected = c[3];
    auto ids = tokenizer->encode(text, options);
    ASSERT_TRUE(ids) << text << ": " << ids.error().message();
    EXPECT_EQ(*ids, expected) << path << " text " << c[0] << " \"" << text << '"';
    const std::string decoded = c[4].is_null() ? text : c[4].get<std::string>();
    EXPECT_EQ(tokenizer->decode(expected, false), decoded) << path << " text " << c[0];
    const std::string skipped = c[5].is_null() ? decoded : c[5].get<std::string>();
    EXPECT_EQ(tokenizer->decode(expected, true), skipped) << path << " text " << c[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerVectors, testing::Range(0, 6));

TEST(Tokenizer, LooksUpTokens) {
  const Tokenizer tokenizer = load("qwen2");
  const auto end = tokenizer.tokenId("<|im_end|>");
  ASSERT_TRUE(end);
  EXPECT_TRUE(tokenizer.isSpecial(*end));
  EXPECT_EQ(tokenizer.tokenBytes(*end), "<|im_end|>");
  EXPECT_EQ(tokenizer.specialIds().size(), 3U);
  const auto word = tokenizer.tokenId(" the"); // bytes, not "Ġthe"
  ASSERT_TRUE(word);
  EXPECT_FALSE(tokenizer.isSpecial(*word));
  EXPECT_EQ(tokenizer.tokenBytes(*word), " the");
  EXPECT_FALSE(tokenizer.tokenId("no such token"));
  for (int32_t id : {-1, tokenizer.vocabSize(), 1 << 30}) {
    EXPECT_EQ(tokenizer.tokenBytes(id), "");
    EXPECT_FALSE(tokenizer.isSpecial(id));
    EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{id}, false), "");
  }
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = load("gpt2");
  for (const char *bad :
       {"ab\xFF", "ab\xC3", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80", "ab\xC0\x80"}) {
    auto ids = tokenizer.encode(bad);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code(), Code::InvalidArgument);
    EXPECT_NE(ids.error().message().find("at byte 2"), std::string::npos);
  }
}

TEST(Tokenizer, DecodesBytesThatAreNoCharactersAsReplacements) {
  const Tokenizer tokenizer = load("gpt2");
  const int32_t lead = *tokenizer.tokenId("\xE4");
  const int32_t next = *tokenizer.tokenId("\xBD");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{lead, next, lead}, false), "\uFFFD\uFFFD");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{next, next}, false), "\uFFFD\uFFFD");
}

TEST(Tokenizer, AddedTokensStandForTheirContent) {
  // The package's decoder takes the letter for the byte E9 and gives U+FFFD; here the content comes
  // back.
  auto tokenizer = loadEdited(
      "qwen2", [](nlohmann::json &root) { root["added_tokens"][0]["content"] = "<caf\u00E9>"; });
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{*tokenizer->tokenId("<caf\u00E9>")}, false),
            "<caf\u00E9>");
}

TEST(Tokenizer, LongPiecesTakeNLogN) {
  const Tokenizer tokenizer = load("gpt2");
  const auto start = std::chrono::steady_clock::now();
  for (const std::string unit : {"a", " ", "the", "\xE4\xBD\xA0"}) {
    std::string text; // one piece of 1 MB; a quadratic merge would take hours
    while (text.size() < 1'000'000) {
      text += unit;
    }
    auto ids = tokenizer.encode(text);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(tokenizer.decode(*ids, false), text);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_FALSE(tokenizer.encode(std::string(Tokenizer::kMaxTextBytes + 1, 'a')));
}

TEST(Tokenizer, HostileRegexEndsWithAnError) {
  for (const char *regex : {"(a+)+$", "(?:a|a)*b", "(.*)(.*)(.*)(.*)x", "(?=(a*)*b)"}) {
    auto tokenizer = loadEdited("qwen2", [&](nlohmann::json &root) {
      root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = regex;
    });
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    auto ids = tokenizer->encode(std::string(20'000, 'a') + "!");
    if (!ids) { // PCRE2 sees through some of them
      EXPECT_NE(ids.error().message().find("split regex"), std::string::npos)
          << ids.error().message();
    }
  }
  // Cheap at each place, but at all places together it is quadratic: the time budget ends it.
  auto tokenizer = loadEdited("qwen2", [&](nlohmann::json &root) {
    root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a*[yz]";
  });
  ASSERT_TRUE(tokenizer);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(tokenizer->encode(std::string(300'000, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Tokenizer, NamesTheByteWithoutToken) {
  auto tokenizer =
      loadEdited("mixed", [](nlohmann::json &root) { root["model"]["unk_token"] = nullptr; });
  ASSERT_TRUE(tokenizer);
  EXPECT_TRUE(tokenizer->encode("", {}));
  auto ids = tokenizer->encode("\u4F60\u65E5"); // bytes E4 .. and E6 ..
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().message().find("0x"), std::string::npos);
}

struct BadFile {
  const char *name;
  void (*edit)(nlohmann::json &);
  const char *message; ///< the error begins with "tokenizer.json: " and this
};

class TokenizerErrors : public testing::TestWithParam<BadFile> {};

TEST_P(TokenizerErrors, NameTheJsonPath) {
  auto tokenizer = loadEdited("qwen2", GetParam().edit);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(
      tokenizer.error().message().rfind("tokenizer.json: " + std::string(GetParam().message), 0),
      0U)
      << tokenizer.error().message();
  EXPECT_EQ(tokenizer.error().message().find('\n'), std::string::npos);
}

using Json = nlohmann::json;
INSTANTIATE_TEST_SUITE_P(
    Constructs, TokenizerErrors,
    testing::Values(
        BadFile{"model", [](Json &r) { r["model"]["type"] = "Unigram"; },
                "model.type: model Unigram is not supported"},
        BadFile{"noModel", [](Json &r) { r.erase("model"); }, "model: expected an object"},
        BadFile{"fallback", [](Json &r) { r["model"]["byte_fallback"] = true; },
                "model.byte_fallback: "},
        BadFile{"dropout", [](Json &r) { r["model"]["dropout"] = 0.1; }, "model.dropout: "},
        BadFile{"suffix", [](Json &r) { r["model"]["end_of_word_suffix"] = "</w>"; },
                "model.end_of_word_suffix: "},
        BadFile{"flagType", [](Json &r) { r["model"]["ignore_merges"] = 1; },
                "model.ignore_merges: expected true or false, found number"},
        BadFile{"unknown", [](Json &r) { r["model"]["unk_token"] = "<u>"; },
                "model.unk_token: \"<u>\" is not in model.vocab"},
        BadFile{"vocabId", [](Json &r) { r["model"]["vocab"]["a"] = -3; },
                "model.vocab[\"a\"]: token id is out of range"},
        BadFile{"hugeId", [](Json &r) { r["model"]["vocab"]["a"] = 4000000000U; },
                "model.vocab[\"a\"]: token id is out of range"},
        BadFile{"sameId", [](Json &r) { r["model"]["vocab"]["a"] = r["model"]["vocab"]["b"]; },
                "model.vocab[\"b\"]: id "},
        BadFile{"merge", [](Json &r) { r["model"]["merges"][3] = "a b c"; },
                "model.merges[3]: expected two tokens"},
        BadFile{"mergeType", [](Json &r) { r["model"]["merges"][0] = 5; },
                "model.merges[0]: expected \"a b\""},
        BadFile{"mergeToken",
                [](Json &r) { r["model"]["merges"][0] = Json::array({"a", "\u4F60"}); },
                "model.merges[0]: token \""},
        BadFile{"normalizer", [](Json &r) { r["normalizer"] = {{"type", "Lowercase"}}; },
                "normalizer: normalizer Lowercase is not supported"},
        BadFile{"noByteLevel", [](Json &r) { r["pre_tokenizer"] = nullptr; },
                "pre_tokenizer: no ByteLevel step"},
        BadFile{"metaspace",
                [](Json &r) { r["pre_tokenizer"]["pretokenizers"][1]["type"] = "Metaspace"; },
                "pre_tokenizer.pretokenizers[1]: pre-tokenizer Metaspace is not supported"},
        BadFile{"order",
                [](Json &r) {
                  auto &p = r["pre_tokenizer"]["pretokenizers"];
                  std::swap(p[0], p[1]);
                },
                "pre_tokenizer.pretokenizers[1]: Split after ByteLevel"},
        BadFile{"behavior",
                [](Json &r) { r["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Glued"; },
                "pre_tokenizer.pretokenizers[0].behavior: split behavior Glued"},
        BadFile{"regex",
                [](Json &r) {
                  r["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[a-z&&[^b]]";
                },
                "pre_tokenizer.pretokenizers[0].pattern.Regex: regex construct && inside a "
                "character class"},
        BadFile{"regexSyntax",
                [](Json &r) { r["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; },
                "pre_tokenizer.pretokenizers[0].pattern.Regex: regex can't be compiled"},
        BadFile{"post", [](Json &r) { r["post_processor"] = {{"type", "BertProcessing"}}; },
                "post_processor: post-processor BertProcessing"},
        BadFile{"decoder", [](Json &r) { r["decoder"] = {{"type", "Metaspace"}}; },
                "decoder: decoder Metaspace"},
        BadFile{"noDecoder", [](Json &r) { r["decoder"] = nullptr; },
                "decoder: there is no decoder"},
        BadFile{"addedId", [](Json &r) { r["added_tokens"][0]["id"] = 5; },
                "added_tokens[0].id: added token \"<|endoftext|>\" has id 5"},
        BadFile{"addedTwice", [](Json &r) { r["added_tokens"].push_back(r["added_tokens"][0]); },
                "added_tokens[13]: \"<|endoftext|>\" is added twice"},
        BadFile{"addedEmpty", [](Json &r) { r["added_tokens"][0]["content"] = ""; },
                "added_tokens[0].content: expected 1 to 4096 bytes"}),
    [](const auto &param) { return std::string(param.param.name); });

TEST(Tokenizer, RefusesWhatIsNoTokenizer) {
  for (const char *text : {"", "{", "[]", "null", "{}", "\xFF", "{\"model\":{\"vocab\":{}}}"}) {
    auto tokenizer = Tokenizer::fromJson(text);
    ASSERT_FALSE(tokenizer) << text;
    EXPECT_FALSE(tokenizer.error().message().empty());
  }
  EXPECT_FALSE(Tokenizer::fromJson(std::string(100'000, '[')));
}

TEST(Tokenizer, SurvivesCutsAndFlippedBytes) {
  const std::string json = readFile(kHere / "data/mixed.json");
  for (size_t length = 0; length < json.size(); length += 97) {
    EXPECT_FALSE(Tokenizer::fromJson(std::string_view(json).substr(0, length)));
  }
  for (size_t at = 0; at < json.size(); at += 13) {
    std::string spoiled = json;
    spoiled[at] = static_cast<char>(spoiled[at] ^ (1 << (at % 8)));
    auto tokenizer = Tokenizer::fromJson(spoiled); // either a clear error or a tokenizer that works
    if (tokenizer) {
      auto ids = tokenizer->encode("The quick 123 \u4F60 THE");
      EXPECT_TRUE(ids || !ids.error().message().empty());
    }
  }
}

} // namespace
} // namespace sluice
