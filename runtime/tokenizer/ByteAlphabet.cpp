// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the byte table and applies it.
#include "runtime/tokenizer/ByteAlphabet.h"

#include "runtime/tokenizer/Unicode.h"

namespace sluice {

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t code = printable ? byte : next++;
    codes_[byte] = code;
    bytes_[code] = static_cast<int16_t>(byte);
  }
}

std::string ByteAlphabet::standIn(unsigned char byte) const {
  std::string out;
  appendUtf8(out, codes_[byte]);
  return out;
}

std::optional<std::string> ByteAlphabet::toBytes(std::string_view text) const {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decodeUtf8(text, i);
    if (!c.valid || c.code >= bytes_.size() || bytes_[c.code] < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(static_cast<unsigned char>(bytes_[c.code]));
    i += c.length;
  }
  return out;
}

} // namespace sluice
