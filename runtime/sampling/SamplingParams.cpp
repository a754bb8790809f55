// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a request's sampling parameters before the request is admitted.
#include "runtime/sampling/SamplingParams.h"

#include <cstdio>

namespace sluice {

namespace {

constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopBytes = 4096;

struct Range {
  double low;
  double high;
  bool lowOpen; ///< `low` itself is not allowed
};

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

Status checkRange(const char *field, double value, Range range) {
  const bool aboveLow = range.lowOpen ? value > range.low : value >= range.low;
  if (aboveLow && value <= range.high) { // false for NaN
    return Status::ok();
  }
  return invalidArgument(std::string(field) + " is " + number(value) + ", expected a number in " +
                         (range.lowOpen ? "(" : "[") + number(range.low) + ", " +
                         number(range.high) + "]");
}

Status checkToken(const char *field, int32_t id, int32_t vocabSize) {
  if (id >= 0 && id < vocabSize) {
    return Status::ok();
  }
  return invalidArgument(std::string(field) + " holds token id " + std::to_string(id) +
                         ", expected an id in [0, " + std::to_string(vocabSize - 1) + "]");
}

} // namespace

Status SamplingParams::validate(int32_t vocabSize) const {
  SLUICE_RETURN_IF_ERROR(checkRange("temperature", temperature, {0, 100, false}));
  SLUICE_RETURN_IF_ERROR(checkRange("top_p", topP, {0, 1, true}));
  SLUICE_RETURN_IF_ERROR(checkRange("min_p", minP, {0, 1, false}));
  SLUICE_RETURN_IF_ERROR(checkRange("repetition_penalty", repetitionPenalty, {0, 100, true}));
  SLUICE_RETURN_IF_ERROR(checkRange("presence_penalty", presencePenalty, {-2, 2, false}));
  SLUICE_RETURN_IF_ERROR(checkRange("frequency_penalty", frequencyPenalty, {-2, 2, false}));
  if (topK < -1) {
    return invalidArgument("top_k is " + std::to_string(topK) +
                           ", expected a positive number, or 0 or -1 to switch it off");
  }
  for (const auto &[id, bias] : logitBias) {
    SLUICE_RETURN_IF_ERROR(checkToken("logit_bias", id, vocabSize));
    SLUICE_RETURN_IF_ERROR(checkRange("logit_bias", bias, {-100, 100, false}));
  }
  for (int32_t id : stopTokens) {
    SLUICE_RETURN_IF_ERROR(checkToken("stop_token_ids", id, vocabSize));
  }
  if (stopStrings.size() > kMaxStopStrings) {
    return invalidArgument("stop holds " + std::to_string(stopStrings.size()) +
                           " strings, expected at most " + std::to_string(kMaxStopStrings));
  }
  for (const std::string &text : stopStrings) {
    if (text.empty() || text.size() > kMaxStopBytes) {
      return invalidArgument("stop holds a string of " + std::to_string(text.size()) +
                             " bytes, expected 1 to " + std::to_string(kMaxStopBytes));
    }
  }
  return Status::ok();
}

} // namespace sluice
