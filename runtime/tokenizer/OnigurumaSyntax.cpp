// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrites Oniguruma's syntax for PCRE2. A white list: whatever is not known to mean the same in
// both is refused by name.
#include "runtime/tokenizer/RegexPattern.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

namespace sluice {

namespace {

// Class members without brackets. \s: the property White_Space (PCRE2's own \s has U+180E too).
constexpr std::string_view kSpace =
    "\\t-\\r\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}"
    "\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
// \S inside of a class: the rest.
constexpr std::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}"
    "\\x{200B}-\\x{2027}"
    "\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}";
// \w: Alphabetic, M, Nd, Pc (Oniguruma's CR_Word); Alphabetic is L, Nl and circled and squared
// letters beside M.
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";
// Outside of a class, where Oniguruma looks Latin-1 up in a table of its own, the superscript
// digits and fractions too.
constexpr std::string_view kLatinWord = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
constexpr std::string_view kDigit = "\\p{Nd}";
constexpr std::string_view kHexDigit = "0-9a-fA-F";

constexpr std::array<std::string_view, 37> kCategories = {
    "L",  "Ll", "Lu", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isHex(char c) { return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Translator {
public:
  explicit Translator(std::string_view in) : in_(in) {}

  Result<std::string> run() {
    if (in_.substr(0, 4) == "(?i)") { // elsewhere the two syntaxes scope it differently
      out_ += "(?i)";
      at_ = 4;
    }
    while (at_ < in_.size()) {
      SLUICE_RETURN_IF_ERROR(item());
    }
    return std::move(out_);
  }

private:
  Status item() {
    switch (in_[at_]) {
    case '\\':
      return escape();
    case '[':
      return charClass();
    case '(':
      return group();
    case '{':
      return interval();
    default:
      out_ += in_[at_++];
      return Status::ok();
    }
  }

  Status refuse(std::string_view what) const {
    return unsupported("regex construct " + std::string(what) + " at byte " + std::to_string(at_) +
                       " is not supported; rewrite the expression without it");
  }

  /// An opening parenthesis: groups, look-around and case switches that mean the same in both.
  Status group() {
    constexpr std::array<std::string_view, 8> kKnown = {"(?:",  "(?=",  "(?!",  "(?>",
                                                        "(?<=", "(?<!", "(?i:", "(?-i:"};
    const std::string_view rest = in_.substr(at_);
    for (std::string_view known : kKnown) {
      if (rest.substr(0, known.size()) == known) {
        out_ += known;
        at_ += known.size();
        return Status::ok();
      }
    }
    if (rest.size() > 1 && (rest[1] == '?' || rest[1] == '*')) {
      return refuse(rest.substr(0, 3));
    }
    out_ += '(';
    ++at_;
    return Status::ok();
  }

  /// {n} {n,} {n,m} {,m}; any other brace is a literal in both.
  Status interval() {
    size_t end = at_ + 1;
    auto digits = [&] {
      const size_t start = end;
      while (end < in_.size() && isDigit(in_[end])) {
        ++end;
      }
      return in_.substr(start, end - start);
    };
    const std::string_view low = digits();
    const bool comma = end < in_.size() && in_[end] == ',';
    end += comma ? 1 : 0;
    const std::string_view high = comma ? digits() : std::string_view();
    if (end >= in_.size() || in_[end] != '}' || (low.empty() && high.empty())) {
      out_ += "\\{";
      ++at_;
      return Status::ok();
    }
    ++end;
    const char next = end < in_.size() ? in_[end] : '\0';
    if (next == '+' ||
        (next == '?' && !comma)) { // possessive or lazy in PCRE2, one more quantifier in Ruby
      return refuse(in_.substr(at_, end + 1 - at_));
    }
    out_ +=
        "{" + std::string(low.empty() ? "0" : low) + (comma ? "," : "") + std::string(high) + "}";
    at_ = end;
    return Status::ok();
  }

  /// A backslash outside of a class.
  Status escape() {
    const std::string_view whole = in_.substr(at_, 2);
    if (whole.size() < 2) {
      return invalidArgument("regex ends with a backslash");
    }
    const std::string word = std::string(kWord) + std::string(kLatinWord);
    if (auto members = classEscape(whole[1])) {
      out_ += "[" + (whole[1] == 'w' ? word : *members) + "]";
      at_ += 2;
      return Status::ok();
    }
    switch (whole[1]) {
    case 'S':
      return emit("[^" + std::string(kSpace) + "]");
    case 'W':
      return emit("[^" + word + "]");
    case 'D':
      return emit("\\P{Nd}");
    case 'H':
      return emit("[^" + std::string(kHexDigit) + "]");
    case 'b':
      return emit("(?:(?<=[" + word + "])(?![" + word + "])|(?<![" + word + "])(?=[" + word +
                  "]))");
    case 'B':
      return emit("(?:(?<=[" + word + "])(?=[" + word + "])|(?<![" + word + "])(?![" + word +
                  "]))");
    case 'A':
    case 'z':
    case 'Z':
      return emit(whole);
    default:
      return character();
    }
  }

  Status emit(std::string_view text) {
    out_ += text;
    at_ += 2;
    return Status::ok();
  }

  static std::optional<std::string> classEscape(char c) {
    switch (c) {
    case 's':
      return std::string(kSpace);
    case 'w':
      return std::string(kWord);
    case 'd':
      return std::string(kDigit);
    case 'h':
      return std::string(kHexDigit);
    default:
      return std::nullopt;
    }
  }

  /// An escape that means the same inside and outside of a class: a character or a property.
  Status character() {
    const char c = in_[at_ + 1];
    switch (c) {
    case 'p':
    case 'P':
      return property();
    case 'x':
      return hexadecimal();
    case 'u': {
      const std::string_view digits = in_.substr(at_ + 2, 4);
      if (digits.size() != 4 || !std::all_of(digits.begin(), digits.end(), isHex)) {
        return refuse("\\u without four hexadecimal digits");
      }
      out_ += "\\x{" + std::string(digits) + "}";
      at_ += 6;
      return Status::ok();
    }
    case 'v':
      return emit("\\x{0B}");
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'a':
    case 'e':
      return emit(in_.substr(at_, 2));
    default:
      break;
    }
    if (isLetter(c) || isDigit(c)) {
      return refuse(in_.substr(at_, 2));
    }
    if (static_cast<unsigned char>(c) >=
        0x80) { // a character of several bytes: the backslash adds nothing
      ++at_;
      out_ += in_[at_++];
      return Status::ok();
    }
    return emit(in_.substr(at_, 2));
  }

  /// \xHH is a byte in Oniguruma, so only below 80; \x{H...} is a character in both.
  Status hexadecimal() {
    size_t end = at_ + 2;
    const bool braces = end < in_.size() && in_[end] == '{';
    end += braces ? 1 : 0;
    const size_t start = end;
    while (end < in_.size() && isHex(in_[end]) && end - start < (braces ? 8U : 2U)) {
      ++end;
    }
    const std::string digits(in_.substr(start, end - start));
    const bool closed = !braces || (end < in_.size() && in_[end] == '}');
    if (digits.empty() || !closed || (!braces && digits.size() == 2 && digits[0] >= '8')) {
      return refuse("\\x without {...} or above 7F");
    }
    out_ += "\\x{" + digits + "}";
    at_ = end + (braces ? 1 : 0);
    return Status::ok();
  }

  /// \p{Name} \p{^Name} \P{Name}: a general category or a script.
  Status property() {
    const size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == std::string_view::npos) {
      return refuse("\\p without {...}");
    }
    std::string name(in_.substr(at_ + 3, close - at_ - 3));
    bool negated = in_[at_ + 1] == 'P';
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    const bool wellFormed = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return isLetter(c) || c == '_' || c == ' ' || c == '-';
    });
    if (!wellFormed) {
      return refuse("\\p{" + name + "}");
    }
    const bool category =
        std::find(kCategories.begin(), kCategories.end(), name) != kCategories.end();
    out_ += std::string(negated ? "\\P{" : "\\p{") + (category ? "" : "sc:") + name + "}";
    at_ = close + 1;
    return Status::ok();
  }

