// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns the bytes of generated tokens into text that never ends inside a character. Stands between
// Tokenizer::tokenBytes and StopMatcher or the client, one per request.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Bytes that can't be part of valid UTF-8 come out as U+FFFD, one per maximal subpart (Unicode 15,
/// section 3.9), so that the stream's text equals Tokenizer::decode of the same tokens however they
/// are cut.
class Utf8Stream {
public:
  /// Takes the next bytes; returns the characters that are complete now.
  std::string feed(std::string_view bytes);
  /// The end of the text: U+FFFD for a character that was begun and never completed, else nothing.
  std::string finish();

private:
  std::string pending_; // at most 3 bytes: the beginning of a valid character
};

} // namespace sluice
