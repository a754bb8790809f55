// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sampler: each step against a plain f64 reading of its formula, distributions by chi-square,
// hostile logits.
#include "runtime/sampling/Sampler.h"

#include "runtime/sampling/CounterRandom.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <vector>

namespace sluice {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Counts of `draws` samples at token indices 0, 1, ... of one seed.
std::vector<int> histogram(const SamplingParams &params, const std::vector<float> &logits,
                           int draws) {
  SamplingWorkspace workspace(static_cast<int32_t>(logits.size()));
  Sampler sampler(params, workspace);
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < draws; ++i) {
    const int32_t id = sampler.sample(logits);
    EXPECT_GE(id, 0);
    ++counts[static_cast<size_t>(id)];
    sampler.accept(id);
  }
  return counts;
}

/// Pearson's statistic; tokens with probability 0 must not occur.
double chiSquare(const std::vector<int> &counts, const std::vector<double> &probabilities) {
  double draws = 0;
  for (int c : counts) {
    draws += c;
  }
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    const double expected = draws * probabilities[i];
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float> &logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (float logit : logits) {
    p.push_back(std::exp(static_cast<double>(logit) / temperature));
    sum += p.back();
  }
  for (double &x : p) {
    x /= sum;
  }
  return p;
}

void renormalise(std::vector<double> &p) {
  double sum = 0;
  for (double x : p) {
    sum += x;
  }
  for (double &x : p) {
    x /= sum;
  }
}

const std::vector<float> kLogits = {1.0F, 3.0F, -2.0F, 2.5F, 0.0F, 2.0F, -1.0F, 1.5F};
// 99.9 % quantile of chi-square with 7 degrees of freedom; fewer degrees have smaller ones. The
// seeds are fixed: a failure means a changed distribution, not bad luck.
constexpr double kChiSquareLimit = 24.3;

TEST(CounterRandom, MatchesThePublishedVectors) {
  // Random123 kat_vectors, philox4x32 with 10 rounds.
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, IsUniformInTheUnitInterval) {
  std::vector<int> counts(16, 0);
  for (uint64_t i = 0; i < 16000; ++i) {
    const double u = uniformAt(7, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++counts[static_cast<size_t>(u * 16)];
  }
  EXPECT_LT(chiSquare(counts, std::vector<double>(16, 1.0 / 16)), 37.7); // 99.9 %, 15 degrees
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  SamplingParams params;
  params.temperature = 0;
  SamplingWorkspace workspace(5);
  Sampler sampler(params, workspace);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 4, 2, 4, 4}), 1);
}

TEST(Sampler, TemperatureGivesTheSoftmax) {
  for (float temperature : {0.5F, 1.0F, 2.0F}) {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = 11;
    EXPECT_LT(chiSquare(histogram(params, kLogits, 20000), softmax(kLogits, temperature)),
              kChiSquareLimit)
        << temperature;
  }
}

TEST(Sampler, TopKKeepsExactlyK) {
  SamplingParams params;
  params.topK = 3;
  params.seed = 12;
  std::vector<double> p = softmax(kLogits, 1);
  p[0] = p[2] = p[4] = p[6] = p[7] = 0;
  renormalise(p);
  EXPECT_LT(chiSquare(histogram(params, kLogits, 20000), p), kChiSquareLimit);
  // Ties at the border: the lower ids stay.
  params.topK = 2;
  const std::vector<int> counts = histogram(params, {1, 1, 1, 1}, 1000);
  EXPECT_GT(counts[0], 400);
  EXPECT_GT(counts[1], 400);
  EXPECT_EQ(counts[2] + counts[3], 0);
}

TEST(Sampler, TopPKeepsTheShortestNucleus) {
  SamplingParams params;
  params.seed = 13;
  const std::vector<double> full =
      softmax(kLogits, 1); // best first: 1 (.42), 3 (.26), 5 (.16), 7 (.094), ...
  params.topP = 0.7F;      // .42 + .26 = .68 < .7: the third is needed
  std::vector<double> p = full;
  p[0] = p[2] = p[4] = p[6] = p[7] = 0;
  renormalise(p);
  EXPECT_LT(chiSquare(histogram(params, kLogits, 20000), p), kChiSquareLimit);
  params.topP = 1e-6F; // always at least the best
  EXPECT_EQ(histogram(params, kLogits, 100)[1], 100);
}

