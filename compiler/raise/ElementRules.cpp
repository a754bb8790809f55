// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one element of each onnx operator's result is. An operator without a rule is unknown, never
// guessed.
#include "compiler/raise/IndexExpression.h"
#include "compiler/raise/NodeMatch.h"
#include "compiler/raise/TensorView.h"
#include "compiler/support/WeightStore.h"
#include "dialects/onnx/NodeBinder.h"

#include "llvm/ADT/StringSwitch.h"
#include "mlir/IR/BuiltinTypes.h"

#include <cmath>

using namespace mlir;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace sluicec::raise {

/// Rules for one node and index.
class ElementRules {
public:
  ElementRules(IndexExpressions &expressions, NodeBinder node, Value value,
               ArrayRef<SymbolicExpr> index)
      : expressions(expressions), node(node), value(value), index(index.begin(), index.end()) {}

  ElementExpr run();

private:
  using Index = SmallVector<SymbolicExpr, 4>;
  IndexExpressions &expressions;
  NodeBinder node;
  Value value;
  Index index;

  ElementExpr unknown() { return ElementExpr::unknown(node.op()); }
  ElementExpr operandAt(size_t i, ArrayRef<SymbolicExpr> at) {
    Value operand = node.operand(i);
    return operand ? expressions.element(operand, at) : unknown();
  }
  /// Operand `i`, broadcast to the result.
  ElementExpr broadcast(size_t i);
  size_t axisOf(size_t rank, int64_t axis) {
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  }
  /// Element `i` of an integer vector operand.
  SymbolicExpr vectorElement(size_t operand, int64_t i);

  ElementExpr layout(StringRef type);
  ElementExpr binary(StringRef type);
  ElementExpr reals(StringRef type, const RealExpr &a, const RealExpr &b);
  ElementExpr compare(StringRef type);
  ElementExpr cast();
  ElementExpr reshape();
  ElementExpr concat();
  ElementExpr slice();
  ElementExpr split();
  ElementExpr gather();
  ElementExpr gatherND();
  ElementExpr shape();
  ElementExpr sums(bool prefix);
  ElementExpr matMul();
  ElementExpr trig(bool cosine);
};

} // namespace sluicec::raise