  /// [...]: no nested sets, no range with a set such as \s at an end.
  Status charClass() {
    out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == '^') {
      out_ += in_[at_++];
    }
    bool first = true;
    bool afterSet = false;   // the last member was a set such as \s
    bool afterRange = false; // the last byte was the hyphen of a range
    for (; at_ < in_.size(); first = false) {
      const char c = in_[at_];
      if (c == ']' && !first) {
        out_ += in_[at_++];
        return Status::ok();
      }
      if (c == '[' || (c == '&' && in_.substr(at_, 2) == "&&")) {
        return refuse(c == '[' ? "[ inside a character class" : "&& inside a character class");
      }
      if (c == ']') {
        out_ += "\\]";
        ++at_;
        continue;
      }
      if (c == '-' && !first && in_.substr(at_, 2) != "-]") {
        if (afterSet) { // an error in Oniguruma too
          return refuse("range that begins with a set");
        }
        out_ += '-';
        afterRange = !afterRange;
        ++at_;
        continue;
      }
      const char next = c == '\\' && at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
      const auto members = classEscape(next);
      afterSet = members || next == 'p' || next == 'P' || next == 'S' || next == 'D';
      if (afterSet && afterRange) {
        return refuse("range that ends in a set");
      }
      afterRange = false;
      SLUICE_RETURN_IF_ERROR(classMember(c, next, members));
    }
    return invalidArgument("regex has a character class without ]");
  }

  /// One member of a class at at_; `members` when it is a set.
  Status classMember(char c, char next, const std::optional<std::string> &members) {
    if (c != '\\') {
      out_ += c;
      ++at_;
      return Status::ok();
    }
    if (members) {
      return emit(*members);
    }
    if (next == '\0') {
      return invalidArgument("regex ends with a backslash");
    }
    if (next == 'b') { // a backspace inside of a class
      return emit("\\x{08}");
    }
    if (next == 'S') {
      return emit(kNotSpace);
    }
    if (next == 'D') {
      return emit("\\P{Nd}");
    }
    return character(); // refuses \W \H \B ... as unknown letters
  }

  std::string_view in_;
  std::string out_;
  size_t at_ = 0;
};

} // namespace

Result<std::string> translateOniguruma(std::string_view pattern) {
  if (firstInvalidUtf8(pattern)) {
    return invalidArgument("regex is not UTF-8");
  }
  return Translator(pattern).run();
}

} // namespace sluice
