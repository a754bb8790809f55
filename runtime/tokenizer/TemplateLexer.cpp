// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lexer: jinja2/lexer.py's behaviour, written as a scanner.
#include "runtime/tokenizer/TemplateLexer.h"

#include "runtime/tokenizer/TemplateText.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <array>
#include <optional>

namespace sluice {

namespace {

constexpr size_t kMaxTokens = 200'000;

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isAsciiSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// \r\n and \r become \n; one line break at the end goes.
std::string normalizedSource(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') {
    out.pop_back();
  }
  return out;
}

class Lexer {
public:
  explicit Lexer(std::string_view source) : text_(normalizedSource(source)) {}

  Result<std::vector<TemplateToken>> run() {
    while (at_ < text_.size()) {
      SLUICE_RETURN_IF_ERROR(root());
      if (tokens_.size() > kMaxTokens) {
        return fail("the template has more than " + std::to_string(kMaxTokens) + " words");
      }
    }
    push(TemplateTokenKind::End, "");
    return std::move(tokens_);
  }

private:
  Status fail(std::string_view message) const { return failAt(line_, message); }
  static Status failAt(uint32_t line, std::string_view message) {
    return invalidArgument("line " + std::to_string(line) + ": " + std::string(message));
  }

  bool startsWith(std::string_view what) const {
    return std::string_view(text_).substr(at_, what.size()) == what;
  }
  void push(TemplateTokenKind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text)});
  }
  /// Moves on, counting lines. What was consumed last decides whether a tag that follows starts a
  /// line.
  void advance(size_t count) {
    line_ += static_cast<uint32_t>(std::count(text_.begin() + static_cast<ptrdiff_t>(at_),
                                              text_.begin() + static_cast<ptrdiff_t>(at_ + count),
                                              '\n'));
    at_ += count;
    lineStarting_ = count > 0 && text_[at_ - 1] == '\n';
  }
  /// Length of the white space from `from` on, as \s* of Python.
  size_t spaceLength(size_t from) const {
    const std::string_view rest = std::string_view(text_).substr(from);
    return rest.size() - stripped(rest, std::nullopt, true, false).size();
  }

  /// One stretch of text and the tag that ends it.
  Status root() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= text_.size()) {
        tag = text_.size();
        break;
      }
      const char next = text_[tag + 1];
      if (next == '{' || next == '%' || next == '#') {
        break;
      }
    }
    if (tag == text_.size()) {
      push(TemplateTokenKind::Data, text_.substr(at_));
      advance(text_.size() - at_);
      return Status::ok();
    }
    const char kind = text_[tag + 1];
    emitData(tag, kind == '{');
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') {
      return comment();
    }
    if (kind == '%' && rawLength()) {
      return raw(*rawLength());
    }
    push(kind == '{' ? TemplateTokenKind::VariableBegin : TemplateTokenKind::BlockBegin, "");
    return expression(kind == '{');
  }

  /// The text before a tag at `tag`, with the white space control of the tag's sign or of
  /// lstrip_blocks.
  void emitData(size_t tag, bool isVariable) {
    std::string_view data = std::string_view(text_).substr(at_, tag - at_);
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    if (sign == '-') {
      data = stripped(data, std::nullopt, false, true);
    } else if (sign != '+' && !isVariable) {
      const size_t lineBreak = data.rfind('\n');
      const size_t lineStart = lineBreak == std::string_view::npos ? 0 : lineBreak + 1;
      const bool startsLine = lineStart > 0 || lineStarting_;
      if (startsLine && stripped(data.substr(lineStart), std::nullopt, true, false).empty()) {
        data = data.substr(0, lineStart);
      }
    }
    if (!data.empty()) {
      push(TemplateTokenKind::Data, std::string(data));
    }
    advance(tag - at_);
  }

  /// Behind "{#".
  Status comment() {
    const uint32_t start = line_;
    const size_t end = text_.find("#}", at_);
    if (end == std::string::npos) {
      return failAt(start, "a comment {# is not closed by #}");
    }
    const char sign = end > at_ ? text_[end - 1] : '\0';
    closeTag(end, sign);
    return Status::ok();
  }

  /// Moves behind a closing tag whose two characters are at `end`: "-" takes white space, else
  /// trim_blocks one line break.
  void closeTag(size_t end, char sign) {
    advance(end + 2 - at_);
    if (sign == '-') {
      const size_t space = spaceLength(at_);
      if (space > 0) {
        advance(space);
      }
    } else if (sign != '+' && startsWith("\n")) {
      advance(1);
    }
  }

  /// Behind "{%": the length of " raw %}", if that is what follows.
  std::optional<size_t> rawLength() const {
    size_t i = at_ + spaceLength(at_);
    if (text_.compare(i, 3, "raw") != 0) {
      return std::nullopt;
    }
    i += 3;
    i += spaceLength(i);
    if (text_.compare(i, 3, "-%}") == 0) {
      return i + 3 + spaceLength(i + 3) - at_;
    }
    return text_.compare(i, 2, "%}") == 0 ? std::optional(i + 2 - at_) : std::nullopt;
  }

  /// Behind "{%" of a raw block whose opening tag has `opening` more bytes.
  Status raw(size_t opening) {
    const uint32_t start = line_;
    advance(opening);
    for (size_t tag = text_.find("{%", at_); tag != std::string::npos;
         tag = text_.find("{%", tag + 1)) {
      size_t i = tag + 2;
      i += i < text_.size() && (text_[i] == '-' || text_[i] == '+') ? 1 : 0;
      i += spaceLength(i);
      if (text_.compare(i, 6, "endraw") != 0) {
        continue;
      }
      i += 6;
      i += spaceLength(i);
      const char sign = i < text_.size() ? text_[i] : '\0';
      i += sign == '-' || sign == '+' ? 1 : 0;
      if (text_.compare(i, 2, "%}") != 0) {
        continue;
      }
      emitData(tag, false);
      closeTag(i, sign);
      return Status::ok();
    }
    return failAt(start, "{% raw %} is not closed by {% endraw %}");
  }

  /// The words of one tag, up to and with its end.
  Status expression(bool isVariable) {
    const uint32_t start = line_;
    const std::string_view close = isVariable ? "}}" : "%}";
    std::string open; // brackets that are not closed yet
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (isAsciiSpace(c)) {
        advance(1);
        continue;
      }
      if (open.empty()) {
        const bool sign = c == '-' || (c == '+' && !isVariable);
        const size_t end = at_ + (sign ? 1 : 0);
        if (text_.compare(end, 2, close) == 0) {
          push(isVariable ? TemplateTokenKind::VariableEnd : TemplateTokenKind::BlockEnd, "");
          // trim_blocks doesn't concern {{ }}: as if "+" stood there.
          closeTag(end, isVariable && !sign ? '+' : (sign ? c : '\0'));
          return Status::ok();
        }
      }
      SLUICE_RETURN_IF_ERROR(word(c, open));
    }
    return failAt(start, std::string("a tag is not closed by ") + std::string(close));
  }

  /// One name, number, text or sign.
  Status word(char c, std::string &open) {
    if (isNameStart(c)) {
      size_t end = at_;
      while (end < text_.size() && (isNameStart(text_[end]) || isDigit(text_[end]))) {
        ++end;
      }
      push(TemplateTokenKind::Name, text_.substr(at_, end - at_));
      advance(end - at_);
      return Status::ok();
    }
    if (isDigit(c)) {
      return number();
    }
    if (c == '\'' || c == '"') {
      return text(c);
    }
    return operatorSign(c, open);
  }

  /// Signs; `open` holds the closing bracket of each bracket that is open.
  Status operatorSign(char c, std::string &open) {
    constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    for (std::string_view sign : kLong) {
      if (startsWith(sign)) {
        push(TemplateTokenKind::Operator, std::string(sign));
        advance(2);
        return Status::ok();
      }
    }
    if (kShort.find(c) == std::string_view::npos) {
      const size_t length = decodeUtf8(text_, at_).length;
      return fail("unexpected character '" + text_.substr(at_, length) + "'");
    }
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : (c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) {
        return fail(std::string("unexpected '") + c + "'" +
                    (open.empty() ? "" : std::string(", expected '") + open.back() + "'"));
      }
      open.pop_back();
    }
    push(TemplateTokenKind::Operator, std::string(1, c));
    advance(1);
    return Status::ok();
  }

  /// Decimal integers and floats; "_" between digits. Other bases are refused.
  Status number() {
    std::string digits;
    size_t i = at_;
    auto takeDigits = [&] {
      while (i < text_.size() && (isDigit(text_[i]) || (text_[i] == '_' && i + 1 < text_.size() &&
                                                        isDigit(text_[i + 1]) && i > at_))) {
        if (text_[i] != '_') {
          digits += text_[i];
        }
        ++i;
      }
    };
    auto digitAt = [&](size_t p) { return p < text_.size() && isDigit(text_[p]); };
    takeDigits();
    bool isFloat = false;
    const bool afterDot = !tokens_.empty() && tokens_.back().isOperator(".");
    if (!afterDot && i < text_.size() && text_[i] == '.' && digitAt(i + 1)) {
      isFloat = true;
      digits += '.';
      ++i;
      takeDigits();
    }
    if (!afterDot && i < text_.size() && (text_[i] == 'e' || text_[i] == 'E')) {
      const bool sign = i + 1 < text_.size() && (text_[i + 1] == '+' || text_[i + 1] == '-');
      if (digitAt(i + (sign ? 2 : 1))) {
        isFloat = true;
        digits += text_.substr(i, sign ? 2 : 1);
        i += sign ? 2 : 1;
        takeDigits();
      }
    }
    const bool leadingZero = !isFloat && digits.size() > 1 && digits[0] == '0' &&
                             digits.find_first_not_of('0') != std::string::npos;
    if (leadingZero || (i < text_.size() && isNameStart(text_[i]))) {
      return fail("a number is not decimal: " + text_.substr(at_, i - at_ + 1));
    }
    push(isFloat ? TemplateTokenKind::Float : TemplateTokenKind::Integer, digits);
    advance(i - at_);
    return Status::ok();
  }

  /// A string literal.
  Status text(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size()) {
      return fail("a string is not closed");
    }
    std::string out;
    for (size_t i = at_ + 1; i < end;) {
      if (text_[i] != '\\') {
        out += text_[i++];
        continue;
      }
      SLUICE_RETURN_IF_ERROR(escape(i, end, out));
    }
    push(TemplateTokenKind::Text, std::move(out));
    advance(end + 1 - at_);
    return Status::ok();
  }

  /// One escape of a string at `i`, as Python reads it; an unknown one keeps its backslash.
  Status escape(size_t &i, size_t end, std::string &out) const {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    const char c = text_[i + 1];
    if (const size_t known = kNames.find(c); known != std::string_view::npos) {
      out += kValues[known];
      i += 2;
      return Status::ok();
    }
    if (c == '\n') { // a line goes on
      i += 2;
      return Status::ok();
    }
    const size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
    if (digits > 0) {
      return codePoint(i, end, digits, out);
    }
    if (c == 'N' || (c >= '0' && c <= '7')) {
      return fail(std::string("string escape \\") + c + " is not supported; write \\u");
    }
    out += '\\';
    ++i;
    return Status::ok();
  }

  /// \xHH, \uHHHH, \UHHHHHHHH at `i`.
  Status codePoint(size_t &i, size_t end, size_t digits, std::string &out) const {
    uint64_t code = 0;
    for (size_t k = 0; k < digits; ++k) {
      const size_t p = i + 2 + k;
      const char c = p < end ? text_[p] : '\0';
      const bool hex = isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!hex) {
        return fail("a string escape has too few hexadecimal digits");
      }
      code = code * 16 + static_cast<uint64_t>(isDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      return fail("a string escape is no Unicode character");
    }
    appendUtf8(out, static_cast<char32_t>(code));
    i += 2 + digits;
    return Status::ok();
  }

  std::string text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool lineStarting_ = true;
  std::vector<TemplateToken> tokens_;
};

} // namespace

Result<std::vector<TemplateToken>> lexTemplate(std::string_view source) {
  return Lexer(source).run();
}

} // namespace sluice
