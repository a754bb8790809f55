// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sampling steps on one row of logits. Compiled without floating-point contraction (see
// runtime/CMakeLists.txt), so that every machine with IEEE arithmetic takes the same token.
#include "runtime/sampling/Sampler.h"

#include "runtime/sampling/CounterRandom.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

namespace sluice {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
/// exp(x) below this is taken as 0: exp(-87) = 1.6e-38 is about the smallest normal float.
constexpr float kExpUnderflow = -87.0F;

/// exp(x) for x <= 0 with relative error below 3e-7; 0 below kExpUnderflow and for NaN. Cody-Waite
/// reduction by ln 2 and the Taylor polynomial of degree 7 on [-ln2/2, ln2/2]; only +, -, * and bit
/// operations, so the same bits on every machine.
inline float portableExp(float x) {
  constexpr float kRounder =
      12582912.0F; // 1.5 * 2^23: adding and subtracting it rounds to the nearest integer
  const float clamped = x > kExpUnderflow ? x : kExpUnderflow;
  const float shifted = clamped * 1.44269504F + kRounder;
  const float n = shifted - kRounder;
  const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const int32_t exponent = static_cast<int32_t>(n) + 127; // in [1, 127]
  const float scale = std::bit_cast<float>(exponent << 23);
  return x > kExpUnderflow ? p * scale : 0.0F;
}

/// Sum of weights[0, count) in four fixed lanes: independent of compiler and vector width.
double fixedOrderSum(const float *weights, size_t count) {
  double lanes[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < count; ++i) {
    lanes[i % 4] += weights[i];
  }
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/// A total order: higher value first, then the lower id.
struct BestFirst {
  const float *values;
  bool operator()(int32_t a, int32_t b) const {
    return values[a] > values[b] || (values[a] == values[b] && a < b);
  }
};

/// NaN becomes -inf, +inf the largest float.
inline float cleaned(float logit) {
  return logit > kMinusInfinity ? std::min(logit, std::numeric_limits<float>::max())
                                : kMinusInfinity;
}

} // namespace

SamplingWorkspace::SamplingWorkspace(int32_t vocabSize)
    : scores_(static_cast<size_t>(std::max(vocabSize, 0))), weights_(scores_.size()),
      order_(scores_.size()) {}

Sampler::Sampler(const SamplingParams &params, SamplingWorkspace &workspace)
    : temperature_(params.temperature), topK_(params.topK), topP_(params.topP), minP_(params.minP),
      repetitionPenalty_(params.repetitionPenalty), presencePenalty_(params.presencePenalty),
      frequencyPenalty_(params.frequencyPenalty), seed_(params.seed), logitBias_(params.logitBias),
      workspace_(workspace) {
  if (params.hasPenalties()) {
    outputCounts_.assign(workspace.scores_.size(), 0);
    seen_.assign(workspace.scores_.size(), 0);
  }
}

void Sampler::acceptPrompt(std::span<const int32_t> ids) {
  for (int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < seen_.size()) {
      seen_[id] = 1;
    }
  }
}

void Sampler::accept(int32_t id) {
  ++numAccepted_;
  if (id >= 0 && static_cast<size_t>(id) < seen_.size()) {
    seen_[id] = 1;
    outputCounts_[id] += outputCounts_[id] < std::numeric_limits<uint32_t>::max() ? 1 : 0;
  }
}

void Sampler::computeScores(std::span<const float> logits) {
  std::vector<float> &scores = workspace_.scores_;
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = cleaned(logits[i]);
  }
  for (const auto &[id, bias] : logitBias_) {
    if (id >= 0 && static_cast<size_t>(id) < scores.size()) {
      scores[id] = cleaned(scores[id] + bias);
    }
  }
  for (size_t i = 0; i < seen_.size(); ++i) {
    if (!seen_[i]) {
      continue;
    }
    float score = scores[i];
    score = score > 0 ? score / repetitionPenalty_ : score * repetitionPenalty_;
    const float count = static_cast<float>(outputCounts_[i]);
    score -= count * frequencyPenalty_;
    score -= count > 0 ? presencePenalty_ : 0.0F;
    scores[i] = cleaned(score);
  }
}

