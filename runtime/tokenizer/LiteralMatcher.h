// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds many literal strings in a text in one pass. AddedTokens searches prompts with it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Aho-Corasick (CACM 18(6), 1975) over reversed patterns, run from the end of the text: at each
/// place the state tells the longest pattern that begins there, so leftmost-longest matches need no
/// backtracking and the time is linear.
class LiteralMatcher {
public:
  struct Match {
    size_t start;
    size_t end;
    int32_t value;
  };

  LiteralMatcher();
  /// `pattern` is not empty; the first of equal patterns counts. Call build() after the last one.
  void add(std::string_view pattern, int32_t value);
  void build();
  bool isEmpty() const { return values_.size() == 1; }
  /// Matches that don't overlap, from left to right: the leftmost, and of those that begin there
  /// the longest.
  std::vector<Match> findAll(std::string_view text) const;

private:
  static constexpr int32_t kNone = -1;
  int32_t child(int32_t state, unsigned char byte) const;
  int32_t advance(int32_t state, unsigned char byte) const;

  // State 0 is the root.
  std::unordered_map<uint64_t, int32_t> children_; // key: state << 8 | byte
  std::array<int32_t, 256> rootChildren_;
  std::vector<int32_t> parents_;     // [states] i32
  std::vector<unsigned char> bytes_; // [states] u8: the byte that leads here
  std::vector<int32_t> fallback_;    // [states] i32: longest proper suffix that is a state
  std::vector<int32_t>
      values_; // [states] i32: value of the longest pattern that ends here, or kNone
  std::vector<uint32_t> lengths_; // [states] u32: its length in bytes
};

} // namespace sluice