namespace {

bool isOne(const SymbolicExpr &size) { return size.isConstant(1); }

/// As a real number; unknown conditions stay Select.
std::optional<RealExpr> asReal(const ElementExpr &element) {
  switch (element.kind) {
  case ElementExpr::Kind::Unknown:
    return std::nullopt;
  case ElementExpr::Kind::Integer:
    return RealExpr::affine(1.0, element.integer);
  case ElementExpr::Kind::Boolean:
    return RealExpr::select(element.condition, RealExpr::constant(1.0), RealExpr::constant(0.0));
  case ElementExpr::Kind::Real:
    return element.real;
  }
  return std::nullopt;
}

/// As a truth value: what differs from zero.
std::optional<Condition> asCondition(const ElementExpr &element) {
  if (element.kind == ElementExpr::Kind::Boolean) {
    return element.condition;
  }
  if (element.kind == ElementExpr::Kind::Integer) {
    return Condition::notZero(element.integer);
  }
  if (element.kind != ElementExpr::Kind::Real) {
    return std::nullopt;
  }
  const RealExpr &real = element.real;
  if (real.kind == RealExpr::Kind::Constant) {
    return real.factor != 0.0 ? Condition::always() : Condition::never();
  }
  if (real.kind == RealExpr::Kind::Affine && real.factor != 0.0) {
    return Condition::notZero(real.integer);
  }
  if (real.kind == RealExpr::Kind::Select) {
    std::optional<Condition> then = asCondition(ElementExpr::of(*real.then)),
                             otherwise = asCondition(ElementExpr::of(*real.otherwise));
    if (then && otherwise) {
      return Condition::either(Condition::both(real.condition, *then),
                               Condition::both(real.condition.negated(), *otherwise));
    }
  }
  return std::nullopt;
}

/// As an integer where the expression is one.
SymbolicExpr asInteger(const ElementExpr &element) {
  if (element.kind == ElementExpr::Kind::Integer) {
    return element.integer;
  }
  if (element.kind == ElementExpr::Kind::Real) {
    const RealExpr &real = element.real;
    if (real.kind == RealExpr::Kind::Affine && real.factor == 1.0) {
      return real.integer;
    }
    if (real.kind == RealExpr::Kind::Constant && std::trunc(real.factor) == real.factor &&
        std::abs(real.factor) < 9e15) {
      return SymbolicExpr::constant(static_cast<int64_t>(real.factor));
    }
  }
  return {};
}

/// Element of a tensor of numbers whose values are known when compiling; `table` is the constant or
/// weight.
ElementExpr constantElement(Value table, ArrayRef<SymbolicExpr> index) {
  auto type = cast<RankedTensorType>(table.getType());
  int64_t position = 0;
  for (auto [size, part] : llvm::zip(type.getShape(), index)) {
    std::optional<int64_t> at = part.asConstant();
    if (!at) {
      std::optional<int64_t> column = index.back().asConstant();
      if (index.size() == 2 && column && isa<FloatType>(type.getElementType())) {
        RealExpr real;
        real.kind = RealExpr::Kind::Table;
        real.factor = 1.0;
        real.table = table;
        real.integer = index.front();
        real.column = *column;
        return ElementExpr::of(real);
      }
      ElementsAttr constant = sluicec::onnx::constantValue(table);
      if (!constant || !constant.isSplat()) {
        return ElementExpr::unknown(table.getDefiningOp());
      }
      position = 0;
      break;
    }
    if (*at < 0 || *at >= size) {
      return ElementExpr::unknown(table.getDefiningOp());
    }
    position = position * size + *at;
  }
  Type element = type.getElementType();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(sluicec::onnx::constantValue(table))) {
    if (isa<FloatType>(element)) {
      APFloat number = *(dense.value_begin<APFloat>() + position);
      bool loses = false;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      return ElementExpr::of(RealExpr::constant(number.convertToDouble()));
    }
    APInt number = *(dense.value_begin<APInt>() + position);
    if (element.isInteger(1)) {
      return ElementExpr::of(number.isZero() ? Condition::never() : Condition::always());
    }
    return ElementExpr::of(SymbolicExpr::constant(element.isUnsignedInteger()
                                                      ? static_cast<int64_t>(number.getZExtValue())
                                                      : number.getSExtValue()));
  }
  auto &store = sluicec::support::WeightStore::of(table.getContext());
  ArrayRef<char> bytes = store.bytes(sluicec::onnx::weightName(table));
  if (bytes.empty() || !isa<FloatType, IntegerType>(element)) {
    return ElementExpr::unknown(table.getDefiningOp());
  }
  double number = sluicec::support::decodeElement(element, bytes, position);
  return isa<FloatType>(element)
             ? ElementExpr::of(RealExpr::constant(number))
             : ElementExpr::of(SymbolicExpr::constant(static_cast<int64_t>(number)));
}

} // namespace

ElementExpr ElementRules::broadcast(size_t i) {
  SymbolicShape shape = shapeOf(node.operand(i));
  Index at;
  for (size_t d = 0; d < shape.size(); ++d) {
    size_t from = d + index.size() - shape.size();
    at.push_back(isOne(shape[d]) ? SymbolicExpr::constant(0) : index[from]);
  }
  return shape.size() <= index.size() ? operandAt(i, at) : unknown();
}

SymbolicExpr ElementRules::vectorElement(size_t operand, int64_t i) {
  return asInteger(operandAt(operand, {SymbolicExpr::constant(i)}));
}

ElementExpr ElementRules::cast() {
  ElementExpr from = operandAt(0, index);
  Type to = cast<RankedTensorType>(value.getType()).getElementType();
  if (from.isUnknown()) {
    return from;
  }
  if (to.isInteger(1)) {
    std::optional<Condition> condition = asCondition(from);
    return condition ? ElementExpr::of(*condition) : unknown();
  }
  if (isa<IntegerType>(to)) {
    SymbolicExpr integer = asInteger(from);
    if (!integer.isUnknown()) {
      return ElementExpr::of(integer);
    }
  }
  if (isa<IntegerType>(to) && from.kind == ElementExpr::Kind::Boolean &&
      (from.condition.kind == Condition::Kind::Always ||
       from.condition.kind == Condition::Kind::Never)) {
    bool truth = from.condition.kind == Condition::Kind::Always;
    return ElementExpr::of(SymbolicExpr::constant(truth ? 1 : 0));
  }
  std::optional<RealExpr> real = asReal(from); // a truth value as integer stays a Select of 1 and 0
  return real ? ElementExpr::of(*real) : unknown();
}

