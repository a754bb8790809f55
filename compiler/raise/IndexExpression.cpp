// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normal forms of conditions and real expressions, and the atoms that stand for inputs. The rules
// per operator are in ElementRules.cpp.
#include "compiler/raise/IndexExpression.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace sluicec::raise;

Condition Condition::atLeastZero(SymbolicExpr polynomial) {
  if (polynomial.isAtLeast(0)) {
    return always();
  }
  if ((-polynomial).isAtLeast(1)) {
    return never();
  }
  return {Kind::AtLeastZero, std::move(polynomial), {}};
}

Condition Condition::zero(SymbolicExpr polynomial) {
  if (std::optional<int64_t> value = polynomial.asConstant()) {
    return *value == 0 ? always() : never();
  }
  return {Kind::Zero, std::move(polynomial), {}};
}

Condition Condition::notZero(SymbolicExpr polynomial) {
  return zero(std::move(polynomial)).negated();
}

bool Condition::operator==(const Condition &other) const {
  return kind == other.kind &&
         (polynomial == other.polynomial ||
          (polynomial.isUnknown() && other.polynomial.isUnknown())) &&
         operands == other.operands;
}

static Condition join(Condition::Kind kind, const Condition &a, const Condition &b) {
  Condition result{kind, {}, {}};
  for (const Condition *part : {&a, &b}) {
    auto add = [&](const Condition &operand) {
      if (!llvm::is_contained(result.operands, operand)) {
        result.operands.push_back(operand);
      }
    };
    if (part->kind == kind) {
      llvm::for_each(part->operands, add);
    } else {
      add(*part);
    }
  }
  return result.operands.size() == 1 ? result.operands.front() : result;
}

Condition Condition::both(const Condition &a, const Condition &b) {
  if (a.kind == Kind::Never || b.kind == Kind::Always) {
    return a;
  }
  if (b.kind == Kind::Never || a.kind == Kind::Always) {
    return b;
  }
  return join(Kind::And, a, b);
}

Condition Condition::either(const Condition &a, const Condition &b) {
  if (a.kind == Kind::Always || b.kind == Kind::Never) {
    return a;
  }
  if (b.kind == Kind::Always || a.kind == Kind::Never) {
    return b;
  }
  return join(Kind::Or, a, b);
}

Condition Condition::negated() const {
  switch (kind) {
  case Kind::Never:
    return always();
  case Kind::Always:
    return never();
  case Kind::AtLeastZero: // not (p >= 0) is -p - 1 >= 0
    return atLeastZero(-polynomial - SymbolicExpr::constant(1));
  case Kind::Zero:
    return {Kind::NotZero, polynomial, {}};
  case Kind::NotZero:
    return {Kind::Zero, polynomial, {}};
  case Kind::And:
  case Kind::Or: {
    Condition result = kind == Kind::And ? never() : always();
    for (const Condition &operand : operands) {
      result =
          kind == Kind::And ? either(result, operand.negated()) : both(result, operand.negated());
    }
    return result;
  }
  }
  return never();
}

std::vector<Condition> Condition::conjuncts() const {
  if (kind == Kind::Always) {
    return {};
  }
  return kind == Kind::And ? operands : std::vector<Condition>{*this};
}

std::string Condition::str() const {
  switch (kind) {
  case Kind::Never:
    return "false";
  case Kind::Always:
    return "true";
  case Kind::AtLeastZero:
    return polynomial.str() + " >= 0";
  case Kind::Zero:
    return polynomial.str() + " == 0";
  case Kind::NotZero:
    return polynomial.str() + " != 0";
  case Kind::And:
  case Kind::Or: {
    std::string text = "(";
    for (const Condition &operand : operands) {
      text += (text.size() > 1 ? (kind == Kind::And ? " and " : " or ") : "") + operand.str();
    }
    return text + ")";
  }
  }
  return "";
}

RealExpr RealExpr::constant(double value) {
  RealExpr real;
  real.factor = value;
  return real;
}

RealExpr RealExpr::affine(double factor, SymbolicExpr integer) {
  if (std::optional<int64_t> value = integer.asConstant()) {
    return constant(factor * static_cast<double>(*value));
  }
  RealExpr real;
  real.kind = Kind::Affine;
  real.factor = factor;
  real.integer = std::move(integer);
  return real;
}

