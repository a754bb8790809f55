// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Polynomial arithmetic over dimension names.
#include "dialects/onnx/SymbolicExpr.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace sluicec::onnx;

SymbolicExpr SymbolicExpr::constant(int64_t value) {
  SymbolicExpr result;
  result.known = true;
  result.add({}, value);
  return result;
}

SymbolicExpr SymbolicExpr::atom(llvm::StringRef name) {
  SymbolicExpr result;
  result.known = !name.empty();
  if (result.known) {
    result.add({name.str()}, 1);
  }
  return result;
}

// Adds coefficient * monomial; becomes unknown on overflow.
SymbolicExpr &SymbolicExpr::add(const Monomial &monomial, int64_t coefficient) {
  if (!known) {
    return *this;
  }
  auto [entry, isNew] = terms.try_emplace(monomial, 0);
  int64_t sum = 0;
  if (llvm::AddOverflow(entry->second, coefficient, sum) || terms.size() > kMaxTerms) {
    return *this = SymbolicExpr();
  }
  entry->second = sum;
  if (sum == 0) {
    terms.erase(entry);
  }
  return *this;
}

std::optional<int64_t> SymbolicExpr::asConstant() const {
  if (!known || terms.size() > 1 || (terms.size() == 1 && !terms.begin()->first.empty())) {
    return std::nullopt;
  }
  return terms.empty() ? 0 : terms.begin()->second;
}

std::string SymbolicExpr::str() const {
  if (!known) {
    return "";
  }
  std::string text;
  // The constant term, whose key sorts first, is written last.
  auto append = [&](const Monomial &monomial, int64_t coefficient) {
    bool negative = coefficient < 0;
    uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(coefficient) : static_cast<uint64_t>(coefficient);
    text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    if (magnitude != 1 || monomial.empty()) {
      text += llvm::utostr(magnitude);
      text += monomial.empty() ? "" : "*";
    }
    text += llvm::join(monomial, "*");
  };
  for (const auto &[monomial, coefficient] : terms) {
    if (!monomial.empty()) {
      append(monomial, coefficient);
    }
  }
  auto constantTerm = terms.find({});
  if (constantTerm != terms.end()) {
    append({}, constantTerm->second);
  }
  return text.empty() ? "0" : text;
}

bool SymbolicExpr::isAtLeast(int64_t bound) const {
  if (!known) {
    return false;
  }
  int64_t constantTerm = 0;
  for (const auto &[monomial, coefficient] : terms) {
    if (monomial.empty()) {
      constantTerm = coefficient;
    } else if (coefficient < 0) {
      return false;
    }
  }
  return constantTerm >= bound;
}

SymbolicExpr SymbolicExpr::operator+(const SymbolicExpr &other) const {
  SymbolicExpr result = known ? *this : other;
  if (!known || !other.known) {
    return SymbolicExpr();
  }
  for (const auto &[monomial, coefficient] : other.terms) {
    result.add(monomial, coefficient);
  }
  return result;
}

SymbolicExpr SymbolicExpr::operator-(const SymbolicExpr &other) const { return *this + -other; }

SymbolicExpr SymbolicExpr::operator*(const SymbolicExpr &other) const {
  if (!known || !other.known) {
    return SymbolicExpr();
  }
  SymbolicExpr result = constant(0);
  for (const auto &[left, leftCoefficient] : terms) {
    for (const auto &[right, rightCoefficient] : other.terms) {
      int64_t product = 0;
      if (llvm::MulOverflow(leftCoefficient, rightCoefficient, product) ||
          left.size() + right.size() > kMaxTerms) {
        return SymbolicExpr();
      }
      Monomial monomial(left);
      monomial.insert(monomial.end(), right.begin(), right.end());
      llvm::sort(monomial);
      result.add(monomial, product);
    }
  }
  return result;
}

