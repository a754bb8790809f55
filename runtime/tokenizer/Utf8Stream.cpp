// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Releases whole characters of a byte stream.
#include "runtime/tokenizer/Utf8Stream.h"

#include "runtime/tokenizer/Unicode.h"

namespace sluice {

std::string Utf8Stream::feed(std::string_view bytes) {
  pending_.append(bytes);
  // A truncated character can only stand in the last three bytes.
  size_t whole = pending_.size();
  for (size_t back = 1; back <= 3 && back <= pending_.size(); ++back) {
    const size_t start = pending_.size() - back;
    if ((static_cast<unsigned char>(pending_[start]) & 0xC0U) == 0x80) {
      continue;
    }
    const Utf8Char last = decodeUtf8(pending_, start);
    if (last.truncated && last.length == back) {
      whole = start;
    }
    break;
  }
  std::string text = lossyUtf8(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  return text;
}

std::string Utf8Stream::finish() {
  std::string text = lossyUtf8(pending_);
  pending_.clear();
  return text;
}

} // namespace sluice
