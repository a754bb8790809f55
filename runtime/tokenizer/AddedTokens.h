// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The "added_tokens" of tokenizer.json: strings that become one id before the text is cut and
// merged. First step of Tokenizer::encode (raw tokens), and again after normalization (normalized
// tokens).
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/BytePairEncoder.h"
#include "runtime/tokenizer/JsonView.h"
#include "runtime/tokenizer/LiteralMatcher.h"
#include "runtime/tokenizer/Normalizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool special = false;
  bool singleWord = false; ///< only where no word character touches it
  bool stripLeft = false;  ///< takes the white space before it along
  bool stripRight = false; ///< takes the white space after it along
  bool normalized = false; ///< searched in normalized text
};

class AddedTokens {
public:
  enum class Stage { Raw, Normalized };
  /// A stretch of text, or a token when id >= 0.
  struct Segment {
    int32_t id;
    std::string_view text;
  };

  /// `view` is the member "added_tokens". Ids must be those the `tokenizers` package would give:
  /// the vocabulary's where the content is in it, else counting on from its end.
  static Result<AddedTokens> fromJson(const JsonView &view, const BytePairEncoder &model,
                                      const Normalizer &normalizer);
  /// Cuts `text` (UTF-8) at the tokens of one stage, in the manner of
  /// tokenizers/src/tokenizer/added_vocabulary.rs (find_matches): leftmost-longest, then the
  /// token's flags. `parseSpecial` false: special tokens stay text.
  std::vector<Segment> split(std::string_view text, Stage stage, bool parseSpecial) const;
  const std::vector<AddedToken> &tokens() const { return tokens_; }

private:
  Status addToken(const JsonView &view, const BytePairEncoder &model);

  std::vector<AddedToken> tokens_;
  LiteralMatcher raw_;        // value: index into tokens_
  LiteralMatcher normalized_; // value: index into tokens_
};

} // namespace sluice
