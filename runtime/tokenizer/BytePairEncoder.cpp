// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads vocabulary and merges; merges with a heap over a linked list of symbols, so that a piece of
// a million bytes costs n log n.
#include "runtime/tokenizer/BytePairEncoder.h"

#include <algorithm>
#include <cstdio>

namespace sluice {

namespace {

constexpr size_t kMaxTokenBytes = size_t{1} << 16;

/// True when `a` must merge after `b` (std heaps keep the greatest in front).
struct MergesLater {
  bool operator()(const BytePairEncoder::Scratch::Merge &a,
                  const BytePairEncoder::Scratch::Merge &b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  }
};

uint64_t pairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

} // namespace

Result<BytePairEncoder> BytePairEncoder::fromJson(const JsonView &view) {
  if (!view.isObject()) {
    return view.wrong("expected an object that describes the BPE model");
  }
  BytePairEncoder encoder;
  SLUICE_RETURN_IF_ERROR(encoder.readSettings(view));
  SLUICE_RETURN_IF_ERROR(encoder.readVocab(view.member("vocab")));
  SLUICE_RETURN_IF_ERROR(encoder.readMerges(view.member("merges")));
  const JsonView unknown = view.member("unk_token");
  if (!unknown.isNull()) {
    auto spelling = unknown.string();
    if (!spelling) {
      return spelling.error();
    }
    const auto id = encoder.idOfSpelling(*spelling);
    if (!id) {
      return unknown.wrong("\"" + *spelling + "\" is not in model.vocab");
    }
    encoder.unknownId_ = *id;
  }
  return encoder;
}

Status BytePairEncoder::readSettings(const JsonView &view) {
  if (const JsonView type = view.member("type"); !type.isNull()) { // old files leave it out
    auto name = type.string();
    if (!name) {
      return name.error();
    }
    if (*name != "BPE") {
      return type.notSupported("model " + *name +
                               " is not supported, expected BPE over bytes; give token ids "
                               "instead of text (--ids)");
    }
  }
  const JsonView dropout = view.member("dropout");
  const bool noDropout =
      dropout.isNull() || (dropout.node().is_number() && dropout.node().get<double>() == 0);
  if (!noDropout) {
    return dropout.notSupported("dropout makes ids random; set it to null");
  }
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonView affix = view.member(key);
    if (affix.isNull()) {
      continue;
    }
    auto text = affix.string();
    if (!text) {
      return text.error();
    }
    if (!text->empty()) {
      return affix.notSupported("subword prefixes and suffixes are not supported, expected null");
    }
  }
  auto fallback = view.member("byte_fallback").boolean(false);
  auto fuse = view.member("fuse_unk").boolean(false);
  auto ignore = view.member("ignore_merges").boolean(false);
  for (const auto *flag : {&fallback, &fuse, &ignore}) {
    if (!*flag) {
      return flag->error();
    }
  }
  if (*fallback) {
    return view.member("byte_fallback")
        .notSupported("BPE with byte_fallback (SentencePiece style) is not supported, expected "
                      "byte-level BPE; give token ids instead of text (--ids)");
  }
  fuseUnknown_ = *fuse;
  ignoreMerges_ = *ignore;
  return Status::ok();
}

Status BytePairEncoder::readVocab(const JsonView &vocab) {
  if (!vocab.isObject() || vocab.node().empty()) {
    return vocab.wrong("expected an object of tokens and ids that is not empty");
  }
  size_ = vocab.node().size();
  spellings_.reserve(size_);
  byBytes_.reserve(size_);
  std::vector<bool> taken;
  for (const auto &[spelling, value] : vocab.node().items()) {
    const JsonView entry(&value, vocab.path() + "[\"" + spelling.substr(0, 64) + "\"]");
    auto id = entry.tokenId();
    if (!id) {
      return id.error();
    }
    if (spelling.size() > kMaxTokenBytes) {
      return entry.wrong("the token is longer than " + std::to_string(kMaxTokenBytes) + " bytes");
    }
    const size_t index = static_cast<size_t>(*id);
    if (index >= tokens_.size()) {
      tokens_.resize(index + 1);
      taken.resize(index + 1);
    }
    if (taken[index]) {
      return entry.wrong("id " + std::to_string(*id) + " belongs to another token too");
    }
    taken[index] = true;
    spellings_.emplace(spelling, *id);
    auto bytes = alphabet_.toBytes(spelling);
    if (bytes) {
      byBytes_.emplace(*bytes, *id);
    }
    // A spelling outside the alphabet (a special token) stands for itself and is never the result
    // of a merge.
    tokens_[index] = bytes ? std::move(*bytes) : spelling;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(static_cast<unsigned char>(byte));
    byteIds_[byte] = idOfBytes(std::string_view(&one, 1)).value_or(-1);
  }
  return Status::ok();
}

Status BytePairEncoder::readMerges(const JsonView &merges) {
  if (!merges.isArray()) {
    return merges.wrong("expected an array of pairs");
  }
  rules_.reserve(merges.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < merges.size(); ++i) {
    const nlohmann::json &node = merges.node()[i];
    if (node.is_string() && node.get_ref<const std::string &>().rfind("#version", 0) == 0) {
      continue; // the heading of a merges.txt, which old files carry along
    }
    SLUICE_RETURN_IF_ERROR(addMerge(merges.element(i), rank++));
  }
  return Status::ok();
}

