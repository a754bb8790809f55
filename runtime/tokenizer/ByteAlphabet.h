// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The printable stand-ins that tokenizer.json uses for bytes ("Ġ" for a space). Vocabulary and
// merges are turned into bytes when they are read; nothing after that sees stand-ins.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The table of OpenAI's encoder.py (bytes_to_unicode): printable Latin-1 bytes stand for
/// themselves, the other 68 bytes, in order, for U+0100, U+0101, ...
class ByteAlphabet {
public:
  ByteAlphabet();
  /// The stand-in of a byte, UTF-8.
  std::string standIn(unsigned char byte) const;
  /// The bytes a vocabulary string stands for; nothing when a character is no stand-in.
  std::optional<std::string> toBytes(std::string_view text) const;

private:
  std::array<char32_t, 256> codes_;
  std::array<int16_t, 324> bytes_; // by code point; -1: no stand-in
};

} // namespace sluice