/// Applies `a op b` below the Selects.
ElementExpr ElementRules::reals(StringRef type, const RealExpr &a, const RealExpr &b) {
  using Kind = RealExpr::Kind;
  if (a.kind == Kind::Select || b.kind == Kind::Select) {
    const RealExpr &select = a.kind == Kind::Select ? a : b;
    auto side = [&](const RealExpr &leaf) {
      return a.kind == Kind::Select ? reals(type, leaf, b) : reals(type, a, leaf);
    };
    ElementExpr then = side(*select.then), otherwise = side(*select.otherwise);
    if (then.kind != ElementExpr::Kind::Real || otherwise.kind != ElementExpr::Kind::Real) {
      return unknown();
    }
    return ElementExpr::of(RealExpr::select(select.condition, then.real, otherwise.real));
  }
  bool constants = a.kind == Kind::Constant && b.kind == Kind::Constant;
  double x = a.factor, y = b.factor;
  if (type == "Mul" || type == "Div") {
    if (type == "Mul" && a.kind == Kind::Constant && b.kind != Kind::Constant) {
      return reals(type, b, a);
    }
    if (b.kind != Kind::Constant) {
      return unknown();
    }
    RealExpr result = a;
    // 0 * inf would be NaN in the file too; masks written so are not understood here.
    result.factor = type == "Mul" ? x * y : x / y;
    return std::isnan(result.factor) ? unknown() : ElementExpr::of(result);
  }
  if (type == "Add" || type == "Sub") {
    if (constants) {
      return ElementExpr::of(RealExpr::constant(type == "Add" ? x + y : x - y));
    }
    if (b.kind == Kind::Constant && y == 0.0) {
      return ElementExpr::of(a);
    }
    if (type == "Add" && a.kind == Kind::Constant && x == 0.0) {
      return ElementExpr::of(b);
    }
    auto integral = [](const RealExpr &r) { return asInteger(ElementExpr::of(r)); };
    SymbolicExpr i = integral(a), j = integral(b);
    SymbolicExpr sum = type == "Add" ? i + j : i - j;
    return sum.isUnknown() ? unknown() : ElementExpr::of(RealExpr::affine(1.0, sum));
  }
  if (constants && (type == "Max" || type == "Min")) {
    return ElementExpr::of(RealExpr::constant(type == "Max" ? std::max(x, y) : std::min(x, y)));
  }
  return unknown();
}

ElementExpr ElementRules::binary(StringRef type) {
  ElementExpr a = broadcast(0), b = node.numOperands() > 1 ? broadcast(1) : a;
  if (a.isUnknown() || b.isUnknown()) {
    return a.isUnknown() ? a : b;
  }
  if (a.kind == ElementExpr::Kind::Integer && b.kind == ElementExpr::Kind::Integer) {
    SymbolicExpr result;
    std::optional<int64_t> divisor = b.integer.asConstant();
    if (type == "Add") {
      result = a.integer + b.integer;
    } else if (type == "Sub") {
      result = a.integer - b.integer;
    } else if (type == "Mul") {
      result = a.integer * b.integer;
    } else if (type == "Max") {
      result = SymbolicExpr::max(a.integer, b.integer);
    } else if (type == "Min") {
      result = SymbolicExpr::min(a.integer, b.integer);
    } else if (divisor && *divisor > 0 && (type == "Div" || type == "Mod")) {
      // ONNX Div truncates; the same as flooring where nothing is negative.
      SymbolicExpr quotient =
          a.integer.isAtLeast(0) ? SymbolicExpr::floorDiv(a.integer, *divisor) : SymbolicExpr();
      result = type == "Div" ? quotient : a.integer - quotient * b.integer;
    }
    return result.isUnknown() ? unknown() : ElementExpr::of(result);
  }
  std::optional<RealExpr> x = asReal(a), y = asReal(b);
  return x && y ? reals(type, *x, *y) : unknown();
}

