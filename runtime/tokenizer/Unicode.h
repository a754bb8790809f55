// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// UTF-8 decoding and the few character classes that tokenizers and templates need. Leaf of the text
// rooms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct Utf8Char {
  char32_t code = 0xFFFD;
  uint8_t length = 1;     ///< bytes used; for an invalid sequence its maximal subpart (Unicode 15,
                          ///< section 3.9, table 3-8)
  bool valid = false;     ///< `code` was encoded here
  bool truncated = false; ///< the text ended inside a sequence that was valid so far
};

/// Decodes the character at text[offset]; offset < text.size().
Utf8Char decodeUtf8(std::string_view text, size_t offset);
/// Start of the character that ends before `end`; text[0, end) must be valid and not empty.
size_t previousUtf8(std::string_view text, size_t end);
/// Appends a scalar value (not a surrogate, at most 0x10FFFF).
void appendUtf8(std::string &out, char32_t code);
/// Offset of the first byte that is not valid UTF-8.
std::optional<size_t> firstInvalidUtf8(std::string_view text);
/// U+FFFD for each maximal invalid subpart, as Rust's from_utf8_lossy and Python's
/// errors="replace".
std::string lossyUtf8(std::string_view bytes);

/// Unicode property White_Space.
bool isWhiteSpace(char32_t code);
/// str.isspace() of Python: White_Space and U+001C ... U+001F.
bool isPythonSpace(char32_t code);
/// \w of Unicode TR18: Alphabetic, M, Nd, Pc, Join_Control.
bool isWordCharacter(char32_t code);
/// General category Nd, Nl or No.
bool isNumeric(char32_t code);

} // namespace sluice
