// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds and runs the automaton.
#include "runtime/tokenizer/LiteralMatcher.h"

#include <algorithm>

namespace sluice {

LiteralMatcher::LiteralMatcher()
    : parents_{0}, bytes_{0}, fallback_{0}, values_{kNone}, lengths_{0} {
  rootChildren_.fill(kNone);
}

int32_t LiteralMatcher::child(int32_t state, unsigned char byte) const {
  if (state == 0) {
    return rootChildren_[byte];
  }
  const auto it = children_.find(uint64_t{static_cast<uint32_t>(state)} << 8 | byte);
  return it == children_.end() ? kNone : it->second;
}

void LiteralMatcher::add(std::string_view pattern, int32_t value) {
  int32_t state = 0;
  for (auto it = pattern.rbegin(); it != pattern.rend(); ++it) {
    const unsigned char byte = static_cast<unsigned char>(*it);
    int32_t next = child(state, byte);
    if (next == kNone) {
      next = static_cast<int32_t>(values_.size());
      parents_.push_back(state);
      bytes_.push_back(byte);
      fallback_.push_back(0);
      values_.push_back(kNone);
      lengths_.push_back(0);
      if (state == 0) {
        rootChildren_[byte] = next;
      } else {
        children_.emplace(uint64_t{static_cast<uint32_t>(state)} << 8 | byte, next);
      }
    }
    state = next;
  }
  if (values_[state] == kNone) {
    values_[state] = value;
    lengths_[state] = static_cast<uint32_t>(pattern.size());
  }
}

void LiteralMatcher::build() {
  // Breadth first: a state's fallback is shorter than the state, so it is complete before.
  std::vector<std::vector<int32_t>> levels(1);
  std::vector<uint32_t> depth(values_.size(), 0);
  for (size_t state = 1; state < values_.size(); ++state) { // parents come before their children
    depth[state] = depth[parents_[state]] + 1;
    if (levels.size() <= depth[state]) {
      levels.resize(depth[state] + 1);
    }
    levels[depth[state]].push_back(static_cast<int32_t>(state));
  }
  for (const auto &level : levels) {
    for (int32_t state : level) {
      fallback_[state] = depth[state] == 1 ? 0 : advance(fallback_[parents_[state]], bytes_[state]);
      if (values_[state] == kNone) {
        values_[state] = values_[fallback_[state]];
        lengths_[state] = lengths_[fallback_[state]];
      }
    }
  }
}

int32_t LiteralMatcher::advance(int32_t state, unsigned char byte) const {
  int32_t next = child(state, byte);
  while (next == kNone && state != 0) {
    state = fallback_[state];
    next = child(state, byte);
  }
  return next == kNone ? 0 : next;
}

std::vector<LiteralMatcher::Match> LiteralMatcher::findAll(std::string_view text) const {
  std::vector<Match> matches; // first: longest match at every place, from the end
  int32_t state = 0;
  for (size_t i = text.size(); i-- > 0;) {
    state = advance(state, static_cast<unsigned char>(text[i]));
    if (values_[state] != kNone) {
      matches.push_back({i, i + lengths_[state], values_[state]});
    }
  }
  std::reverse(matches.begin(), matches.end());
  size_t end = 0;
  std::erase_if(matches, [&](const Match &match) {
    if (match.start < end) {
      return true;
    }
    end = match.end;
    return false;
  });
  return matches;
}

} // namespace sluice
