// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inference rules of elementwise operators, conversions and quantization, and the broadcasting that
// they share.
#include "dialects/onnx/ElementTypes.h"
#include "dialects/onnx/ShapeRules.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace sluicec::onnx;
using namespace sluicec::onnx::rules;

using Values = llvm::SmallVector<SymbolicExpr>;

std::string rules::shapeText(llvm::ArrayRef<SymbolicExpr> shape) {
  std::string text = "[";
  for (const SymbolicExpr &size : shape) {
    text += (text.size() > 1 ? ", " : "") + (size.isUnknown() ? "?" : size.str());
  }
  return text + "]";
}

SymbolicExpr rules::numElements(llvm::ArrayRef<SymbolicExpr> shape) {
  SymbolicExpr count = SymbolicExpr::constant(1);
  for (const SymbolicExpr &size : shape) {
    count = count * size;
  }
  return count;
}

FailureOr<Type> rules::sameElementType(InferContext &c, size_t first, size_t second) {
  Type a = c.operand(first).elementType;
  Type b = c.operand(second).elementType;
  if (a && b && a != b) {
    c.error() << "operands have different element types: operand " << first << " is "
              << elementTypeText(a) << ", operand " << second << " is " << elementTypeText(b)
              << "; expected the same type";
    return failure();
  }
  return a ? a : b;
}

LogicalResult rules::requireRank(InferContext &c, size_t index, size_t rank) {
  std::optional<size_t> found = c.operand(index).rank();
  if (found && *found != rank) {
    return c.error() << "operand " << index << " has rank " << *found << ", expected " << rank;
  }
  return success();
}

// The size of one broadcast dimension. Two unlike symbols can only be equal at run time (or one of
// them 1, which exporters do not rely on): the simpler expression is kept.
static SymbolicExpr broadcastSize(const SymbolicExpr &a, const SymbolicExpr &b) {
  if (a.isConstant(1) || a == b) {
    return b;
  }
  if (b.isConstant(1)) {
    return a;
  }
  if (a.asConstant() || b.asConstant()) {
    return a.asConstant() ? a : b;
  }
  if (a.isUnknown() || b.isUnknown()) {
    return SymbolicExpr();
  }
  auto weight = [](const SymbolicExpr &e) { return std::pair(e.numTerms(), e.str().size()); };
  return weight(b) < weight(a) ? b : a;
}

FailureOr<std::optional<SymbolicShape>>
rules::broadcastShapes(InferContext &c, const std::optional<SymbolicShape> &a,
                       const std::optional<SymbolicShape> &b) {
  if (!a || !b) {
    return std::optional<SymbolicShape>();
  }
  size_t rank = std::max(a->size(), b->size());
  SymbolicShape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    size_t skipA = rank - a->size();
    size_t skipB = rank - b->size();
    SymbolicExpr sizeA = i < skipA ? SymbolicExpr::constant(1) : (*a)[i - skipA];
    SymbolicExpr sizeB = i < skipB ? SymbolicExpr::constant(1) : (*b)[i - skipB];
    std::optional<int64_t> numberA = sizeA.asConstant();
    std::optional<int64_t> numberB = sizeB.asConstant();
    if (numberA && numberB && *numberA != *numberB && *numberA != 1 && *numberB != 1) {
      c.error() << "shapes " << shapeText(*a) << " and " << shapeText(*b)
                << " do not broadcast; expected equal sizes or 1 in dimension " << i
                << " from the front";
      return failure();
    }
    result[i] = broadcastSize(sizeA, sizeB);
  }
  return std::optional(std::move(result));
}