int32_t Sampler::bestScore() const {
  const std::vector<float> &scores = workspace_.scores_;
  int32_t best = kNoToken;
  float bestValue = kMinusInfinity;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > bestValue) {
      bestValue = scores[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

int32_t Sampler::sample(std::span<const float> logits) {
  if (logits.size() != workspace_.scores_.size()) {
    return kNoToken;
  }
  computeScores(logits);
  const int32_t best = bestScore();
  if (best == kNoToken || temperature_ == 0.0F) {
    return best;
  }
  size_t count = collectCandidates(workspace_.scores_[best]);
  if (topK_ > 0 && static_cast<size_t>(topK_) < count) {
    count = keepBest(count);
  }
  if (topP_ < 1.0F) {
    count = keepTopP(count);
  }
  const std::vector<float> &weights = workspace_.weights_;
  const std::vector<int32_t> &order = workspace_.order_;
  double total = 0;
  for (size_t i = 0; i < count; ++i) {
    total += weights[order[i]];
  }
  const double target = uniformAt(seed_, numAccepted_) * total;
  double sum = 0;
  for (size_t i = 0; i + 1 < count; ++i) {
    sum += weights[order[i]];
    if (sum > target) {
      return order[i];
    }
  }
  return order[count - 1];
}

/// Fills weights and order with the tokens of positive weight that min-p leaves, in order of ids;
/// at least the best one.
size_t Sampler::collectCandidates(float best) {
  std::vector<float> &weights = workspace_.weights_;
  const std::vector<float> &scores = workspace_.scores_;
  // In double: score - best may overflow f32, and division by a tiny temperature too; both then
  // underflow in exp.
  const double temperature = temperature_;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double gap = (static_cast<double>(scores[i]) - best) / temperature;
    weights[i] = portableExp(static_cast<float>(std::max(gap, -1000.0)));
  }
  size_t count = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    workspace_.order_[count] = static_cast<int32_t>(i);
    count += weights[i] > 0 && weights[i] >= minP_ ? 1 : 0; // the best one's weight is exactly 1
  }
  return count;
}

size_t Sampler::keepBest(size_t count) {
  auto begin = workspace_.order_.begin();
  std::nth_element(begin, begin + topK_, begin + static_cast<ptrdiff_t>(count),
                   BestFirst{workspace_.scores_.data()});
  std::sort(begin,
            begin + topK_); // order of ids: the sums don't depend on how nth_element partitions
  return static_cast<size_t>(topK_);
}

/// Puts the best `wanted` of the first `count` candidates in front, best first.
void Sampler::sortBest(size_t wanted, size_t count) {
  auto begin = workspace_.order_.begin();
  const BestFirst before{workspace_.scores_.data()};
  if (wanted < count) {
    std::nth_element(begin, begin + static_cast<ptrdiff_t>(wanted),
                     begin + static_cast<ptrdiff_t>(count), before);
  }
  std::sort(begin, begin + static_cast<ptrdiff_t>(wanted), before);
}

size_t Sampler::keepTopP(size_t count) {
  const std::vector<float> &weights = workspace_.weights_;
  const std::vector<int32_t> &order = workspace_.order_;
  double total = 0;
  if (count == weights.size()) {
    total = fixedOrderSum(weights.data(), count);
  } else {
    for (size_t i = 0; i < count; ++i) {
      total += weights[order[i]];
    }
  }
  const double limit = static_cast<double>(topP_) * total;
  // The nucleus is mostly a few tokens: sort a growing front rather than the whole vocabulary.
  for (size_t wanted = std::min<size_t>(count, 256);; wanted = std::min(count, wanted * 8)) {
    sortBest(wanted, count);
    double sum = 0;
    for (size_t i = 0; i < wanted; ++i) {
      sum += weights[order[i]];
      if (sum >= limit) {
        return i + 1;
      }
    }
    if (wanted == count) {
      return count;
    }
  }
}

namespace {

/// log of the sum of exp(logit - best), with the best logit.
std::pair<double, double> logSumExp(std::span<const float> logits) {
  double best = kMinusInfinity;
  for (float logit : logits) {
    best = std::max<double>(best, cleaned(logit));
  }
  double sum = 0;
  for (float logit : logits) {
    sum += std::exp(static_cast<double>(cleaned(logit)) - best);
  }
  return {best, std::log(sum)};
}

} // namespace

float Sampler::logprobOf(std::span<const float> logits, int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= logits.size() || !(logits[id] > kMinusInfinity)) {
    return kMinusInfinity;
  }
  const auto [best, logSum] = logSumExp(logits);
  return static_cast<float>(cleaned(logits[id]) - best - logSum);
}

std::vector<TokenLogprob> Sampler::topLogprobs(std::span<const float> logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> clean(logits.size());
  std::transform(logits.begin(), logits.end(), clean.begin(), cleaned);
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
                    BestFirst{clean.data()});
  const auto [best, logSum] = logSumExp(logits);
  std::vector<TokenLogprob> top;
  for (size_t i = 0; i < count; ++i) {
    const bool possible = clean[ids[i]] > kMinusInfinity;
    top.push_back(
        {ids[i], possible ? static_cast<float>(clean[ids[i]] - best - logSum) : kMinusInfinity});
  }
  return top;
}

} // namespace sluice
