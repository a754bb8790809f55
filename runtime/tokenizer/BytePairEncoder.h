// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The BPE model of tokenizer.json: vocabulary and merge rules over bytes. Encodes the pieces that
// PreTokenizer cuts.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/ByteAlphabet.h"
#include "runtime/tokenizer/JsonView.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

class BytePairEncoder {
public:
  /// Memory that one thread reuses between pieces.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t previous; // -1: none
      int32_t next;     // -1: none
      bool alive;
    };
    struct Merge {
      uint32_t rank;
      int32_t position;
      int32_t newId;
    };
    std::vector<Symbol> symbols;
    std::vector<Merge> queue; // a heap: lowest rank first, then the leftmost
  };

  /// `view` is the member "model".
  static Result<BytePairEncoder> fromJson(const JsonView &view);

  /// Appends the ids of one piece (bytes, not empty, below 2^31) to `out`: the pair with the lowest
  /// rank merges first, the leftmost among equals (Sennrich et al., arXiv:1508.07909), in O(n log
  /// n). InvalidArgument for a byte without token.
  Status encode(std::string_view piece, Scratch &scratch, std::vector<int32_t> &out) const;
  /// Number of vocabulary entries.
  size_t size() const { return size_; }
  /// Gives away the bytes of each id [highest id + 1] (empty where the vocabulary has a gap), which
  /// encode() doesn't need.
  std::vector<std::string> takeTokens() { return std::exchange(tokens_, {}); }
  /// The id of a vocabulary string as the file spells it. Only until dropSpellings().
  std::optional<int32_t> idOfSpelling(const std::string &spelling) const;
  /// Forgets the spellings, which only building needs.
  void dropSpellings() { spellings_ = {}; }
  std::optional<int32_t> idOfBytes(std::string_view bytes) const;

private:
  struct Rule {
    uint32_t rank;
    int32_t newId;
  };
  struct BytesHash {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
  };
  Status readSettings(const JsonView &view);
  Status readVocab(const JsonView &vocab);
  Status readMerges(const JsonView &merges);
  Status addMerge(const JsonView &view, uint32_t rank);
  const Rule *ruleOf(int32_t left, int32_t right) const;
  Status splitIntoBytes(std::string_view piece, std::vector<Scratch::Symbol> &symbols) const;
  void mergeAll(Scratch &scratch) const;

  ByteAlphabet alphabet_;
  std::unordered_map<std::string, int32_t> spellings_;
  std::unordered_map<std::string, int32_t, BytesHash, std::equal_to<>> byBytes_;
  std::vector<std::string> tokens_;
  std::array<int32_t, 256> byteIds_{};       // -1: the byte has no token
  std::unordered_map<uint64_t, Rule> rules_; // key: left id << 32 | right id
  size_t size_ = 0;
  int32_t unknownId_ = -1;
  bool fuseUnknown_ = false;
  bool ignoreMerges_ = false;
};

} // namespace sluice