namespace {
// Broadcasts all operands from `first` on.
FailureOr<std::optional<SymbolicShape>> broadcastOperands(InferContext &c, size_t first = 0) {
  std::optional<SymbolicShape> shape = c.operand(first).shape;
  for (size_t i = first + 1; i < c.operands.size(); ++i) {
    auto next = broadcastShapes(c, shape, c.operand(i).shape);
    if (failed(next)) {
      return failure();
    }
    shape = *next;
  }
  return shape;
}

// Element `index` of an operand that is broadcast to `count` elements; unknown where that needs
// more than a scalar or equal counts.
SymbolicExpr broadcastElement(const TensorFacts &facts, size_t index, size_t count) {
  if (!facts.values || (facts.values->size() != 1 && facts.values->size() != count)) {
    return SymbolicExpr();
  }
  return (*facts.values)[facts.values->size() == 1 ? 0 : index];
}

// Applies `combine` to the operands' values where the result is small and of constant shape.
template <typename Combine> void inferValues(InferContext &c, Combine combine) {
  if (c.results.empty() || !c.results[0].shape ||
      !isa_and_nonnull<IntegerType>(c.results[0].elementType) ||
      llvm::none_of(c.operands,
                    [](const TensorFacts &facts) { return facts.values.has_value(); })) {
    return;
  }
  std::optional<int64_t> count = numElements(*c.results[0].shape).asConstant();
  if (!count || *count > static_cast<int64_t>(kMaxSymbolicValues)) {
    return;
  }
  Values values;
  for (int64_t i = 0; i < *count; ++i) {
    values.push_back(
        combine([&](size_t operand) { return broadcastElement(c.operand(operand), i, *count); }));
  }
  c.setValues(0, std::move(values));
}

SymbolicExpr boolean(std::optional<bool> value) {
  return value ? SymbolicExpr::constant(*value) : SymbolicExpr();
}

SymbolicExpr divide(const SymbolicExpr &a, const SymbolicExpr &b) {
  std::optional<int64_t> x = a.asConstant();
  std::optional<int64_t> y = b.asConstant();
  if (x && y) {
    bool undefined = *y == 0 || (*y == -1 && *x == INT64_MIN);
    return undefined ? SymbolicExpr() : SymbolicExpr::constant(*x / *y);
  }
  SymbolicExpr exact = a.exactDiv(b);
  return exact.isUnknown() && y && a.isAtLeast(0) ? SymbolicExpr::floorDiv(a, *y) : exact;
}

SymbolicExpr combineArithmetic(llvm::StringRef op, const SymbolicExpr &a, const SymbolicExpr &b) {
  if (op == "Add" || op == "Sum") {
    return a + b;
  }
  if (op == "Sub") {
    return a - b;
  }
  if (op == "Mul") {
    return a * b;
  }
  if (op == "Div") {
    return divide(a, b);
  }
  if (op == "Min" || op == "Max") {
    return op == "Min" ? SymbolicExpr::min(a, b) : SymbolicExpr::max(a, b);
  }
  if (op == "Mod") {
    std::optional<int64_t> x = a.asConstant();
    std::optional<int64_t> y = b.asConstant();
    return x && y && *x >= 0 && *y > 0 ? SymbolicExpr::constant(*x % *y) : SymbolicExpr();
  }
  return SymbolicExpr();
}

std::optional<bool> compareValues(llvm::StringRef op, const SymbolicExpr &a,
                                  const SymbolicExpr &b) {
  bool above = (a - b).isAtLeast(1);
  bool below = (b - a).isAtLeast(1);
  bool notBelow = (a - b).isAtLeast(0);
  bool notAbove = (b - a).isAtLeast(0);
  std::optional<bool> unknown;
  if (op == "Equal") {
    return a == b ? std::optional(true) : above || below ? std::optional(false) : unknown;
  }
  if (op == "Greater") {
    return above ? std::optional(true) : notAbove ? std::optional(false) : unknown;
  }
  if (op == "Less") {
    return below ? std::optional(true) : notBelow ? std::optional(false) : unknown;
  }
  if (op == "GreaterOrEqual") {
    return notBelow ? std::optional(true) : below ? std::optional(false) : unknown;
  }
  return notAbove ? std::optional(true) : above ? std::optional(false) : unknown;
}

llvm::StringRef opType(InferContext &c) { return c.binder.op().getOpType(); }
Type boolType(InferContext &c) { return IntegerType::get(c.binder.op().getContext(), 1); }
} // namespace

LogicalResult rules::sameAsFirst(InferContext &c) {
  c.setResult(0, c.operand(0).elementType, c.operand(0).shape);
  if (opType(c) == "Identity") {
    inferValues(c, [](auto element) { return element(0); });
  } else if (opType(c) == "Neg") {
    inferValues(c, [](auto element) { return -element(0); });
  }
  return success();
}

LogicalResult rules::arithmetic(InferContext &c) {
  Type type = c.operand(0).elementType;
  for (size_t i = 1; i < c.operands.size(); ++i) {
    FailureOr<Type> same = sameElementType(c, 0, i);
    if (failed(same)) {
      return failure();
    }
    type = type ? type : *same;
  }
  auto shape = broadcastOperands(c);
  if (failed(shape)) {
    return failure();
  }
  c.setResult(0, type, *shape);
  inferValues(c, [&](auto element) {
    SymbolicExpr result = element(0);
    for (size_t i = 1; i < c.operands.size(); ++i) {
      result = combineArithmetic(opType(c), result, element(i));
    }
    return result;
  });
  return success();
}

LogicalResult rules::compare(InferContext &c) {
  auto shape = broadcastOperands(c);
  if (failed(sameElementType(c, 0, 1)) || failed(shape)) {
    return failure();
  }
  c.setResult(0, boolType(c), *shape);
  inferValues(
      c, [&](auto element) { return boolean(compareValues(opType(c), element(0), element(1))); });
  return success();
}

