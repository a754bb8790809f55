// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbolic integers: polynomials over the file's dimension names, in one canonical form. Shape
// inference computes with them, raise compares them. Two expressions are equal where their
// canonical forms are.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluicec::onnx {

/// A polynomial with 64-bit integer coefficients. An atom is a dimension name (`s26`,
/// `past_sequence_length`) or what is not a polynomial, written as a call in canonical form
/// (`min(a, b)`, `floordiv(a, 2)`). Dimensions are assumed to be >= 0. Arithmetic that would
/// overflow, or grow beyond kMaxTerms, gives an unknown expression; unknown absorbs everything and
/// equals nothing, not even itself.
class SymbolicExpr {
public:
  static constexpr size_t kMaxTerms = 64;

  SymbolicExpr() = default; // unknown
  static SymbolicExpr constant(int64_t value);
  /// A single atom; `name` is kept as it is.
  static SymbolicExpr atom(llvm::StringRef name);
  /// Reads "2*s26*s70", "s17 + s70 + 1", "past - 1"; text that is not a polynomial becomes one
  /// atom, "" unknown.
  static SymbolicExpr parse(llvm::StringRef text);

  bool isUnknown() const { return !known; }
  std::optional<int64_t> asConstant() const;
  bool isConstant(int64_t value) const { return asConstant() == value; }
  /// Canonical text: "2*s26*s70 + 1"; "" where unknown.
  std::string str() const;
  /// True where the value is >= `bound` for all sizes >= 0 (sufficient, not necessary).
  bool isAtLeast(int64_t bound) const;
  size_t numTerms() const { return terms.size(); }

  SymbolicExpr operator+(const SymbolicExpr &other) const;
  SymbolicExpr operator-(const SymbolicExpr &other) const;
  SymbolicExpr operator*(const SymbolicExpr &other) const;
  SymbolicExpr operator-() const { return *this * constant(-1); }
  /// The quotient where it is exact for all sizes, else unknown. Sizes that divide are taken as
  /// non-zero.
  SymbolicExpr exactDiv(const SymbolicExpr &divisor) const;
  static SymbolicExpr min(const SymbolicExpr &a, const SymbolicExpr &b);
  static SymbolicExpr max(const SymbolicExpr &a, const SymbolicExpr &b);
  /// floor(a / b), b a constant > 0.
  static SymbolicExpr floorDiv(const SymbolicExpr &a, int64_t b);

  /// The names that occur, sorted.
  std::vector<std::string> atoms() const;
  /// Every occurrence of atom `name` replaced by `by`.
  SymbolicExpr substitute(llvm::StringRef name, const SymbolicExpr &by) const;
  /// {quotient, rest}: this = quotient * divisor + rest by long division; no term of the rest has
  /// the divisor's leading monomial as factor.
  std::pair<SymbolicExpr, SymbolicExpr> divideTerms(const SymbolicExpr &divisor) const;

  bool operator==(const SymbolicExpr &other) const {
    return known && other.known && terms == other.terms;
  }

private:
  using Monomial =
      std::vector<std::string>;      // sorted atoms, with repetition; empty is the constant term
  std::map<Monomial, int64_t> terms; // no zero coefficients
  bool known = false;

  SymbolicExpr &add(const Monomial &monomial, int64_t coefficient);
};

} // namespace sluicec::onnx