SymbolicExpr SymbolicExpr::exactDiv(const SymbolicExpr &divisor) const {
  if (!known || !divisor.known || divisor.terms.empty()) {
    return SymbolicExpr();
  }
  if (*this == divisor) {
    return constant(1);
  }
  // By one term: each term must contain it. Long division by a sum is done on the largest monomial.
  SymbolicExpr rest = *this;
  SymbolicExpr quotient = constant(0);
  const auto &[leadMonomial, leadCoefficient] = *divisor.terms.rbegin();
  for (size_t step = 0; step <= kMaxTerms && !rest.terms.empty(); ++step) {
    const auto &[monomial, coefficient] = *rest.terms.rbegin();
    if (coefficient % leadCoefficient != 0 ||
        !std::includes(monomial.begin(), monomial.end(), leadMonomial.begin(),
                       leadMonomial.end())) {
      return SymbolicExpr();
    }
    SymbolicExpr term = constant(0);
    Monomial left;
    std::set_difference(monomial.begin(), monomial.end(), leadMonomial.begin(), leadMonomial.end(),
                        std::back_inserter(left));
    term.add(left, coefficient / leadCoefficient);
    quotient = quotient + term;
    rest = rest - term * divisor;
    if (rest.isUnknown()) {
      return rest;
    }
  }
  return rest.terms.empty() ? quotient : SymbolicExpr();
}