LogicalResult rules::logical(InferContext &c) {
  for (size_t i = 0; i < c.operands.size(); ++i) {
    Type type = c.operand(i).elementType;
    if (type && !type.isInteger(1)) {
      return c.error() << "operand " << i << " is " << elementTypeText(type) << ", expected i1";
    }
  }
  auto shape = broadcastOperands(c);
  if (failed(shape)) {
    return failure();
  }
  c.setResult(0, boolType(c), *shape);
  llvm::StringRef op = opType(c);
  inferValues(c, [&](auto element) {
    std::optional<int64_t> a = element(0).asConstant();
    std::optional<int64_t> b = op == "Not" ? a : element(1).asConstant();
    if ((op == "And" && (a == 0 || b == 0)) || (op == "Or" && (a == 1 || b == 1))) {
      return SymbolicExpr::constant(op == "Or");
    }
    if (!a || !b) {
      return SymbolicExpr();
    }
    return SymbolicExpr::constant(op == "Not"   ? !*a
                                  : op == "And" ? *a && *b
                                  : op == "Or"  ? *a || *b
                                                : *a != *b);
  });
  return success();
}

LogicalResult rules::classify(InferContext &c) {
  c.setResult(0, boolType(c), c.operand(0).shape);
  return success();
}

LogicalResult rules::power(InferContext &c) {
  auto shape = broadcastOperands(c);
  if (failed(shape)) {
    return failure();
  }
  c.setResult(0, c.operand(0).elementType, *shape); // the exponent may have another type
  return success();
}

LogicalResult rules::where(InferContext &c) {
  Type condition = c.operand(0).elementType;
  if (condition && !condition.isInteger(1)) {
    return c.error() << "the condition is " << elementTypeText(condition) << ", expected i1";
  }
  FailureOr<Type> type = sameElementType(c, 1, 2);
  auto shape = broadcastOperands(c);
  if (failed(type) || failed(shape)) {
    return failure();
  }
  c.setResult(0, *type, *shape);
  inferValues(c, [&](auto element) {
    std::optional<int64_t> chosen = element(0).asConstant();
    SymbolicExpr a = element(1);
    SymbolicExpr b = element(2);
    return chosen ? (*chosen ? a : b) : a == b ? a : SymbolicExpr();
  });
  return success();
}

LogicalResult rules::cast(InferContext &c) {
  int64_t number = c.binder.attrInt("to", 0);
  Type type = elementTypeFromNumber(c.binder.op().getContext(), number);
  if (!type) {
    return c.error() << "attribute 'to' is " << number << ", which is no supported element type";
  }
  c.setResult(0, type, c.operand(0).shape);
  inferValues(c, [&](auto element) {
    SymbolicExpr value = element(0);
    if (!type.isInteger(1)) {
      return value;
    }
    std::optional<bool> isZero = compareValues("Equal", value, SymbolicExpr::constant(0));
    return isZero ? SymbolicExpr::constant(!*isZero) : SymbolicExpr();
  });
  return success();
}

LogicalResult rules::castLike(InferContext &c) {
  c.setResult(0, c.operand(1).elementType, c.operand(0).shape);
  return success();
}

LogicalResult rules::dropout(InferContext &c) {
  c.setResult(0, c.operand(0).elementType, c.operand(0).shape);
  c.setResult(1, boolType(c), c.operand(0).shape);
  return success();
}

LogicalResult rules::quantizeLinear(InferContext &c) {
  MLIRContext *context = c.binder.op().getContext();
  Type type = c.hasOperand(2) ? c.operand(2).elementType
                              : elementTypeFromNumber(context, c.binder.attrInt("output_dtype"));
  if (!type && !c.hasOperand(2)) {
    type = IntegerType::get(context, 8, IntegerType::Unsigned);
  }
  c.setResult(0, type, c.operand(0).shape);
  return success();
}

LogicalResult rules::dequantizeLinear(InferContext &c) {
  Type stated = elementTypeFromNumber(c.binder.op().getContext(), c.binder.attrInt("output_dtype"));
  c.setResult(0, stated ? stated : c.operand(1).elementType, c.operand(0).shape);
  return success();
}

LogicalResult rules::dynamicQuantizeLinear(InferContext &c) {
  MLIRContext *context = c.binder.op().getContext();
  Type byte = IntegerType::get(context, 8, IntegerType::Unsigned);
  c.setResult(0, byte, c.operand(0).shape);
  c.setResult(1, Float32Type::get(context), SymbolicShape());
  c.setResult(2, byte, SymbolicShape());
  return success();
}
