// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One element of a tensor as an expression of its indices and of the graph's inputs. Masks,
// positions, rotary tables and shape arithmetic are written in countless ways; as an element they
// have one normal form. Used by raise-attention and raise-rope.
#pragma once

#include "dialects/onnx/SymbolicExpr.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Value.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluicec::raise {

using onnx::SymbolicExpr;

/// A truth value: comparisons of polynomials joined by and, or. A negation stands in the
/// comparisons.
struct Condition {
  enum class Kind { Never, Always, AtLeastZero, Zero, NotZero, And, Or };
  Kind kind = Kind::Never;
  SymbolicExpr polynomial;         // of the comparisons
  std::vector<Condition> operands; // of And, Or; none of the same kind

  static Condition always() { return {Kind::Always, {}, {}}; }
  static Condition never() { return {Kind::Never, {}, {}}; }
  /// Comparisons that hold or fail for all sizes >= 0 become Always or Never.
  static Condition atLeastZero(SymbolicExpr polynomial);
  static Condition zero(SymbolicExpr polynomial);
  static Condition notZero(SymbolicExpr polynomial);
  static Condition both(const Condition &a, const Condition &b);
  static Condition either(const Condition &a, const Condition &b);
  Condition negated() const;
  /// The operands of an And, nothing for Always, else the condition itself.
  std::vector<Condition> conjuncts() const;
  bool operator==(const Condition &other) const;
  std::string str() const;
};

/// A real number as far as masks and rotary tables need it.
struct RealExpr {
  enum class Kind {
    Constant, // factor
    Affine,   // factor * integer
    Cosine,   // factor * cos(angle * integer)
    Sine,     // factor * sin(angle * integer)
    Table,    // factor * table[integer, column], table a constant of rank 2
    Select,   // condition ? then : otherwise
  };
  Kind kind = Kind::Constant;
  double factor = 0.0;
  double angle = 0.0;
  SymbolicExpr integer;
  mlir::Value table;
  int64_t column = 0;
  Condition condition;
  std::shared_ptr<const RealExpr> then, otherwise;

  static RealExpr constant(double value);
  static RealExpr affine(double factor, SymbolicExpr integer);
  static RealExpr select(const Condition &condition, const RealExpr &then,
                         const RealExpr &otherwise);
};

/// An element; `Unknown` says in `culprit` which operation was not understood.
struct ElementExpr {
  enum class Kind { Unknown, Integer, Boolean, Real };
  Kind kind = Kind::Unknown;
  SymbolicExpr integer;
  Condition condition;
  RealExpr real;
  mlir::Operation *culprit = nullptr; // null also for a function argument of floats

  static ElementExpr unknown(mlir::Operation *culprit);
  static ElementExpr of(SymbolicExpr integer);
  static ElementExpr of(Condition condition);
  static ElementExpr of(RealExpr real);
  bool isUnknown() const { return kind == Kind::Unknown; }
};

/// The i-th index of an element that is asked for, as an atom.
SymbolicExpr indexAtom(unsigned i);
/// Element of an integer function argument, as an atom.
SymbolicExpr loadAtom(mlir::BlockArgument argument, llvm::ArrayRef<SymbolicExpr> index);
/// Sum of elements 0..last (included) along the last dimension of a rank 2 argument, row `row`.
SymbolicExpr prefixSumAtom(mlir::BlockArgument argument, const SymbolicExpr &row,
                           const SymbolicExpr &last);
/// Sum of a row of a rank 2 argument.
SymbolicExpr rowSumAtom(mlir::BlockArgument argument, const SymbolicExpr &row);

/// Evaluates elements; keeps what it found. A value must not be erased while the object lives.
class IndexExpressions {
public:
  /// Element `index` (one expression per dimension, each within the dimension's size) of `value`.
  ElementExpr element(mlir::Value value, llvm::ArrayRef<SymbolicExpr> index);
  /// Makes element i of an integer vector the atom `name[i]` (for results of operators without a
  /// rule).
  void define(mlir::Value value, llvm::StringRef name) { defined[value] = name.str(); }
  /// The only element of a scalar or one-element integer tensor; unknown where it is not
  /// understood.
  SymbolicExpr scalar(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, std::vector<std::pair<std::string, ElementExpr>>> known;
  llvm::DenseMap<mlir::Value, std::string> defined;
  unsigned depth = 0;

  ElementExpr compute(mlir::Value value, llvm::ArrayRef<SymbolicExpr> index);
  friend class ElementRules;
};

/// The real expression as a condition where it is true at 0 and false at what attention masks out
/// (at most kMaskedOut); std::nullopt where it has other values.
std::optional<Condition> asAdditiveMask(const RealExpr &real);
/// Additive masks use the lowest number of their type, -inf, or -10000.
constexpr double kMaskedOut = -9999.0;

} // namespace sluicec::raise