/// One rule: both halves and the whole must be in the vocabulary.
Status BytePairEncoder::addMerge(const JsonView &view, uint32_t rank) {
  std::string left;
  std::string right;
  if (view.isString()) {
    const std::string &text = view.node().get_ref<const std::string &>();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return view.wrong("expected two tokens with one space between, found \"" + text + "\"");
    }
    left = text.substr(0, space);
    right = text.substr(space + 1);
  } else if (view.size() == 2 && view.element(0).isString() && view.element(1).isString()) {
    left = view.node()[0].get_ref<const std::string &>();
    right = view.node()[1].get_ref<const std::string &>();
  } else {
    return view.wrong("expected \"a b\" or [\"a\", \"b\"]");
  }
  std::array<int32_t, 3> ids{};
  const std::array<std::string, 3> spellings = {left, right, left + right};
  for (size_t i = 0; i < 3; ++i) {
    const auto id = idOfSpelling(spellings[i]);
    if (!id) {
      return view.wrong("token \"" + spellings[i] + "\" is not in model.vocab");
    }
    ids[i] = *id;
  }
  rules_.insert_or_assign(pairKey(ids[0], ids[1]), Rule{rank, ids[2]});
  return Status::ok();
}

std::optional<int32_t> BytePairEncoder::idOfSpelling(const std::string &spelling) const {
  const auto it = spellings_.find(spelling);
  return it == spellings_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<int32_t> BytePairEncoder::idOfBytes(std::string_view bytes) const {
  const auto it = byBytes_.find(bytes);
  return it == byBytes_.end() ? std::nullopt : std::optional(it->second);
}

const BytePairEncoder::Rule *BytePairEncoder::ruleOf(int32_t left, int32_t right) const {
  const auto it = rules_.find(pairKey(left, right));
  return it == rules_.end() ? nullptr : &it->second;
}

/// One symbol per byte; a byte without token is the unknown token, runs of them one symbol with
/// fuse_unk.
Status BytePairEncoder::splitIntoBytes(std::string_view piece,
                                       std::vector<Scratch::Symbol> &symbols) const {
  symbols.clear();
  bool lastUnknown = false;
  for (const char c : piece) {
    int32_t id = byteIds_[static_cast<unsigned char>(c)];
    const bool isUnknown = id < 0;
    if (isUnknown && unknownId_ < 0) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "0x%02X", static_cast<unsigned char>(c));
      return invalidArgument(std::string("the text has byte ") + hex +
                             ", which the vocabulary has no token for; expected all 256 bytes in "
                             "model.vocab of tokenizer.json, or an unk_token");
    }
    if (isUnknown && lastUnknown && fuseUnknown_) {
      continue;
    }
    lastUnknown = isUnknown;
    id = isUnknown ? unknownId_ : id;
    const int32_t index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1, true});
  }
  symbols.back().next = -1;
  return Status::ok();
}

/// Merges until no rule applies. Entries of the heap may be out of date; they are checked when they
/// come up.
void BytePairEncoder::mergeAll(Scratch &scratch) const {
  auto &symbols = scratch.symbols;
  auto &queue = scratch.queue;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const Rule *rule = ruleOf(symbols[i].id, symbols[i + 1].id)) {
      queue.push_back({rule->rank, static_cast<int32_t>(i), rule->newId});
    }
  }
  std::make_heap(queue.begin(), queue.end(), MergesLater());
  auto push = [&](int32_t position, int32_t left, int32_t right) {
    if (const Rule *rule = ruleOf(left, right)) {
      queue.push_back({rule->rank, position, rule->newId});
      std::push_heap(queue.begin(), queue.end(), MergesLater());
    }
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), MergesLater());
    const Scratch::Merge top = queue.back();
    queue.pop_back();
    Scratch::Symbol &left = symbols[top.position];
    if (!left.alive || left.next < 0) {
      continue;
    }
    Scratch::Symbol &right = symbols[left.next];
    // One of the two may have changed since the entry was made. The package compares the new id,
    // not the rank.
    const Rule *rule = ruleOf(left.id, right.id);
    if (!rule || rule->newId != top.newId) {
      continue;
    }
    left.id = top.newId;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) {
      symbols[left.next].previous = top.position;
    }
    if (left.previous >= 0) {
      push(left.previous, symbols[left.previous].id, left.id);
    }
    if (left.next >= 0) {
      push(top.position, left.id, symbols[left.next].id);
    }
  }
}

Status BytePairEncoder::encode(std::string_view piece, Scratch &scratch,
                               std::vector<int32_t> &out) const {
  if (ignoreMerges_) {
    if (const auto id = idOfBytes(piece)) {
      out.push_back(*id);
      return Status::ok();
    }
  }
  SLUICE_RETURN_IF_ERROR(splitIntoBytes(piece, scratch.symbols));
  mergeAll(scratch);
  for (int32_t i = 0; i >= 0; i = scratch.symbols[i].next) {
    out.push_back(scratch.symbols[i].id);
  }
  return Status::ok();
}

} // namespace sluice