TEST(Sampler, TopPOnALargeVocabularyEqualsAFullSort) {
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(uniformAt(99, i)); // flat: the nucleus holds thousands
  }
  SamplingParams params;
  params.topP = 0.9F;
  params.seed = 5;
  const std::vector<double> p = softmax(logits, 1);
  std::vector<size_t> order(p.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return p[a] > p[b] || (p[a] == p[b] && a < b); });
  double sum = 0;
  size_t size = 0;
  while (sum < 0.9) {
    sum += p[order[size++]];
  }
  // The same inverse CDF in f64. An index may differ by one where f32 weights (3e-7) move a border
  // of the CDF.
  SamplingWorkspace workspace(5000);
  Sampler sampler(params, workspace);
  int different = 0;
  for (uint64_t draw = 0; draw < 300; ++draw) {
    const double target = uniformAt(5, draw) * sum;
    double walk = 0;
    size_t i = 0;
    while (i + 1 < size && (walk += p[order[i]]) <= target) {
      ++i;
    }
    const int32_t id = sampler.sample(logits);
    different += id == static_cast<int32_t>(order[i]) ? 0 : 1;
    sampler.accept(id);
  }
  EXPECT_LE(different, 3);
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  SamplingParams params;
  params.minP = 0.3F; // exp(-1.2) = .3: logits below 1.8 leave
  params.seed = 14;
  std::vector<double> p = softmax(kLogits, 1);
  p[0] = p[2] = p[4] = p[6] = p[7] = 0;
  renormalise(p);
  EXPECT_LT(chiSquare(histogram(params, kLogits, 20000), p), kChiSquareLimit);
  params.minP = 1;
  EXPECT_EQ(histogram(params, kLogits, 100)[1], 100);
}

TEST(Sampler, FiltersApplyInTheDocumentedOrder) {
  // min-p .05 leaves 1 3 5 7 0; top-k 4 leaves 1 3 5 7; of these top-p .6 takes 1 (.45) and 3
  // (.27).
  SamplingParams params;
  params.minP = 0.05F;
  params.topK = 4;
  params.topP = 0.6F;
  params.seed = 15;
  std::vector<double> p = softmax(kLogits, 1);
  p[0] = p[2] = p[4] = p[5] = p[6] = p[7] = 0;
  renormalise(p);
  EXPECT_LT(chiSquare(histogram(params, kLogits, 20000), p), kChiSquareLimit);
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegative) {
  SamplingParams params;
  params.temperature = 0;
  params.repetitionPenalty = 2;
  SamplingWorkspace workspace(3);
  Sampler sampler(params, workspace);
  const std::vector<int32_t> prompt = {0, 0, -5, 99};
  sampler.acceptPrompt(prompt);
  EXPECT_EQ(sampler.sample(std::vector<float>{3.0F, 1.6F, 0}), 1); // 3 / 2 < 1.6; counted once
  EXPECT_EQ(sampler.sample(std::vector<float>{3.0F, 1.4F, 0}), 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{-1.0F, -1.9F, -9}), 1); // -1 * 2 < -1.9
  sampler.accept(1);
  EXPECT_EQ(sampler.sample(std::vector<float>{3.0F, 2.8F, 1.45F}), 0); // now 1 is in the output too
}

TEST(Sampler, PresenceAndFrequencyCountTheOutputOnly) {
  SamplingParams params;
  params.temperature = 0;
  params.presencePenalty = 0.5F;
  params.frequencyPenalty = 0.25F;
  SamplingWorkspace workspace(2);
  Sampler sampler(params, workspace);
  const std::vector<int32_t> prompt = {0, 0, 0};
  sampler.acceptPrompt(prompt);
  EXPECT_EQ(sampler.sample(std::vector<float>{1.0F, 0.99F}), 0);
  sampler.accept(0); // -.5 - .25
  EXPECT_EQ(sampler.sample(std::vector<float>{1.0F, 0.26F}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{1.0F, 0.24F}), 0);
  sampler.accept(0); // -.5 - .5
  EXPECT_EQ(sampler.sample(std::vector<float>{1.0F, 0.01F}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{1.0F, -0.01F}), 0);
}

TEST(Sampler, LogitBiasComesFirst) {
  SamplingParams params;
  params.temperature = 0;
  params.logitBias = {{2, 100.0F}, {0, -100.0F}};
  SamplingWorkspace workspace(3);
  Sampler sampler(params, workspace);
  EXPECT_EQ(sampler.sample(std::vector<float>{9, 8, -50}), 2);
}

