// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text to token ids and back: byte-level BPE as described by a tokenizer.json of the Hugging Face
// `tokenizers` package. Built once from a package section; the engine encodes prompts with it and
// turns generated ids into bytes.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct EncodeOptions {
  bool addSpecial = true; ///< adds what the post-processor adds (begin and end of text)
  bool parseSpecial =
      true; ///< special tokens written out in the text become their ids; false: plain text, as
            ///< users' input must be (other added tokens are recognised in both cases)
};

/// Ids equal those of `tokenizers` 0.23 (encode; with parseSpecial = false: encode_special_tokens =
/// True). Understood: model BPE (without dropout, byte_fallback, prefix or suffix); normalizer
/// null, NFC, NFD, NFKC, NFKD, Sequence; pre_tokenizer ByteLevel, alone or at the end of a Sequence
/// of Split and Digits; post_processor null, ByteLevel, TemplateProcessing, Sequence; decoder
/// ByteLevel. All else is Unsupported and names the JSON path. `truncation` and `padding` are
/// settings of calls, not of the vocabulary, and are not read. Immutable after fromJson: all
/// functions may run in several threads at once.
class Tokenizer {
public:
  /// Longest text encode() takes, in bytes.
  static constexpr size_t kMaxTextBytes = size_t{8} << 20;

  /// Parses the text of tokenizer.json (at most 256 MiB). InvalidArgument or Unsupported: one line
  /// with the JSON path.
  static Result<Tokenizer> fromJson(std::string_view json);
  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// InvalidArgument: text is not UTF-8 (with the offset), too long, has a byte without token, or
  /// makes a split regex exceed its limits.
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      const EncodeOptions &options = {}) const;
  /// Ids outside the vocabulary give nothing; bytes that are not UTF-8 give U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skipSpecial) const;
  /// The bytes one token stands for (an added token: its content); empty for an unknown id. Valid
  /// as long as the tokenizer.
  std::string_view tokenBytes(int32_t id) const;
  /// Highest id + 1. A model's logits may be longer (padding of the vocabulary).
  int32_t vocabSize() const;
  /// True for an added token marked special.
  bool isSpecial(int32_t id) const;
  /// The id of an added token by its content, or of a vocabulary entry by its bytes.
  std::optional<int32_t> tokenId(std::string_view content) const;
  /// Ids of all special tokens, ascending.
  std::vector<int32_t> specialIds() const;

private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

} // namespace sluice