std::vector<std::string> SymbolicExpr::atoms() const {
  std::vector<std::string> names;
  for (const auto &[monomial, coefficient] : terms) {
    names.insert(names.end(), monomial.begin(), monomial.end());
  }
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

SymbolicExpr SymbolicExpr::substitute(llvm::StringRef name, const SymbolicExpr &by) const {
  if (!known) {
    return SymbolicExpr();
  }
  SymbolicExpr result = constant(0);
  for (const auto &[monomial, coefficient] : terms) {
    SymbolicExpr term = constant(coefficient);
    for (const std::string &factor : monomial) {
      term = term * (factor == name ? by : atom(factor));
    }
    result = result + term;
  }
  return result;
}

std::pair<SymbolicExpr, SymbolicExpr>
SymbolicExpr::divideTerms(const SymbolicExpr &divisor) const {
  if (!known || !divisor.known || divisor.terms.empty()) {
    return {SymbolicExpr(), SymbolicExpr()};
  }
  SymbolicExpr quotient = constant(0);
  SymbolicExpr rest = constant(0);
  SymbolicExpr dividend = *this;
  const auto &[leadMonomial, leadCoefficient] = *divisor.terms.rbegin();
  SymbolicExpr lead = constant(0);
  lead.add(leadMonomial, leadCoefficient);
  for (size_t step = 0; step <= 2 * kMaxTerms && !dividend.terms.empty(); ++step) {
    const auto &[monomial, coefficient] = *dividend.terms.rbegin();
    SymbolicExpr term = constant(0);
    term.add(monomial, coefficient);
    SymbolicExpr part = term.exactDiv(lead);
    if (part.isUnknown()) {
      rest = rest + term;
      dividend = dividend - term;
    } else {
      quotient = quotient + part;
      dividend = dividend - part * divisor;
    }
  }
  return {quotient, dividend.terms.empty() ? rest : SymbolicExpr()};
}

// An atom `name(a, b)` with the operands in the order of their text where the function commutes.
static SymbolicExpr callAtom(llvm::StringRef name, std::string a, std::string b, bool commutes) {
  if (commutes && b < a) {
    std::swap(a, b);
  }
  return SymbolicExpr::atom((name + "(" + a + ", " + b + ")").str());
}

SymbolicExpr SymbolicExpr::min(const SymbolicExpr &a, const SymbolicExpr &b) {
  if (a.isUnknown() || b.isUnknown()) {
    return SymbolicExpr();
  }
  if ((b - a).isAtLeast(0)) {
    return a;
  }
  return (a - b).isAtLeast(0) ? b : callAtom("min", a.str(), b.str(), true);
}

SymbolicExpr SymbolicExpr::max(const SymbolicExpr &a, const SymbolicExpr &b) {
  if (a.isUnknown() || b.isUnknown()) {
    return SymbolicExpr();
  }
  if ((b - a).isAtLeast(0)) {
    return b;
  }
  return (a - b).isAtLeast(0) ? a : callAtom("max", a.str(), b.str(), true);
}

SymbolicExpr SymbolicExpr::floorDiv(const SymbolicExpr &a, int64_t b) {
  if (a.isUnknown() || b <= 0) {
    return SymbolicExpr();
  }
  if (std::optional<int64_t> value = a.asConstant()) {
    return constant(*value / b - (*value % b < 0));
  }
  SymbolicExpr exact = a.exactDiv(constant(b));
  return exact.isUnknown() ? callAtom("floordiv", a.str(), llvm::itostr(b), false) : exact;
}

namespace {
// expression := ['-'] product {('+' | '-') product};  product := factor {'*' factor};
// factor := number | name | '(' expression ')' | name '(' balanced text ')'
class Parser {
public:
  explicit Parser(llvm::StringRef text) : rest(text) {}

  SymbolicExpr run() {
    SymbolicExpr result = expression(0);
    skipSpace();
    return rest.empty() ? result : SymbolicExpr();
  }

private:
  static constexpr unsigned kMaxDepth = 32;
  llvm::StringRef rest;

  void skipSpace() { rest = rest.ltrim(); }
  bool consume(char c) {
    skipSpace();
    return rest.consume_front(llvm::StringRef(&c, 1));
  }

  SymbolicExpr expression(unsigned depth) {
    SymbolicExpr sum = consume('-') ? -product(depth) : product(depth);
    while (!sum.isUnknown()) {
      if (consume('+')) {
        sum = sum + product(depth);
      } else if (consume('-')) {
        sum = sum - product(depth);
      } else {
        break;
      }
    }
    return sum;
  }

  SymbolicExpr product(unsigned depth) {
    SymbolicExpr result = factor(depth);
    while (!result.isUnknown() && !rest.ltrim().starts_with("**") && consume('*')) {
      result = result * factor(depth);
    }
    return result;
  }

  SymbolicExpr factor(unsigned depth) {
    skipSpace();
    if (depth > kMaxDepth || rest.empty()) {
      return SymbolicExpr();
    }
    if (consume('(')) {
      SymbolicExpr inner = expression(depth + 1);
      return consume(')') ? inner : SymbolicExpr();
    }
    if (llvm::isDigit(rest.front())) {
      int64_t value = 0;
      bool failed = rest.consumeInteger(10, value);
      bool glued = !rest.empty() && (llvm::isAlpha(rest.front()) || rest.front() == '_');
      return failed || glued ? SymbolicExpr() : SymbolicExpr::constant(value);
    }
    llvm::StringRef name = rest.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '#' || c == ':'; });
    rest = rest.drop_front(name.size());
    return name.empty()            ? SymbolicExpr()
           : rest.starts_with("(") ? call(name)
                                   : SymbolicExpr::atom(name);
  }

  // What is not a polynomial stays an atom, text as written.
  SymbolicExpr call(llvm::StringRef name) {
    size_t open = 0;
    for (size_t i = 0; i < rest.size(); ++i) {
      open += rest[i] == '(' ? 1 : rest[i] == ')' ? -1 : 0;
      if (open == 0) {
        SymbolicExpr result = SymbolicExpr::atom((name + rest.take_front(i + 1)).str());
        rest = rest.drop_front(i + 1);
        return result;
      }
    }
    return SymbolicExpr();
  }
};
} // namespace

SymbolicExpr SymbolicExpr::parse(llvm::StringRef text) {
  text = text.trim();
  SymbolicExpr result = Parser(text).run();
  return result.isUnknown() ? atom(text) : result;
}