TEST(Sampler, DrawsDependOnSeedAndIndexOnly) {
  SamplingParams params;
  params.seed = 1234;
  SamplingWorkspace shared(8);
  Sampler alone(params, shared);
  std::vector<int32_t> first;
  for (int i = 0; i < 32; ++i) {
    first.push_back(alone.sample(kLogits));
    alone.accept(first.back());
  }
  // Company on the same workspace, repeated calls, and a sampler that was rebuilt in the middle
  // change nothing.
  SamplingParams other = params;
  other.seed = 1;
  other.topP = 0.5F;
  Sampler neighbour(other, shared);
  Sampler second(params, shared);
  for (int32_t id : first) {
    EXPECT_GE(neighbour.sample(kLogits), 0);
    EXPECT_EQ(second.sample(kLogits), id);
    EXPECT_EQ(second.sample(kLogits), id);
    second.accept(id);
  }
  Sampler rebuilt(params, shared);
  for (int i = 0; i < 20; ++i) {
    rebuilt.accept(first[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(rebuilt.sample(kLogits), first[20]);
  // Pinned, so that a change of the generator or of the sums is seen.
  EXPECT_EQ(std::vector<int32_t>(first.begin(), first.begin() + 8),
            (std::vector<int32_t>{1, 3, 1, 3, 1, 5, 7, 3}));
}

TEST(Sampler, HostileLogitsGiveDefinedTokens) {
  SamplingParams params;
  SamplingWorkspace workspace(4);
  for (float temperature : {0.0F, 1.0F, 1e-30F, 100.0F}) {
    params.temperature = temperature;
    params.topP = 0.9F;
    params.minP = 0.01F;
    Sampler sampler(params, workspace);
    EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInf, kNan, kNan}), Sampler::kNoToken);
    EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInf, 1.0F, kNan}), 2);
    EXPECT_EQ(sampler.sample(std::vector<float>{0, kInf, 1.0F, kNan}), 1);
    EXPECT_EQ(sampler.sample(std::vector<float>{-3e38F, 3e38F, -3e38F, -kInf}), 1);
    EXPECT_EQ(sampler.sample(std::vector<float>{1.0F}), Sampler::kNoToken); // wrong length
  }
  params.repetitionPenalty = 1e-30F; // 3e38 / 1e-30 overflows
  Sampler sampler(params, workspace);
  sampler.accept(2);
  EXPECT_EQ(sampler.sample(std::vector<float>{0, 1.0F, 3e38F, 0}), 2);
}

TEST(Sampler, ReportsLogprobsOfRawLogits) {
  const std::vector<double> p = softmax(kLogits, 1);
  // f32 result of an f64 computation: half an ulp of 5 is 2.4e-7.
  for (size_t i = 0; i < kLogits.size(); ++i) {
    EXPECT_NEAR(Sampler::logprobOf(kLogits, static_cast<int32_t>(i)), std::log(p[i]), 5e-7);
  }
  const std::vector<float> ties = {2, kNan, 2, 1, -kInf};
  const std::vector<TokenLogprob> top = Sampler::topLogprobs(ties, 9);
  ASSERT_EQ(top.size(), 5U);
  EXPECT_EQ(top[0].id, 0);
  EXPECT_EQ(top[1].id, 2);
  EXPECT_EQ(top[2].id, 3);
  EXPECT_EQ(top[3].logprob, -kInf);
  EXPECT_EQ(Sampler::logprobOf(ties, 1), -kInf);
  EXPECT_EQ(Sampler::logprobOf(ties, 77), -kInf);
}

struct BadField {
  const char *name;
  void (*spoil)(SamplingParams &);
};

class SamplingParamsRange : public testing::TestWithParam<BadField> {};

TEST_P(SamplingParamsRange, IsRefusedByName) {
  SamplingParams params;
  EXPECT_TRUE(params.validate(10));
  GetParam().spoil(params);
  const Status status = params.validate(10);
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_EQ(status.message().rfind(GetParam().name, 0), 0U) << status.message();
  EXPECT_NE(status.message().find("expected"), std::string::npos) << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    Fields, SamplingParamsRange,
    testing::Values(
        BadField{"temperature is nan", [](SamplingParams &p) { p.temperature = kNan; }},
        BadField{"temperature is -1", [](SamplingParams &p) { p.temperature = -1; }},
        BadField{"temperature is inf", [](SamplingParams &p) { p.temperature = kInf; }},
        BadField{"top_k is -2", [](SamplingParams &p) { p.topK = -2; }},
        BadField{"top_p is 0", [](SamplingParams &p) { p.topP = 0; }},
        BadField{"top_p is 1.5", [](SamplingParams &p) { p.topP = 1.5F; }},
        BadField{"top_p is nan", [](SamplingParams &p) { p.topP = kNan; }},
        BadField{"min_p is -0.5", [](SamplingParams &p) { p.minP = -0.5F; }},
        BadField{"repetition_penalty is 0", [](SamplingParams &p) { p.repetitionPenalty = 0; }},
        BadField{"presence_penalty is 3", [](SamplingParams &p) { p.presencePenalty = 3; }},
        BadField{"frequency_penalty is nan", [](SamplingParams &p) { p.frequencyPenalty = kNan; }},
        BadField{"logit_bias holds token id 10",
                 [](SamplingParams &p) { p.logitBias = {{10, 1.0F}}; }},
        BadField{"logit_bias is nan", [](SamplingParams &p) { p.logitBias = {{1, kNan}}; }},
        BadField{"stop_token_ids holds token id -1",
                 [](SamplingParams &p) { p.stopTokens = {-1}; }},
        BadField{"stop holds a string of 0 bytes",
                 [](SamplingParams &p) { p.stopStrings = {"a", ""}; }},
        BadField{"stop holds 65 strings",
                 [](SamplingParams &p) { p.stopStrings.assign(65, "x"); }}));

} // namespace
} // namespace sluice
