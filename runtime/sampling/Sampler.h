// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses the next token of one request from its logits. The engine calls sample() once per step
// and request, then accept() with the token that was taken; the token goes on to Utf8Stream and
// StopMatcher.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/sampling/SamplingParams.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Scratch of one sampling thread, shared by all its samplers: 12 bytes per vocabulary entry.
class SamplingWorkspace {
public:
  explicit SamplingWorkspace(int32_t vocabSize);
  int32_t vocabSize() const { return static_cast<int32_t>(scores_.size()); }

private:
  friend class Sampler;
  std::vector<float> scores_;  // [vocab] f32: logits after bias, penalties and the removal of NaN
  std::vector<float> weights_; // [vocab] f32: exp((score - best) / temperature), in [0, 1]
  std::vector<int32_t> order_; // [vocab] i32: candidate ids
};

struct TokenLogprob {
  int32_t id;
  float logprob; ///< natural logarithm of softmax(raw logits)[id]; -inf for a NaN or -inf logit
};

/// One per request. Steps, in the order of vLLM (vllm/v1/sample/sampler.py, Sampler.forward):
///  1. logit bias: added;
///  2. repetition penalty r over prompt and output (CTRL, arXiv:1909.05858, section 4.1): x > 0 ? x
///  / r : x * r;
///  3. frequency and presence penalty over the output (OpenAI API reference): x -= count *
///  frequency + (count > 0) * presence;
///  4. temperature 0: the highest score, the lowest id among equals. Otherwise p = softmax(x /
///  temperature), where a token whose
///     weight exp((x - best) / temperature) underflows (more than 87 below the best) has
///     probability 0;
///  5. min-p (arXiv:2407.01082): tokens with p < minP * max(p) leave;
///  6. top-k: the k best stay, the lower id among equals (exactly k, unlike vLLM, which keeps all
///  that tie);
///  7. top-p (arXiv:1904.09751): the shortest list of best tokens whose share of what is left
///  reaches topP; at least one;
///  8. inverse CDF at uniformAt(seed, number of tokens accepted so far).
/// The choice is a pure function of (params, tokens so far, logits): own exp, fixed order of sums,
/// no libm. NaN logits count as -inf; +inf counts as the largest float. When no logit is above
/// -inf, kNoToken is returned and the caller must end the request with an error.
class Sampler {
public:
  static constexpr int32_t kNoToken = -1;

  /// `params` must have passed validate(vocabSize). `workspace` must outlive the sampler; it fixes
  /// the vocabulary size.
  Sampler(const SamplingParams &params, SamplingWorkspace &workspace);

  /// Counts prompt tokens for the repetition penalty. Ids outside the vocabulary are ignored.
  void acceptPrompt(std::span<const int32_t> ids);
  /// Counts one generated token and moves on to the next random number.
  void accept(int32_t id);
  /// logits: [vocab] f32, not changed. Allocates nothing. kNoToken also when the length is not
  /// vocab.
  [[nodiscard]] int32_t sample(std::span<const float> logits);
  /// Tokens accepted so far.
  uint64_t numAccepted() const { return numAccepted_; }

  /// Log probability of `id` under the raw logits [vocab] f32. For reports only: not the same bits
  /// on every machine.
  [[nodiscard]] static float logprobOf(std::span<const float> logits, int32_t id);
  /// The `count` best tokens of raw logits [vocab] f32, best first, lower ids first among equals.
  [[nodiscard]] static std::vector<TokenLogprob> topLogprobs(std::span<const float> logits,
                                                             size_t count);

private:
  void computeScores(std::span<const float> logits);
  int32_t bestScore() const;
  size_t collectCandidates(float best);
  size_t keepBest(size_t count);
  size_t keepTopP(size_t count);
  void sortBest(size_t wanted, size_t count);

  float temperature_;
  int32_t topK_;
  float topP_;
  float minP_;
  float repetitionPenalty_;
  float presencePenalty_;
  float frequencyPenalty_;
  uint64_t seed_;
  std::vector<std::pair<int32_t, float>> logitBias_;
  SamplingWorkspace &workspace_;
  std::vector<uint32_t> outputCounts_; // [vocab] u32, or empty without penalties
  std::vector<uint8_t>
      seen_; // [vocab] u8: 1 when the token is in prompt or output; empty without penalties
  uint64_t numAccepted_ = 0;
};

} // namespace sluice
