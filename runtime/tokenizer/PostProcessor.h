// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ids that stand before and after every encoded text ("post_processor" of tokenizer.json). Last
// step of Tokenizer::encode.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/JsonView.h"

#include <cstdint>
#include <vector>

namespace sluice {

/// Understands null, ByteLevel (which changes offsets only), TemplateProcessing and Sequence. Of a
/// template the form for one text is read ("single").
class PostProcessor {
public:
  static Result<PostProcessor> fromJson(const JsonView &view);
  const std::vector<int32_t> &before() const { return before_; }
  const std::vector<int32_t> &after() const { return after_; }

private:
  Status add(const JsonView &view, int depth);
  Status addTemplate(const JsonView &view);
  std::vector<int32_t> before_;
  std::vector<int32_t> after_;
};

} // namespace sluice
