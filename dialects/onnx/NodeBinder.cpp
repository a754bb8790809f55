// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads operands, attributes and constants of an onnx.node.
#include "dialects/onnx/NodeBinder.h"

#include "dialects/onnx/OnnxOpTable.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace sluicec::onnx;

NodeBinder::NodeBinder(NodeOp op)
    : node(op), opRow(op ? findOp(op.getDomain(), op.getOpType()) : nullptr) {}
NodeBinder::NodeBinder(Operation *op) : NodeBinder(dyn_cast_or_null<NodeOp>(op)) {}
NodeBinder::NodeBinder(Value value) : NodeBinder(value ? value.getDefiningOp() : nullptr) {}

bool NodeBinder::is(llvm::StringRef opType, llvm::StringRef domain) const {
  return node && const_cast<NodeOp &>(node).is(domain, opType);
}

int64_t NodeBinder::version() const { return NodeOp(node).getSinceVersion(); }
size_t NodeBinder::numOperands() const { return node->getNumOperands(); }
size_t NodeBinder::numResults() const { return node->getNumResults(); }

Value NodeBinder::operand(size_t index) const {
  if (index >= numOperands()) {
    return {};
  }
  Value value = node->getOperand(index);
  return isNone(value) ? Value() : value;
}

Value NodeBinder::result(size_t index) const {
  if (index >= numResults()) {
    return {};
  }
  Value value = node->getResult(index);
  return isNone(value) ? Value() : value;
}

RankedTensorType NodeBinder::operandType(size_t index) const {
  Value value = operand(index);
  return value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
}

RankedTensorType NodeBinder::resultType(size_t index) const {
  Value value = result(index);
  return value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
}

Attribute NodeBinder::attr(llvm::StringRef name) const { return NodeOp(node).getAttrs().get(name); }
bool NodeBinder::hasAttr(llvm::StringRef name) const { return attr(name) != nullptr; }

// The default text of attribute `name` of type `type` in the table.
static llvm::StringRef defaultText(const OpRow *row, llvm::StringRef name, llvm::StringRef type) {
  assert(row && "no default of an unknown operator");
  std::optional<AttributeRule> rule = attributeRule(*row, name);
  assert(rule && rule->type == type && rule->presence == AttributeRule::Presence::Defaulted &&
         "no such default");
  return rule ? rule->defaultText : "";
}

int64_t NodeBinder::attrInt(llvm::StringRef name) const {
  if (auto stated = dyn_cast_or_null<IntegerAttr>(attr(name))) {
    return stated.getInt();
  }
  int64_t value = 0;
  defaultText(opRow, name, "i").getAsInteger(10, value);
  return value;
}

float NodeBinder::attrFloat(llvm::StringRef name) const {
  if (auto stated = dyn_cast_or_null<FloatAttr>(attr(name))) {
    return stated.getValue().convertToFloat();
  }
  llvm::StringRef text = defaultText(opRow, name, "f");
  double value = std::numeric_limits<double>::infinity();
  if (text != "inf") {
    text.getAsDouble(value);
  }
  return static_cast<float>(value);
}

llvm::StringRef NodeBinder::attrString(llvm::StringRef name) const {
  auto stated = dyn_cast_or_null<StringAttr>(attr(name));
  return stated ? stated.getValue() : defaultText(opRow, name, "s");
}

int64_t NodeBinder::attrInt(llvm::StringRef name, int64_t fallback) const {
  auto stated = dyn_cast_or_null<IntegerAttr>(attr(name));
  return stated ? stated.getInt() : fallback;
}

float NodeBinder::attrFloat(llvm::StringRef name, float fallback) const {
  auto stated = dyn_cast_or_null<FloatAttr>(attr(name));
  return stated ? stated.getValue().convertToFloat() : fallback;
}

std::optional<llvm::ArrayRef<int64_t>> NodeBinder::attrInts(llvm::StringRef name) const {
  auto stated = dyn_cast_or_null<DenseI64ArrayAttr>(attr(name));
  return stated ? std::optional(stated.asArrayRef()) : std::nullopt;
}

std::optional<llvm::ArrayRef<float>> NodeBinder::attrFloats(llvm::StringRef name) const {
  auto stated = dyn_cast_or_null<DenseF32ArrayAttr>(attr(name));
  return stated ? std::optional(stated.asArrayRef()) : std::nullopt;
}

DenseElementsAttr NodeBinder::attrTensor(llvm::StringRef name) const {
  return dyn_cast_or_null<DenseElementsAttr>(attr(name));
}

std::optional<llvm::SmallVector<int64_t>> NodeBinder::constantInts(size_t index) const {
  return integerElements(operand(index));
}

std::optional<int64_t> NodeBinder::constantInt(size_t index) const {
  auto values = constantInts(index);
  return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
}

std::optional<double> NodeBinder::constantFloat(size_t index) const {
  auto values = floatElements(operand(index));
  return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
}

InFlightDiagnostic NodeBinder::error() const {
  NodeOp op = node;
  return mlir::emitError(op.getLoc()) << op.qualifiedName() << ": ";
}

std::optional<llvm::SmallVector<int64_t>> sluicec::onnx::integerElements(Value value) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(constantValue(value));
  auto type = elements ? dyn_cast<IntegerType>(elements.getElementType()) : IntegerType();
  if (!type || type.getWidth() > 64) {
    return std::nullopt;
  }
  bool isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  llvm::SmallVector<int64_t> values;
  for (const APInt &element : elements.getValues<APInt>()) {
    values.push_back(isUnsigned ? static_cast<int64_t>(element.getZExtValue())
                                : element.getSExtValue());
  }
  return values;
}

std::optional<llvm::SmallVector<double>> sluicec::onnx::floatElements(Value value) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(constantValue(value));
  if (!elements || !isa<FloatType>(elements.getElementType())) {
    return std::nullopt;
  }
  llvm::SmallVector<double> values;
  for (APFloat element : elements.getValues<APFloat>()) {
    bool losesInfo = false;
    element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    values.push_back(element.convertToDouble());
  }
  return values;
}
