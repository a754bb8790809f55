// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cuts the text of a chat template into tokens: plain text, and the words and signs inside {{ }}
// and {% %}. First step of ChatTemplate::parse.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

enum class TemplateTokenKind : uint8_t {
  Data,          ///< text between tags, white space control already applied
  VariableBegin, ///< {{
  VariableEnd,   ///< }}
  BlockBegin,    ///< {%
  BlockEnd,      ///< %}
  Name,
  Text, ///< a string literal, escapes resolved
  Integer,
  Float,
  Operator, ///< text holds its spelling
  End,
};

struct TemplateToken {
  TemplateTokenKind kind;
  uint32_t line; ///< from 1
  std::string text;
  bool isOperator(std::string_view spelling) const {
    return kind == TemplateTokenKind::Operator && text == spelling;
  }
  bool isName(std::string_view name) const {
    return kind == TemplateTokenKind::Name && text == name;
  }
};

/// White space as jinja2's lexer treats it with trim_blocks and lstrip_blocks: the line break
/// behind a block tag or comment goes, blanks before one at the start of a line go, "-" takes all
/// white space on its side, "+" keeps it; the last line break of the template goes. `source` is
/// valid UTF-8. The last token is End.
Result<std::vector<TemplateToken>> lexTemplate(std::string_view source);

} // namespace sluice