RealExpr RealExpr::select(const Condition &condition, const RealExpr &then,
                          const RealExpr &otherwise) {
  if (condition.kind == Condition::Kind::Always) {
    return then;
  }
  if (condition.kind == Condition::Kind::Never) {
    return otherwise;
  }
  RealExpr real;
  real.kind = Kind::Select;
  real.condition = condition;
  real.then = std::make_shared<RealExpr>(then);
  real.otherwise = std::make_shared<RealExpr>(otherwise);
  return real;
}

ElementExpr ElementExpr::unknown(Operation *culprit) {
  ElementExpr element;
  element.culprit = culprit;
  return element;
}

ElementExpr ElementExpr::of(SymbolicExpr integer) {
  ElementExpr element;
  element.kind = integer.isUnknown() ? Kind::Unknown : Kind::Integer;
  element.integer = std::move(integer);
  return element;
}

ElementExpr ElementExpr::of(Condition condition) {
  ElementExpr element;
  element.kind = Kind::Boolean;
  element.condition = std::move(condition);
  return element;
}

ElementExpr ElementExpr::of(RealExpr real) {
  ElementExpr element;
  element.kind = Kind::Real;
  element.real = std::move(real);
  return element;
}

SymbolicExpr sluicec::raise::indexAtom(unsigned i) {
  return SymbolicExpr::atom("%" + std::to_string(i));
}

static std::string argumentName(BlockArgument argument) {
  return "arg" + std::to_string(argument.getArgNumber());
}

SymbolicExpr sluicec::raise::loadAtom(BlockArgument argument, ArrayRef<SymbolicExpr> index) {
  std::string text = argumentName(argument) + "[";
  for (auto [i, part] : llvm::enumerate(index)) {
    if (part.isUnknown()) {
      return {};
    }
    text += (i == 0 ? "" : ",") + part.str();
  }
  return SymbolicExpr::atom(text + "]");
}

SymbolicExpr sluicec::raise::prefixSumAtom(BlockArgument argument, const SymbolicExpr &row,
                                           const SymbolicExpr &last) {
  return row.isUnknown() || last.isUnknown()
             ? SymbolicExpr()
             : SymbolicExpr::atom("prefix(" + argumentName(argument) + "[" + row.str() + "]," +
                                  last.str() + ")");
}

SymbolicExpr sluicec::raise::rowSumAtom(BlockArgument argument, const SymbolicExpr &row) {
  return row.isUnknown()
             ? SymbolicExpr()
             : SymbolicExpr::atom("sum(" + argumentName(argument) + "[" + row.str() + "])");
}

std::optional<Condition> sluicec::raise::asAdditiveMask(const RealExpr &real) {
  if (real.kind == RealExpr::Kind::Constant) {
    if (real.factor == 0.0) {
      return Condition::always();
    }
    return real.factor <= kMaskedOut ? std::optional(Condition::never()) : std::nullopt;
  }
  if (real.kind != RealExpr::Kind::Select) {
    return std::nullopt;
  }
  std::optional<Condition> then = asAdditiveMask(*real.then),
                           otherwise = asAdditiveMask(*real.otherwise);
  if (!then || !otherwise) {
    return std::nullopt;
  }
  return Condition::either(Condition::both(real.condition, *then),
                           Condition::both(real.condition.negated(), *otherwise));
}

ElementExpr IndexExpressions::element(Value value, ArrayRef<SymbolicExpr> index) {
  std::string key;
  for (const SymbolicExpr &part : index) {
    if (part.isUnknown()) {
      return ElementExpr::unknown(value.getDefiningOp());
    }
    key += part.str() + ";";
  }
  for (auto &[text, element] : known[value]) {
    if (text == key) {
      return element;
    }
  }
  constexpr unsigned kMaxDepth =
      256; // chains of real files stay below 60; a bound for hostile ones
  if (depth == kMaxDepth) {
    return ElementExpr::unknown(value.getDefiningOp());
  }
  ++depth;
  ElementExpr result = compute(value, index);
  --depth;
  known[value].push_back({key, result});
  return result;
}

SymbolicExpr IndexExpressions::scalar(Value value) {
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  if (!type) {
    return {};
  }
  SmallVector<SymbolicExpr> zeros(static_cast<size_t>(type.getRank()), SymbolicExpr::constant(0));
  ElementExpr result = element(value, zeros);
  return result.kind == ElementExpr::Kind::Integer ? result.integer : SymbolicExpr();
}
