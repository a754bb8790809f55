// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Engine over the fake model: answers, finish reasons, streaming text, errors that end one request.
#include "runtime/engine/Engine.h"

#include "test/runtime/FakeRunner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

namespace sluice {
namespace {

using fake::FakeRunner;
using fake::kVocab;
using testing::ElementsAre;
using testing::HasSubstr;

// What one request said.
struct Heard {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<std::string> pieces;
  bool finished = false;
  FinishReason reason = FinishReason::Error;
  Status status;
  FinishEvent last;
};

RequestSpec specOf(std::vector<int32_t> prompt, uint32_t maxTokens, Heard &heard) {
  RequestSpec spec;
  spec.prompt = std::move(prompt);
  spec.maxTokens = maxTokens;
  spec.sampling.temperature = 0;
  spec.onToken = [&heard](const TokenEvent &event) {
    EXPECT_FALSE(heard.finished);
    heard.tokens.push_back(event.token);
    heard.text += event.text;
    heard.pieces.emplace_back(event.text);
  };
  spec.onFinish = [&heard](const FinishEvent &event) {
    EXPECT_FALSE(heard.finished);
    heard.finished = true;
    heard.reason = event.reason;
    heard.status = event.status;
    heard.text += event.text;
    heard.last = event;
    heard.last.text = {};
  };
  return spec;
}

// 26 letters, the two bytes of "é", a space, "ab", two special tokens.
Tokenizer letters() {
  std::string vocab;
  for (int i = 0; i < 26; ++i) {
    vocab += std::string("\"") + static_cast<char>('a' + i) + "\":" + std::to_string(i) + ",";
  }
  const std::string json = R"({"model":{"type":"BPE","vocab":{)" + vocab +
                           "\"\u00c3\":26,\"\u00a9\":27,\"\u0120\":28,\"ab\":29" +
                           R"(},"merges":[["a","b"]]},"added_tokens":[
      {"id":30,"content":"<eos>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":31,"content":"<x>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
      "normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},
      "post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}})";
  auto tokenizer = Tokenizer::fromJson(json);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(*tokenizer);
}

class EngineTest : public testing::Test {
protected:
  void make(const StepCapacity &capacity = {16, 4, 16, 64}, uint32_t blocks = 64,
            uint32_t windowBlocks = 64, const EngineOptions &options = {}, bool text = false) {
    auto runner = std::make_unique<FakeRunner>(capacity, blocks, windowBlocks);
    runner_ = runner.get();
    ModelFacts facts;
    facts.vocab = kVocab;
    facts.eosIds = {30};
    auto engine = Engine::create(std::move(runner), facts,
                                 text ? std::optional(letters()) : std::nullopt, options);
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = std::move(*engine);
  }
  void scripted(std::vector<int32_t> script) {
    make({16, 4, 16, 64}, 64, 64, {}, true);
    runner_->script = std::move(script);
  }
  RequestId submit(RequestSpec spec) {
    auto id = engine_->submit(std::move(spec));
    EXPECT_TRUE(id) << id.error().message();
    return id ? *id : 0;
  }
  bool step() {
    auto more = engine_->step();
    EXPECT_TRUE(more) << more.error().message();
    const Status fine = engine_->checkInvariants();
    EXPECT_TRUE(fine) << fine.message();
    return more && *more;
  }
  void runAll() {
    for (int i = 0; i < 10000 && step(); ++i) {
    }
    EXPECT_TRUE(engine_->idle());
  }

  FakeRunner *runner_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, GreedyAnswersEqualTheReferenceAloneAndTogether) {
  make();
  std::vector<Heard> heard(7);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < heard.size(); ++i) {
    prompts.emplace_back();
    for (size_t t = 0; t <= i * 5; ++t) {
      prompts.back().push_back(static_cast<int32_t>((i * 7 + t * 3) % kVocab));
    }
    RequestSpec spec = specOf(prompts[i], 20, heard[i]);
    spec.ignoreEos = true;
    submit(std::move(spec));
  }
  runAll();
  for (size_t i = 0; i < heard.size(); ++i) {
    EXPECT_EQ(heard[i].tokens, fake::greedy(prompts[i], 20)) << i;
    EXPECT_EQ(heard[i].reason, FinishReason::Length);
    EXPECT_EQ(heard[i].last.promptTokens, prompts[i].size());
    EXPECT_EQ(heard[i].last.generatedTokens, 20U);
  }
  const EngineStats &stats = engine_->stats();
  EXPECT_EQ(stats.prefillTokens, 1U + 6 + 11 + 16 + 21 + 26 + 31);
  EXPECT_EQ(stats.decodeTokens, 7U * 19);
  EXPECT_EQ(stats.finished, 7U);
  EXPECT_EQ(stats.preemptions, 0U);
  EXPECT_EQ(runner_->rows, stats.prefillTokens + stats.decodeTokens); // nothing is computed twice
}

TEST_F(EngineTest, EndTokensEndUnlessIgnored) {
  scripted({0, 1, 2, 30, 3, 4, 30});
  Heard a, b, c;
  submit(specOf({0}, 5, a));
  RequestSpec ignoring = specOf({0}, 5, b);
  ignoring.ignoreEos = true;
  submit(std::move(ignoring));
  RequestSpec own = specOf({0}, 5, c);
  own.sampling.stopTokens = {2};
  submit(std::move(own));
  runAll();
  EXPECT_THAT(a.tokens, ElementsAre(1, 2));
  EXPECT_EQ(a.reason, FinishReason::Stop);
  EXPECT_EQ(a.last.stopToken, 30);
  EXPECT_EQ(a.last.generatedTokens, 3U);
  EXPECT_EQ(a.text, "bc");
  EXPECT_THAT(b.tokens, ElementsAre(1, 2, 30, 3, 4));
  EXPECT_EQ(b.reason, FinishReason::Length);
  EXPECT_EQ(b.text, "bcde"); // a special token makes no text
  EXPECT_THAT(c.tokens, ElementsAre(1));
  EXPECT_EQ(c.last.stopToken, 2);
}

TEST_F(EngineTest, TextNeverEndsInsideACharacterOrAStopString) {
  scripted({0, 1, 26, 27, 2, 3, 4, 5, 6, 26});
  Heard a, b, c, d;
  submit(specOf({0}, 9, a));
  RequestSpec stop = specOf({0}, 9, b);
  stop.sampling.stopStrings = {"zz", "de"};
  submit(std::move(stop));
  RequestSpec half = specOf({0}, 5, c); // ends after "d": held back as a possible "de"
  half.sampling.stopStrings = {"dex"};
  submit(std::move(half));
  submit(specOf({0}, 2, d));
  runAll();
  EXPECT_EQ(a.text, "b\u00e9cdefg\ufffd"); // the last half character became visible at the end
  EXPECT_THAT(a.pieces, ElementsAre("b", "", "\u00e9", "c", "d", "e", "f", "g", ""));
  EXPECT_EQ(b.text, "b\u00e9c");
  EXPECT_EQ(b.reason, FinishReason::Stop);
  EXPECT_EQ(b.last.stopString, 1);
  EXPECT_EQ(b.tokens.size(), 6U); // the token that completed it is the last
  EXPECT_EQ(c.text, "b\u00e9cd");
  EXPECT_EQ(c.reason, FinishReason::Length);
  EXPECT_EQ(d.text, "b\ufffd");
}

TEST_F(EngineTest, TheContextLimitEndsWithLength) {
  make({16, 4, 16, 24});
  Heard a, b;
  RequestSpec spec = specOf({1, 2, 3, 4}, 0, a); // no limit of its own
  spec.ignoreEos = true;
  submit(std::move(spec));
  RequestSpec whole = specOf(std::vector<int32_t>(23, 1), 100, b);
  whole.ignoreEos = true;
  submit(std::move(whole));
  runAll();
  EXPECT_EQ(a.tokens, fake::greedy({1, 2, 3, 4}, 20)); // 4 + 20 = 24
  EXPECT_EQ(a.reason, FinishReason::Length);
  EXPECT_EQ(b.tokens.size(), 1U);
}

TEST_F(EngineTest, ImpossibleRequestsAreRefusedWithTheReason) {
  make({16, 4, 16, 24});
  Heard heard;
  const auto refusal = [&](const std::function<void(RequestSpec &)> &spoil) {
    RequestSpec spec = specOf({1}, 1, heard);
    spoil(spec);
    const auto id = engine_->submit(std::move(spec));
    EXPECT_FALSE(id);
    EXPECT_EQ(id.error().code(), Code::InvalidArgument);
    return id.error().message();
  };
  EXPECT_THAT(refusal([](auto &s) { s.prompt.clear(); }), HasSubstr("no tokens"));
  EXPECT_EQ(refusal([](auto &s) { s.prompt = {1, 32}; }),
            "prompt token 1 is 32, outside the vocabulary [0, 32)");
  EXPECT_THAT(refusal([](auto &s) { s.prompt = {-1}; }), HasSubstr("is -1"));
  EXPECT_THAT(refusal([](auto &s) { s.prompt.resize(24); }),
              HasSubstr("has 24 tokens; with at least one token of answer the limit is 24"));
  EXPECT_THAT(refusal([](auto &s) { s.sampling.topP = 2; }), HasSubstr("2"));
  EXPECT_THAT(refusal([](auto &s) { s.sampling.stopTokens = {99}; }), HasSubstr("99"));
  EXPECT_THAT(refusal([](auto &s) { s.logprobs = -2; }), HasSubstr("logprobs is -2"));
  EXPECT_TRUE(engine_->idle());
  EXPECT_FALSE(heard.finished);
}

TEST_F(EngineTest, AFullQueueSaysTryLater) {
  EngineOptions options;
  options.maxQueued = 2;
  make({16, 4, 16, 64}, 64, 64, options);
  std::vector<Heard> heard(3);
  submit(specOf({1}, 3, heard[0]));
  submit(specOf({1}, 3, heard[1]));
  EXPECT_EQ(engine_->submit(specOf({1}, 3, heard[2])).error().code(), Code::Capacity);
  step();
  submit(specOf({1}, 3, heard[2]));
  runAll();
  EXPECT_TRUE(heard[2].finished);
}

TEST_F(EngineTest, CancelFreesWithinAStep) {
  make();
  Heard a, b, c;
  RequestSpec endless = specOf(std::vector<int32_t>(40, 1), 0, a); // prefill of three steps
  const RequestId first = submit(std::move(endless));
  const RequestId second = submit(specOf({2}, 10, b));
  step();
  ASSERT_TRUE(engine_->cancel(first));
  ASSERT_TRUE(engine_->cancel(second)); // still queued
  submit(specOf({2}, 4, c));
  step();
  EXPECT_TRUE(a.finished && b.finished);
  EXPECT_EQ(a.reason, FinishReason::Cancelled);
  EXPECT_TRUE(a.status);
  EXPECT_EQ(engine_->cancel(first).code(), Code::NotFound);
  EXPECT_EQ(engine_->cancel(12345).code(), Code::NotFound);
  runAll();
  EXPECT_EQ(c.tokens, fake::greedy({2}, 4));
}

TEST_F(EngineTest, CallbacksMaySubmitAndCancel) {
  make();
  Heard a, b;
  RequestId id = 0;
  RequestSpec spec = specOf({3}, 30, a);
  spec.ignoreEos = true;
  auto count = spec.onToken;
  spec.onToken = [&, count](const TokenEvent &event) {
    count(event);
    if (a.tokens.size() == 5) {
      EXPECT_TRUE(engine_->cancel(id));
      submit(specOf({4}, 6, b));
    }
  };
  auto finish = spec.onFinish;
  Heard c;
  spec.onFinish = [&, finish](const FinishEvent &event) {
    finish(event);
    EXPECT_EQ(engine_->cancel(event.request).code(), Code::NotFound);
    submit(specOf({5}, 2, c));
  };
  id = submit(std::move(spec));
  runAll();
  EXPECT_EQ(a.reason, FinishReason::Cancelled);
  EXPECT_EQ(a.tokens.size(), 5U);
  EXPECT_EQ(b.tokens, fake::greedy({4}, 6));
  EXPECT_EQ(c.tokens, fake::greedy({5}, 2));
}

TEST_F(EngineTest, AFailedStepEndsItsRequestsAndNoOthers) {
  make({4, 2, 4, 64});
  std::vector<Heard> heard(4);
  for (Heard &h : heard) {
    RequestSpec spec = specOf({1, 2}, 5, h);
    spec.ignoreEos = true;
    submit(std::move(spec));
  }
  runner_->failAt = 2; // two sequences fit a step
  runAll();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(heard[i].finished);
    EXPECT_EQ(heard[i].reason, i < 2 ? FinishReason::Error : FinishReason::Length) << i;
  }
  EXPECT_EQ(heard[0].status.message(), "the device fell off the bus");
  EXPECT_EQ(heard[0].tokens.size(), 1U);
  EXPECT_EQ(heard[3].tokens, fake::greedy({1, 2}, 5));
}

TEST_F(EngineTest, LogitsThatAreNoNumbersEndThatRequest) {
  make();
  runner_->nanToken = 7;
  Heard a, b;
  submit(specOf({7}, 5, a));
  RequestSpec fine = specOf({6}, 1, b);
  submit(std::move(fine));
  runAll();
  EXPECT_EQ(a.reason, FinishReason::Error);
  EXPECT_EQ(a.status.code(), Code::Internal);
  EXPECT_EQ(b.tokens, fake::greedy({6}, 1));
}

TEST_F(EngineTest, LogitsAndLogprobsComeWhenAskedFor) {
  make();
  Heard heard;
  RequestSpec spec = specOf({9, 8, 7}, 3, heard);
  spec.ignoreEos = true;
  spec.wantLogits = true;
  spec.logprobs = 2;
  std::vector<int32_t> tokens = spec.prompt;
  int calls = 0;
  spec.onToken = [&](const TokenEvent &event) {
    const auto expected = fake::logitsOf(tokens, tokens.size() - 1);
    EXPECT_TRUE(
        std::equal(event.logits.begin(), event.logits.end(), expected.begin(), expected.end()));
    ASSERT_EQ(event.topLogprobs.size(), 2U);
    EXPECT_EQ(event.topLogprobs[0].id, event.token); // greedy
    EXPECT_EQ(event.topLogprobs[0].logprob, event.logprob);
    EXPECT_LT(event.logprob, 0);
    tokens.push_back(event.token);
    ++calls;
  };
  submit(std::move(spec));
  runAll();
  EXPECT_EQ(calls, 3);
}

TEST_F(EngineTest, APoolTooSmallForAllPreemptsAndStillGivesTheSameTokens) {
  // One sequence at full length needs 16 blocks of group 0: the pool holds just that.
  make({16, 4, 16, 64}, 16, 8);
  std::vector<Heard> heard(4);
  for (size_t i = 0; i < heard.size(); ++i) {
    RequestSpec spec = specOf({static_cast<int32_t>(i), 1}, 50, heard[i]);
    spec.ignoreEos = true;
    spec.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    spec.sampling.seed = i;
    submit(std::move(spec));
  }
  runAll();
  EXPECT_GT(engine_->stats().preemptions, 0U);
  const auto crowded = heard[1].tokens;
  for (size_t i = 0; i < heard.size(); i += 2) {
    EXPECT_EQ(heard[i].tokens, fake::greedy({static_cast<int32_t>(i), 1}, 50));
  }
  make();
  Heard alone;
  RequestSpec spec = specOf({1, 1}, 50, alone);
  spec.ignoreEos = true;
  spec.sampling.temperature = 0.9F;
  spec.sampling.seed = 1;
  submit(std::move(spec));
  runAll();
  EXPECT_EQ(alone.tokens, crowded);
}

TEST_F(EngineTest, CreateRefusesFactsThatDoNotFit) {
  const auto statusOf = [](const StepCapacity &capacity, uint32_t vocab) {
    ModelFacts facts;
    facts.vocab = vocab;
    const auto engine =
        Engine::create(std::make_unique<FakeRunner>(capacity, 4, 4), facts, std::nullopt, {});
    return engine ? Status::ok() : engine.error();
  };
  EXPECT_TRUE(statusOf({1, 1, 1, 16}, kVocab));
  EXPECT_EQ(statusOf({1, 1, 1, 16}, kVocab + 1).code(), Code::InvalidArgument);
  EXPECT_EQ(statusOf({0, 1, 1, 16}, kVocab).code(), Code::InvalidArgument);
}

} // namespace
} // namespace sluice
