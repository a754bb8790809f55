// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Unicode normal forms of tokenizer.json's "normalizer". Runs before added tokens marked
// "normalized" are searched.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/JsonView.h"

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Understands null, NFC, NFD, NFKC, NFKD and Sequence of these.
class Normalizer {
public:
  static Result<Normalizer> fromJson(const JsonView &view);
  bool isIdentity() const { return forms_.empty(); }
  /// `text` is valid UTF-8. Capacity when there is no memory for the result.
  Result<std::string> apply(std::string_view text) const;

private:
  enum class Form { Nfc, Nfd, Nfkc, Nfkd };
  Status add(const JsonView &view, int depth);
  std::vector<Form> forms_;
};

} // namespace sluice