ElementExpr ElementRules::compare(StringRef type) {
  ElementExpr a = broadcast(0), b = broadcast(1);
  if (a.isUnknown() || b.isUnknown()) {
    return a.isUnknown() ? a : b;
  }
  if (type == "And" || type == "Or") {
    std::optional<Condition> x = asCondition(a), y = asCondition(b);
    return !x || !y ? unknown()
                    : ElementExpr::of(type == "And" ? Condition::both(*x, *y)
                                                    : Condition::either(*x, *y));
  }
  if (type == "Equal" && a.kind == ElementExpr::Kind::Boolean &&
      b.kind == ElementExpr::Kind::Boolean) {
    return ElementExpr::of(
        Condition::either(Condition::both(a.condition, b.condition),
                          Condition::both(a.condition.negated(), b.condition.negated())));
  }
  SymbolicExpr x = asInteger(a), y = asInteger(b);
  SymbolicExpr difference = x - y;
  if (difference.isUnknown()) {
    return unknown();
  }
  SymbolicExpr one = SymbolicExpr::constant(1);
  return llvm::StringSwitch<std::function<ElementExpr()>>(type)
      .Case("Equal", [&] { return ElementExpr::of(Condition::zero(difference)); })
      .Case("Greater", [&] { return ElementExpr::of(Condition::atLeastZero(difference - one)); })
      .Case("GreaterOrEqual", [&] { return ElementExpr::of(Condition::atLeastZero(difference)); })
      .Case("Less", [&] { return ElementExpr::of(Condition::atLeastZero(-difference - one)); })
      .Case("LessOrEqual", [&] { return ElementExpr::of(Condition::atLeastZero(-difference)); })
      .Default([&] { return unknown(); })();
}

/// Matches the dimensions of operand and result from the front; a group of dimensions may be joined
/// or split.
ElementExpr ElementRules::reshape() {
  SymbolicShape from = shapeOf(node.operand(0)), to = shapeOf(value);
  Index at;
  size_t out = 0;
  for (size_t in = 0; in < from.size();) {
    while (out < to.size() && isOne(to[out]) && !isOne(from[in])) {
      ++out;
    }
    if (isOne(from[in])) {
      at.push_back(SymbolicExpr::constant(0));
      ++in;
      continue;
    }
    if (out == to.size()) {
      return unknown();
    }
    if (from[in] == to[out]) {
      at.push_back(index[out++]);
      ++in;
      continue;
    }
    if (SymbolicExpr more = from[in].exactDiv(to[out]); !more.isUnknown()) {
      // One operand dimension split into several.
      SymbolicExpr position = index[out], covered = to[out];
      for (++out; out < to.size() && !(covered == from[in]); ++out) {
        position = position * to[out] + index[out];
        covered = covered * to[out];
      }
      if (!(covered == from[in])) {
        return unknown();
      }
      at.push_back(position);
      ++in;
      continue;
    }
    // Several operand dimensions joined: the index must show its parts, as b * T + k does.
    SymbolicExpr position = index[out], covered = from[in];
    size_t end = in + 1;
    for (; end < from.size() && !(covered == to[out]); ++end) {
      covered = covered * from[end];
    }
    if (!(covered == to[out])) {
      return unknown();
    }
    Index parts;
    for (size_t d = end; d > in + 1; --d) {
      auto [quotient, rest] = position.divideTerms(from[d - 1]);
      parts.push_back(rest);
      position = quotient;
    }
    at.push_back(position);
    at.append(parts.rbegin(), parts.rend());
    in = end;
    ++out;
  }
  return operandAt(0, at);
}

ElementExpr ElementRules::concat() {
  size_t axis = axisOf(index.size(), node.attrInt("axis"));
  if (node.numOperands() == 1) {
    return operandAt(0, index);
  }
  std::optional<int64_t> position = index[axis].asConstant();
  for (size_t i = 0; position && i < node.numOperands(); ++i) {
    SymbolicShape shape = shapeOf(node.operand(i));
    std::optional<int64_t> size = axis < shape.size() ? shape[axis].asConstant() : std::nullopt;
    if (!size) {
      return unknown();
    }
    if (*position < *size) {
      Index at = index;
      at[axis] = SymbolicExpr::constant(*position);
      return operandAt(i, at);
    }
    *position -= *size;
  }
  return unknown();
}

