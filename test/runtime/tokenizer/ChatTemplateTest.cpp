// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ChatTemplate: output equal to jinja2's on the committed vectors (made by
// make_template_vectors.py), errors with their lines, and limits that a hostile template can't
// pass.
#include "runtime/tokenizer/ChatTemplate.h"

#include <chrono>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sluice {
namespace {

nlohmann::ordered_json readVectors() {
  std::ifstream in("test/runtime/tokenizer/template_vectors.json", std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return nlohmann::ordered_json::parse(text.str());
}

std::vector<ChatMessage> messagesOf(const nlohmann::ordered_json &list, size_t first,
                                    size_t count) {
  std::vector<ChatMessage> messages;
  for (size_t i = first; i < first + count; ++i) {
    messages.push_back({list[i]["role"], list[i]["content"]});
  }
  return messages;
}

RenderOptions optionsFor(bool generation, bool variables, const nlohmann::ordered_json &vectors) {
  RenderOptions options;
  options.addGenerationPrompt = generation;
  options.bosToken = "<s>";
  options.eosToken = "</s>";
  options.variablesJson = variables ? vectors["variables"].dump() : "";
  options.nowSeconds = 1722006245;
  return options;
}

/// Parses and renders; the error's message where one of both fails.
Result<std::string> renderText(std::string_view text, const RenderOptions &options = {},
                               const std::vector<ChatMessage> &messages = {{"user", "hi"}}) {
  auto parsed = ChatTemplate::parse(text);
  if (!parsed) {
    return parsed.error();
  }
  return parsed->render(messages, options);
}

TEST(ChatTemplate, WholeTemplatesEqualJinja) {
  const auto vectors = readVectors();
  size_t numOutputs = 0;
  for (const auto &c : vectors["cases"]) {
    const std::string name = c[0];
    auto parsed = ChatTemplate::parse(vectors["templates"][name].get<std::string>());
    ASSERT_TRUE(parsed) << name << ": " << parsed.error().message();
    auto output = parsed->render(messagesOf(vectors["messages"], c[1], c[2]),
                                 optionsFor(c[3], c[4], vectors));
    if (c[5].is_null()) {
      EXPECT_FALSE(output) << name << c.dump();
      continue;
    }
    ASSERT_TRUE(output) << name << ": " << output.error().message();
    EXPECT_EQ(*output, c[5].get<std::string>()) << name;
    ++numOutputs;
  }
  EXPECT_GT(numOutputs, 60U);
}

TEST(ChatTemplate, SnippetsEqualJinja) {
  const auto vectors = readVectors();
  const auto messages = messagesOf(vectors["messages"], 0, vectors["messages"].size());
  ASSERT_GT(vectors["snippets"].size(), 70U);
  for (const auto &c : vectors["snippets"]) {
    const std::string text = c[0];
    auto output = renderText(text, optionsFor(true, c[1], vectors), messages);
    if (!output) {
      ADD_FAILURE() << text << ": " << output.error().message();
      continue;
    }
    EXPECT_EQ(*output, c[2].get<std::string>()) << text;
  }
}

TEST(ChatTemplate, ErrorsNameTheirLine) {
  const auto vectors = readVectors();
  ASSERT_GT(vectors["errors"].size(), 40U);
  for (const auto &c : vectors["errors"]) {
    auto output = renderText(c[0].get<std::string>());
    ASSERT_FALSE(output) << c[0] << " gave " << *output;
    EXPECT_EQ(output.error().message().rfind("line " + std::to_string(c[1].get<int>()) + ": ", 0),
              0U)
        << c[0] << ": " << output.error().message();
    EXPECT_NE(output.error().code(), Code::Internal);
    EXPECT_EQ(output.error().message().find('\n'), std::string::npos);
  }
}

TEST(ChatTemplate, UnsupportedConstructsAreRefused) {
  for (const char *text :
       {"{% extends 'x' %}", "{% import 'x' as y %}", "{% block a %}{% endblock %}",
        "{% call m() %}{% endcall %}", "{% autoescape true %}{% endautoescape %}", "{{ x|escape }}",
        "{{ x|urlize }}", "{{ x|groupby('a') }}", "{{ f(*args) }}", "{{ f(**kw) }}",
        "{% for x in y recursive %}{% endfor %}", "{{ x is sameas y }}",
        "{{ 99999999999999999999 }}", "{{ x[1, 2] }}"}) {
    auto output = ChatTemplate::parse(text);
    ASSERT_FALSE(output) << text;
    EXPECT_EQ(output.error().code(), Code::Unsupported) << output.error().message();
    EXPECT_EQ(output.error().message().rfind("line 1: ", 0), 0U) << output.error().message();
  }
  for (const char *text :
       {"{{ '%d' % 5 }}", "{{ '{:>5}'.format(1) }}", "{{ '{0.x}'.format(1) }}",
        "{{ '{}'.format() }}", "{{ 'a'|safe|trim }}", "{{ strftime_now('%d') }}",
        "{{ 9223372036854775807 + 1 }}", "{{ cycler('a') }}", "{{ '\\u00df'|upper }}",
        "{{ {'items': 1}.items }}", "{{ [1]|map('upper') }}",
        "{% set x = [1]|select %}{{ x|list }}{{ x|list }}",
        "{{ messages.__class__ }}{{ messages.__class__.x }}", "{{ ''.__class__.__mro__ }}"}) {
    auto output = renderText(text);
    EXPECT_FALSE(output) << text << " gave " << *output;
  }
}

TEST(ChatTemplate, RaiseExceptionReachesTheCaller) {
  auto output = renderText("\n{{ raise_exception('Only user ' ~ 'roles') }}");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code(), Code::InvalidArgument);
  EXPECT_EQ(output.error().message(),
            "line 2: the chat template refuses these messages: Only user roles");
}

TEST(ChatTemplate, MessagesAreDataNotTemplate) {
  auto output = renderText("{% for m in messages %}{{ m.content }}{% endfor %}", {},
                           {{"user", "{{ 1 + 1 }}{% if %}"}});
  ASSERT_TRUE(output);
  EXPECT_EQ(*output, "{{ 1 + 1 }}{% if %}");
  EXPECT_FALSE(renderText("x", {}, {{"user", "\xFF"}}));
}

TEST(ChatTemplate, VariablesMustBeAJsonObject) {
  RenderOptions options;
  for (const char *json : {"[1]", "{", "1", "{\"a\": 18446744073709551615}"}) {
    options.variablesJson = json;
    EXPECT_FALSE(renderText("x", options)) << json;
  }
  options.variablesJson = "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_FALSE(renderText("x", options));
  options.variablesJson = R"({"b":1,"a":2,"b":3})";
  auto output = renderText("{{ b }}{{ a }}", options);
  ASSERT_TRUE(output);
  EXPECT_EQ(*output, "32");
}

class ChatTemplateLimits : public testing::TestWithParam<const char *> {};

TEST_P(ChatTemplateLimits, EndWithCapacity) {
  const auto start = std::chrono::steady_clock::now();
  auto output = renderText(GetParam());
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code(), Code::Capacity) << output.error().message();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

INSTANTIATE_TEST_SUITE_P(
    Hostile, ChatTemplateLimits,
    testing::Values(
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ "
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 9999 }}{% endfor %}",
        "{{ 'a' * 9999999999 }}", "{{ [1] * 9999999999 }}", "{{ range(9999999999) }}",
        "{% set ns = namespace(s='ab') %}{% for a in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(s='ab') %}{% for a in range(99) %}{% set ns.s = ns.s.replace('', "
        "ns.s) %}{% endfor %}",
        "{% set ns = namespace(s=['a']) %}{% for a in range(999) %}{% set ns.s = [ns.s] %}{% "
        "endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=['a']) %}{% for a in range(999) %}{% set ns.s = [ns.s] %}{% "
        "endfor %}{{ ns.s|tojson }}",
        "{% set ns = namespace(s=['a'], t=['a']) %}{% for a in range(999) %}{% set ns.s = [ns.s] "
        "%}{% set ns.t = [ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{{ "
        "m(n)|trim|upper|trim|upper|trim|upper|trim|upper|trim|upper|trim|upper|trim|upper|trim|"
        "upper|trim|upper }}{% endmacro %}{{ m(1) }}",
        "{% set s = 'a' * 9999999 %}{% for a in range(99999) %}{{ 'b' in s }}{% endfor %}",
        "{% set s = 'a' * 9999999 %}{% for a in range(99999) %}{% set x = s[::-1] %}{% endfor %}",
        "{% set s = ('a' * 999999)|list %}{% for a in range(99999) %}{% set x = s|join %}{% endfor "
        "%}",
        "{% set s = range(99999)|list %}{{ s|unique|list|length }}"));

