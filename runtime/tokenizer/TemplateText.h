// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values as text, as Python writes them: str(), repr(), json.dumps(), and changes of letter case.
// Used by the evaluator's output, filters and methods.
#pragma once

#include "runtime/tokenizer/TemplateValue.h"

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// str(value); Undefined is empty. Fails for what has no useful text (generators, macros,
/// functions).
std::string textOf(TemplateRuntime &runtime, const Value &value);
/// The arguments of json.dumps.
struct JsonStyle {
  std::optional<int> indent; ///< absent: one line
  bool ascii = false;        ///< other characters as \uHHHH
  bool sortKeys = false;
  std::string itemSeparator = ", ";
  std::string keySeparator = ": ";
};
/// json.dumps(value) in that style.
std::string jsonOf(TemplateRuntime &runtime, const Value &value, const JsonStyle &style);
/// repr() of a float: the shortest digits that read back the same.
std::string floatText(double value);

enum class LetterCase { Upper, Lower, Title, Capitalized };
/// str.upper(), lower(), title(), capitalize(). Fails for the few characters whose mapping has
/// several characters.
std::string changeCase(TemplateRuntime &runtime, std::string_view text, LetterCase to);
/// str.strip() with the sides wanted; `characters` absent: white space.
std::string_view stripped(std::string_view text, std::optional<std::string_view> characters,
                          bool left, bool right);

} // namespace sluice