ElementExpr ElementRules::slice() {
  SymbolicShape from = shapeOf(node.operand(0));
  SymbolicShape count = shapeOf(node.operand(1));
  std::optional<int64_t> numAxes = count.size() == 1 ? count[0].asConstant() : std::nullopt;
  if (!numAxes) {
    return unknown();
  }
  Index at = index;
  for (int64_t i = 0; i < *numAxes; ++i) {
    SymbolicExpr axis = node.operand(3) ? vectorElement(3, i) : SymbolicExpr::constant(i);
    SymbolicExpr start = vectorElement(1, i);
    SymbolicExpr step = node.operand(4) ? vectorElement(4, i) : SymbolicExpr::constant(1);
    if (!axis.asConstant() || start.isUnknown() || !step.asConstant() || *step.asConstant() < 1) {
      return unknown();
    }
    size_t d = axisOf(from.size(), *axis.asConstant());
    if (d >= from.size()) {
      return unknown();
    }
    std::optional<int64_t> constant = start.asConstant();
    if (constant && *constant < 0) {
      // Below the lowest index is the lowest index; the file writes that as a very negative number.
      bool beyond = *constant < -(int64_t(1) << 40);
      start = beyond ? SymbolicExpr::constant(0) : from[d] + start;
    }
    at[d] = start + index[d] * step;
  }
  return operandAt(0, at);
}

ElementExpr ElementRules::split() {
  size_t axis = axisOf(index.size(), node.attrInt("axis"));
  SymbolicExpr start = SymbolicExpr::constant(0);
  for (unsigned i = 0, e = cast<OpResult>(value).getResultNumber(); i < e; ++i) {
    start = start + shapeOf(node.op()->getResult(i))[axis];
  }
  Index at = index;
  at[axis] = at[axis] + start;
  return operandAt(0, at);
}

ElementExpr ElementRules::gather() {
  SymbolicShape from = shapeOf(node.operand(0)), indices = shapeOf(node.operand(1));
  size_t axis = axisOf(from.size(), node.attrInt("axis"));
  Index which(index.begin() + static_cast<ptrdiff_t>(axis),
              index.begin() + static_cast<ptrdiff_t>(axis + indices.size()));
  ElementExpr chosen = operandAt(1, which);
  SymbolicExpr position = asInteger(chosen);
  if (position.isUnknown()) {
    return chosen.isUnknown() ? chosen : unknown();
  }
  if (std::optional<int64_t> constant = position.asConstant(); constant && *constant < 0) {
    position = from[axis] + position;
  }
  Index at(index.begin(), index.begin() + static_cast<ptrdiff_t>(axis));
  at.push_back(position);
  at.append(index.begin() + static_cast<ptrdiff_t>(axis + indices.size()), index.end());
  return operandAt(0, at);
}

ElementExpr ElementRules::gatherND() {
  SymbolicShape from = shapeOf(node.operand(0)), indices = shapeOf(node.operand(1));
  std::optional<int64_t> depth = indices.empty() ? std::nullopt : indices.back().asConstant();
  if (node.attrInt("batch_dims") != 0 || !depth || *depth > static_cast<int64_t>(from.size())) {
    return unknown();
  }
  Index at;
  for (int64_t i = 0; i < *depth; ++i) {
    Index which(index.begin(), index.begin() + static_cast<ptrdiff_t>(indices.size() - 1));
    which.push_back(SymbolicExpr::constant(i));
    ElementExpr part = operandAt(1, which);
    at.push_back(asInteger(part));
    if (at.back().isUnknown()) {
      return part.isUnknown() ? part : unknown();
    }
  }
  at.append(index.begin() + static_cast<ptrdiff_t>(indices.size() - 1), index.end());
  return operandAt(0, at);
}

ElementExpr ElementRules::shape() {
  SymbolicShape from = shapeOf(node.operand(0));
  int64_t rank = static_cast<int64_t>(from.size());
  int64_t start = node.attrInt("start");
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  std::optional<int64_t> at = index[0].asConstant();
  return at && start + *at < rank ? ElementExpr::of(from[static_cast<size_t>(start + *at)])
                                  : unknown();
}