TEST(ChatTemplate, DeepSourcesAreRefused) {
  EXPECT_FALSE(
      ChatTemplate::parse("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"));
  EXPECT_FALSE(
      ChatTemplate::parse("{{ " + std::string(5000, '[') + std::string(5000, ']') + " }}"));
  EXPECT_FALSE(ChatTemplate::parse("{{ " + std::string(5000, '-') + "1 }}"));
  std::string nots = "{{ ";
  std::string sum = "{{ 1";
  std::string ifs;
  std::string conditional = "{{ ";
  std::string dots = "{{ a";
  for (int i = 0; i < 5000; ++i) {
    nots += "not ";
    sum += " + 1";
    ifs += "{% if 1 %}";
    conditional += "1 if 0 else ";
    dots += ".a";
  }
  EXPECT_FALSE(ChatTemplate::parse(nots + "1 }}"));
  EXPECT_FALSE(ChatTemplate::parse(sum + " }}"));
  EXPECT_FALSE(ChatTemplate::parse(ifs));
  EXPECT_FALSE(ChatTemplate::parse(conditional + "1 }}"));
  EXPECT_FALSE(ChatTemplate::parse(dots + " }}"));
  EXPECT_FALSE(ChatTemplate::parse(std::string((1 << 20) + 1, 'a')));
  EXPECT_TRUE(
      ChatTemplate::parse("{{ " + std::string(20, '(') + "1" + std::string(20, ')') + " }}"));
}

TEST(ChatTemplate, SurvivesCutsAndFlippedBytes) {
  const auto vectors = readVectors();
  const auto messages = messagesOf(vectors["messages"], 0, vectors["messages"].size());
  for (const auto &[name, text] : vectors["templates"].items()) {
    const std::string whole = text;
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string spoiled = whole;
      spoiled[at] = static_cast<char>(spoiled[at] ^ (1 << (at % 7)));
      for (std::string_view source :
           {std::string_view(whole).substr(0, at), std::string_view(spoiled)}) {
        auto output = renderText(source, optionsFor(true, true, vectors), messages);
        if (!output) {
          EXPECT_NE(output.error().message().find("line "), std::string::npos)
              << output.error().message();
        }
      }
    }
  }
}

} // namespace
} // namespace sluice
