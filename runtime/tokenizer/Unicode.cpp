// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// UTF-8 by the table of well-formed sequences; categories come from utf8proc.
#include "runtime/tokenizer/Unicode.h"

#include <utf8proc.h>

namespace sluice {

Utf8Char decodeUtf8(std::string_view text, size_t offset) {
  auto byteAt = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byteAt(offset);
  if (lead < 0x80) {
    return {lead, 1, true, false};
  }
  // Unicode 15, table 3-7: only the second byte's range depends on the first.
  unsigned length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    low = lead == 0xE0 ? 0xA0 : low;
    high = lead == 0xED ? 0x9F : high;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    low = lead == 0xF0 ? 0x90 : low;
    high = lead == 0xF4 ? 0x8F : high;
  } else {
    return {};
  }
  char32_t code = lead & (0xFFU >> (length + 1));
  for (unsigned i = 1; i < length; ++i) {
    if (offset + i >= text.size()) {
      return {0xFFFD, static_cast<uint8_t>(i), false, true};
    }
    const unsigned char next = byteAt(offset + i);
    if (next < low || next > high) {
      return {0xFFFD, static_cast<uint8_t>(i), false, false};
    }
    low = 0x80;
    high = 0xBF;
    code = code << 6 | (next & 0x3FU);
  }
  return {code, static_cast<uint8_t>(length), true, false};
}

size_t previousUtf8(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80) {
    --start;
  }
  return start;
}

void appendUtf8(std::string &out, char32_t code) {
  auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::optional<size_t> firstInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decodeUtf8(text, i);
    if (!c.valid) {
      return i;
    }
    i += c.length;
  }
  return std::nullopt;
}

std::string lossyUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Char c = decodeUtf8(bytes, i);
    if (c.valid) {
      out.append(bytes.substr(i, c.length));
    } else {
      appendUtf8(out, 0xFFFD);
    }
    i += c.length;
  }
  return out;
}

bool isWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool isPythonSpace(char32_t code) { return isWhiteSpace(code) || (code >= 0x1C && code <= 0x1F); }

bool isWordCharacter(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    // Join_Control, then the symbols of Other_Alphabetic (circled and squared letters).
    return code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
           (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
           (code >= 0x1F170 && code <= 0x1F189);
  }
}

bool isNumeric(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

} // namespace sluice