/// CumSum along, or ReduceSum over, the last dimension of an integer input of rank 2 (casts
/// between).
ElementExpr ElementRules::sums(bool prefix) {
  Value operand = node.operand(0);
  SymbolicShape from = shapeOf(operand);
  std::optional<int64_t> axis = node.constantInt(1);
  if (from.size() != 2 || !axis || axisOf(2, *axis) != 1 ||
      (prefix && (node.attrInt("exclusive") != 0 || node.attrInt("reverse") != 0))) {
    return unknown();
  }
  for (NodeBinder cast(operand); cast.is("Cast") || cast.is("Identity");
       cast = NodeBinder(operand)) {
    operand = cast.operand(0);
  }
  auto argument = dyn_cast<BlockArgument>(operand);
  auto type = dyn_cast<RankedTensorType>(operand.getType());
  if (!argument || !type || !isa<IntegerType>(type.getElementType())) {
    return unknown();
  }
  return ElementExpr::of(prefix ? prefixSumAtom(argument, index[0], index[1])
                                : rowSumAtom(argument, index[0]));
}

/// A product over an inner dimension of size 1, as rotary angles are written.
ElementExpr ElementRules::matMul() {
  SymbolicShape a = shapeOf(node.operand(0)), b = shapeOf(node.operand(1));
  size_t rank = index.size();
  if (a.size() < 2 || b.size() < 2 || rank < 2 || !isOne(a.back())) {
    return unknown();
  }
  auto at = [&](const SymbolicShape &from, SymbolicExpr row, SymbolicExpr column) {
    Index result;
    for (size_t d = 0; d + 2 < from.size(); ++d) {
      result.push_back(isOne(from[d]) ? SymbolicExpr::constant(0) : index[d + rank - from.size()]);
    }
    result.push_back(std::move(row));
    result.push_back(std::move(column));
    return result;
  };
  ElementExpr left = operandAt(0, at(a, index[rank - 2], SymbolicExpr::constant(0)));
  ElementExpr right = operandAt(1, at(b, SymbolicExpr::constant(0), index[rank - 1]));
  std::optional<RealExpr> x = asReal(left), y = asReal(right);
  return x && y ? reals("Mul", *x, *y) : left.isUnknown() ? left : right;
}

ElementExpr ElementRules::trig(bool cosine) {
  ElementExpr angle = operandAt(0, index);
  std::optional<RealExpr> real = asReal(angle);
  if (!real) {
    return angle;
  }
  if (real->kind == RealExpr::Kind::Constant) {
    return ElementExpr::of(
        RealExpr::constant(cosine ? std::cos(real->factor) : std::sin(real->factor)));
  }
  if (real->kind != RealExpr::Kind::Affine) {
    return unknown();
  }
  RealExpr result = *real;
  result.kind = cosine ? RealExpr::Kind::Cosine : RealExpr::Kind::Sine;
  result.angle = real->factor;
  result.factor = 1.0;
  return ElementExpr::of(result);
}

ElementExpr ElementRules::layout(StringRef type) {
  Index at = index;
  if (type == "Transpose") {
    auto perm = node.attrInts("perm");
    for (size_t i = 0; i < index.size(); ++i) {
      at[perm ? static_cast<size_t>((*perm)[i]) : index.size() - 1 - i] = index[i];
    }
    return operandAt(0, at);
  }
  if (type == "Expand") {
    return broadcast(0);
  }
  if (type == "Trilu") {
    std::optional<int64_t> diagonal =
        node.operand(1) ? node.constantInt(1) : std::optional<int64_t>(0);
    ElementExpr inner = operandAt(0, index);
    std::optional<RealExpr> real = asReal(inner);
    if (!diagonal || !real) {
      return real ? unknown() : inner;
    }
    SymbolicExpr distance =
        index[index.size() - 1] - index[index.size() - 2] - SymbolicExpr::constant(*diagonal);
    Condition kept = Condition::atLeastZero(node.attrInt("upper") != 0 ? distance : -distance);
    if (inner.kind == ElementExpr::Kind::Boolean) {
      return ElementExpr::of(Condition::both(kept, inner.condition));
    }
    return ElementExpr::of(RealExpr::select(kept, *real, RealExpr::constant(0.0)));
  }
  return reshape();
}

