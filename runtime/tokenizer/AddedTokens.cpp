// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads added tokens, checks their ids, and finds them in text.
#include "runtime/tokenizer/AddedTokens.h"

#include "runtime/tokenizer/Unicode.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr size_t kMaxContentBytes = 4096;

bool endsWithWord(std::string_view text) {
  return !text.empty() && isWordCharacter(decodeUtf8(text, previousUtf8(text, text.size())).code);
}

bool startsWithWord(std::string_view text) {
  return !text.empty() && isWordCharacter(decodeUtf8(text, 0).code);
}

/// Start of the white space that ends `text`.
size_t trailingSpaceStart(std::string_view text) {
  size_t start = text.size();
  while (start > 0) {
    const size_t previous = previousUtf8(text, start);
    if (!isWhiteSpace(decodeUtf8(text, previous).code)) {
      break;
    }
    start = previous;
  }
  return start;
}

/// Length of the white space that begins `text`.
size_t leadingSpaceLength(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const Utf8Char c = decodeUtf8(text, length);
    if (!isWhiteSpace(c.code)) {
      break;
    }
    length += c.length;
  }
  return length;
}

} // namespace

Result<AddedTokens> AddedTokens::fromJson(const JsonView &view, const BytePairEncoder &model,
                                          const Normalizer &normalizer) {
  AddedTokens added;
  if (!view.isNull() && !view.isArray()) {
    return view.wrong("expected an array");
  }
  for (size_t i = 0; i < view.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(added.addToken(view.element(i), model));
  }
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    const AddedToken &token = added.tokens_[i];
    if (!token.normalized) {
      added.raw_.add(token.content, static_cast<int32_t>(i));
      continue;
    }
    auto pattern = normalizer.apply(token.content);
    if (!pattern) {
      return pattern.error();
    }
    if (!pattern->empty()) {
      added.normalized_.add(*pattern, static_cast<int32_t>(i));
    }
  }
  added.raw_.build();
  added.normalized_.build();
  return added;
}

Status AddedTokens::addToken(const JsonView &view, const BytePairEncoder &model) {
  AddedToken token;
  auto content = view.member("content").string();
  auto id = view.member("id").tokenId();
  if (!content) {
    return content.error();
  }
  if (!id) {
    return id.error();
  }
  token.content = *content;
  token.id = *id;
  struct Flag {
    const char *key;
    bool *value;
  };
  for (const Flag &flag : {Flag{"special", &token.special}, Flag{"single_word", &token.singleWord},
                           Flag{"lstrip", &token.stripLeft}, Flag{"rstrip", &token.stripRight},
                           Flag{"normalized", &token.normalized}}) {
    auto value = view.member(flag.key).boolean(false);
    if (!value) {
      return value.error();
    }
    *flag.value = *value;
  }
  if (token.content.empty() || token.content.size() > kMaxContentBytes) {
    return view.member("content").wrong("expected 1 to " + std::to_string(kMaxContentBytes) +
                                        " bytes, found " + std::to_string(token.content.size()));
  }
  // The id that the package gives on loading, whatever the file says.
  int32_t highest = -1;
  for (const AddedToken &other : tokens_) {
    highest = std::max(highest, other.id);
    if (other.content == token.content) {
      return view.wrong("\"" + token.content + "\" is added twice; remove one");
    }
  }
  const auto inVocab = model.idOfSpelling(token.content);
  const int32_t expected =
      inVocab.value_or(std::max(static_cast<int32_t>(model.size()), highest + 1));
  if (token.id != expected) {
    return view.member("id").wrong(
        "added token \"" + token.content + "\" has id " + std::to_string(token.id) + ", expected " +
        std::to_string(expected) +
        (inVocab ? " as in model.vocab" : ": ids of added tokens count on from the vocabulary") +
        "; load and save the file with the tokenizers package");
  }
  tokens_.push_back(std::move(token));
  return Status::ok();
}

std::vector<AddedTokens::Segment> AddedTokens::split(std::string_view text, Stage stage,
                                                     bool parseSpecial) const {
  std::vector<Segment> segments;
  const LiteralMatcher &matcher = stage == Stage::Raw ? raw_ : normalized_;
  size_t done = 0;
  if (!matcher.isEmpty()) {
    for (const LiteralMatcher::Match &match : matcher.findAll(text)) {
      const AddedToken &token = tokens_[static_cast<size_t>(match.value)];
      if (token.special && !parseSpecial) {
        continue;
      }
      size_t start = match.start;
      size_t end = match.end;
      if (token.singleWord &&
          (endsWithWord(text.substr(0, start)) || startsWithWord(text.substr(end)))) {
        continue;
      }
      if (token.stripLeft) {
        // Space that the token before has taken stays with it.
        start = std::max(trailingSpaceStart(text.substr(0, start)), done);
      }
      if (token.stripRight) {
        end += leadingSpaceLength(text.substr(end));
      }
      if (done < start) {
        segments.push_back({-1, text.substr(done, start - done)});
      }
      segments.push_back({token.id, text.substr(start, end - start)});
      done = end;
    }
  }
  if (done < text.size()) {
    segments.push_back({-1, text.substr(done)});
  }
  return segments;
}

} // namespace sluice
