// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a request asks of the sampler. Filled by the command line, the server or the C API, checked
// once by validate(), then read by Sampler and StopMatcher.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct SamplingParams {
  float temperature = 1.0F;       ///< [0, 100]; 0 = greedy
  int32_t topK = 0;               ///< 0 or -1 = off; else the k best tokens stay
  float topP = 1.0F;              ///< (0, 1]; 1 = off
  float minP = 0.0F;              ///< [0, 1]; 0 = off
  float repetitionPenalty = 1.0F; ///< (0, 100]; 1 = off; over prompt and output tokens
  float presencePenalty = 0.0F;   ///< [-2, 2]; 0 = off; over output tokens
  float frequencyPenalty = 0.0F;  ///< [-2, 2]; 0 = off; over output tokens
  uint64_t seed = 0;
  /// (token id, number in [-100, 100] added to its logit before all else).
  std::vector<std::pair<int32_t, float>> logitBias;
  /// Texts that end the generation and are not part of the answer; at most 64, each 1 ... 4096
  /// bytes of UTF-8.
  std::vector<std::string> stopStrings;
  /// Tokens that end the generation and are not part of the answer (end of turn, end of text).
  std::vector<int32_t> stopTokens;

  /// InvalidArgument that names the field, the value found and the range expected; NaN is refused
  /// everywhere. `vocabSize` bounds the ids of logitBias and stopTokens.
  Status validate(int32_t vocabSize) const;
  /// True when a token's logit depends on the tokens before it (then Sampler keeps counts, 5 bytes
  /// per vocabulary entry).
  bool hasPenalties() const {
    return repetitionPenalty != 1.0F || presencePenalty != 0.0F || frequencyPenalty != 0.0F;
  }
};

} // namespace sluice