ElementExpr ElementRules::run() {
  StringRef type = node.op().getOpType();
  if (!node.op().getDomain().empty()) {
    return unknown();
  }
  if (type == "Identity") {
    return operandAt(0, index);
  }
  if (type == "Cast") {
    return cast();
  }
  if (type == "Reshape" || type == "Squeeze" || type == "Unsqueeze" || type == "Flatten" ||
      type == "Transpose" || type == "Expand" || type == "Trilu") {
    return hasKnownAxes(node) ? layout(type) : unknown();
  }
  if (type == "Add" || type == "Sub" || type == "Mul" || type == "Div" || type == "Mod" ||
      type == "Max" || type == "Min") {
    return node.numOperands() <= 2 ? binary(type) : unknown();
  }
  if (type == "Neg") {
    ElementExpr inner = operandAt(0, index);
    if (inner.kind == ElementExpr::Kind::Integer) {
      return ElementExpr::of(-inner.integer);
    }
    return inner.kind == ElementExpr::Kind::Real
               ? reals("Mul", inner.real, RealExpr::constant(-1.0))
               : inner;
  }
  if (type == "Not") {
    ElementExpr inner = operandAt(0, index);
    return inner.kind == ElementExpr::Kind::Boolean ? ElementExpr::of(inner.condition.negated())
                                                    : inner;
  }
  if (type == "Where") {
    ElementExpr condition = broadcast(0), a = broadcast(1), b = broadcast(2);
    std::optional<Condition> c = asCondition(condition);
    if (c && (c->kind == Condition::Kind::Always || c->kind == Condition::Kind::Never)) {
      return c->kind == Condition::Kind::Always ? a : b;
    }
    if (c && a.kind == ElementExpr::Kind::Boolean && b.kind == ElementExpr::Kind::Boolean) {
      return ElementExpr::of(Condition::either(Condition::both(*c, a.condition),
                                               Condition::both(c->negated(), b.condition)));
    }
    std::optional<RealExpr> x = asReal(a), y = asReal(b);
    if (!c || !x || !y) {
      return !c ? condition : !x ? a : b;
    }
    return ElementExpr::of(RealExpr::select(*c, *x, *y));
  }
  if (type == "Range") {
    SymbolicExpr start = expressions.scalar(node.operand(0)),
                 delta = expressions.scalar(node.operand(2));
    SymbolicExpr at = start + index[0] * delta;
    return at.isUnknown() ? unknown() : ElementExpr::of(at);
  }
  if (type == "ConstantOfShape") {
    DenseElementsAttr fill = node.attrTensor("value");
    if (!fill) {
      return ElementExpr::of(RealExpr::constant(0.0));
    }
    if (fill.getElementType().isInteger(1)) {
      return ElementExpr::of(fill.getSplatValue<bool>() ? Condition::always() : Condition::never());
    }
    if (isa<IntegerType>(fill.getElementType())) {
      return ElementExpr::of(SymbolicExpr::constant(fill.getSplatValue<APInt>().getSExtValue()));
    }
    return ElementExpr::of(RealExpr::constant(fill.getSplatValue<APFloat>().convertToDouble()));
  }
  return llvm::StringSwitch<std::function<ElementExpr()>>(type)
      .Cases({"And", "Or", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"},
             [&] { return compare(type); })
      .Case("Concat", [&] { return concat(); })
      .Case("Slice", [&] { return slice(); })
      .Case("Split", [&] { return split(); })
      .Case("Gather", [&] { return gather(); })
      .Case("GatherND", [&] { return gatherND(); })
      .Case("Shape", [&] { return shape(); })
      .Case("CumSum", [&] { return sums(true); })
      .Case("ReduceSum", [&] { return sums(false); })
      .Case("MatMul", [&] { return matMul(); })
      .Case("Cos", [&] { return trig(true); })
      .Case("Sin", [&] { return trig(false); })
      .Default([&] { return unknown(); })();
}

ElementExpr IndexExpressions::compute(Value value, ArrayRef<SymbolicExpr> index) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || static_cast<size_t>(type.getRank()) != index.size()) {
    return ElementExpr::unknown(value.getDefiningOp());
  }
  if (auto name = defined.find(value); name != defined.end() && index.size() == 1) {
    return ElementExpr::of(SymbolicExpr::atom(name->second + "[" + index[0].str() + "]"));
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (!isa<IntegerType>(type.getElementType())) {
      return ElementExpr::unknown(nullptr);
    }
    SymbolicExpr load = loadAtom(argument, index);
    return type.getElementType().isInteger(1) ? ElementExpr::of(Condition::notZero(load))
                                              : ElementExpr::of(load);
  }
  Operation *op = value.getDefiningOp();
  if (isa<onnx::ConstantOp, onnx::WeightOp>(op)) {
    return constantElement(value, index);
  }
  NodeBinder node(op);
  return node ? ElementRules(*this, node, value, index).run() : ElementExpr::unknown(op);
}
