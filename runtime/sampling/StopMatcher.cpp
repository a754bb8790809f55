// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams text past a set of stop strings, holding back no more than could still become one of
// them.
#include "runtime/sampling/StopMatcher.h"

#include <algorithm>
#include <utility>

namespace sluice {

StopMatcher::StopMatcher(std::span<const std::string> stopStrings,
                         std::span<const int32_t> stopTokens)
    : stopTokens_(stopTokens.begin(), stopTokens.end()) {
  std::sort(stopTokens_.begin(), stopTokens_.end());
  for (size_t i = 0; i < stopStrings.size(); ++i) {
    const std::string &text = stopStrings[i];
    if (text.empty()) {
      continue;
    }
    Pattern pattern;
    pattern.text = text;
    pattern.index = static_cast<int32_t>(i);
    pattern.fallback.assign(text.size(), 0);
    uint32_t border = 0;
    for (size_t j = 1; j < text.size(); ++j) {
      while (border > 0 && text[j] != text[border]) {
        border = pattern.fallback[border - 1];
      }
      border += text[j] == text[border] ? 1 : 0;
      pattern.fallback[j] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

bool StopMatcher::isStopToken(int32_t id) const {
  return std::binary_search(stopTokens_.begin(), stopTokens_.end(), id);
}

void StopMatcher::advance(Pattern &pattern, char byte) {
  uint32_t matched = pattern.matched; // below the pattern's length: a full match ends the stream
  while (matched > 0 && pattern.text[matched] != byte) {
    matched = pattern.fallback[matched - 1];
  }
  pattern.matched = matched + (pattern.text[matched] == byte ? 1 : 0);
}

std::string StopMatcher::feed(std::string_view piece) {
  if (stopped()) {
    return {};
  }
  for (size_t i = 0; i < piece.size(); ++i) {
    const Pattern *found = nullptr;
    for (Pattern &pattern : patterns_) {
      advance(pattern, piece[i]);
      if (pattern.matched == pattern.text.size() &&
          (!found || pattern.text.size() > found->text.size())) {
        found = &pattern;
      }
    }
    if (found) {
      matched_ = found->index;
      held_.append(piece.substr(0, i + 1));
      held_.resize(held_.size() - found->text.size());
      return std::exchange(held_, {});
    }
  }
  size_t keep = 0;
  for (const Pattern &pattern : patterns_) {
    keep = std::max<size_t>(keep, pattern.matched);
  }
  held_.append(piece);
  std::string released = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return released;
}

std::string StopMatcher::finish() { return stopped() ? std::string() : std::exchange(held_, {}); }

} // namespace sluice
