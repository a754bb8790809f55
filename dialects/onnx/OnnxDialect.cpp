// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registration, attributes, folders and the textual form of the onnx dialect.
#include "dialects/onnx/OnnxDialect.h"

#include "dialects/onnx/OnnxOpTable.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace sluicec::onnx;

#include "dialects/onnx/OnnxDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/onnx/OnnxTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/onnx/OnnxAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/onnx/OnnxOps.cpp.inc"

void OnnxDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/onnx/OnnxTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/onnx/OnnxAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/onnx/OnnxOps.cpp.inc"
      >();
}

Operation *OnnxDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location loc) {
  if (isa<UnitAttr>(value) && isa<NoneType>(type)) {
    return NoneOp::create(builder, loc, type);
  }
  auto elements = dyn_cast<ElementsAttr>(value);
  return elements && elements.getShapedType() == type ? ConstantOp::create(builder, loc, elements)
                                                      : nullptr;
}

LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getNames().size()) {
    return emitError() << "onnx.dims names " << getNames().size()
                       << " dimensions of a tensor of rank " << shape.size();
  }
  for (auto [size, dimName] : llvm::zip_equal(shape, getNames())) {
    if (!ShapedType::isDynamic(size) && !dimName.getValue().empty()) {
      return emitError() << "onnx.dims names '" << dimName.getValue()
                         << "' a dimension of static size " << size;
    }
  }
  return success();
}

Location sluicec::onnx::makeLocation(MLIRContext *context, StringRef file, StringRef name,
                                     unsigned index, LocationKind kind) {
  auto position = FileLineColLoc::get(context, file, index, static_cast<unsigned>(kind));
  return NameLoc::get(StringAttr::get(context, name.empty() ? "<unnamed>" : name), position);
}

ElementsAttr sluicec::onnx::constantValue(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  return constant ? constant.getValue() : ElementsAttr();
}

StringRef sluicec::onnx::weightName(Value value) {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  if (auto weight = dyn_cast_or_null<WeightOp>(op)) {
    return weight.getName();
  }
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  return constant ? constant.getName().value_or("") : "";
}

bool sluicec::onnx::isNone(Value value) { return !value || isa<NoneType>(value.getType()); }

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult NoneOp::fold(FoldAdaptor) { return UnitAttr::get(getContext()); }

std::string NodeOp::qualifiedName() { return qualifiedOpName(getDomain(), getOpType()); }

LogicalResult NodeOp::verify() {
  if (getOpType().empty()) {
    return emitOpError("has an empty op_type");
  }
  for (Region &region : getSubgraphs()) {
    if (!isa<YieldOp>(region.front().back())) {
      return emitOpError("has a subgraph that does not end in onnx.yield");
    }
  }
  return success();
}

// onnx.node "domain.Op"(%a, %b) version 13 {axis = 1 : i64} ({subgraph}, {subgraph}) attributes {…}
// : (types) -> types
ParseResult NodeOp::parse(OpAsmParser &parser, OperationState &result) {
  std::string name;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SMLoc nameLoc = parser.getCurrentLocation();
  if (parser.parseString(&name) ||
      parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren)) {
    return failure();
  }
  auto [domain, opType] = splitQualifiedOpName(name);
  int64_t version = 0;
  if (succeeded(parser.parseOptionalKeyword("version"))) {
    if (parser.parseInteger(version)) {
      return failure();
    }
  } else if (const OpRow *row = findOp(domain, opType)) {
    version = row->newestVersion();
  } else {
    return parser.emitError(nameLoc) << "unknown operator '" << name << "' needs a version";
  }
  NamedAttrList attrs;
  if (parser.parseOptionalAttrDict(attrs)) {
    return failure();
  }
  if (succeeded(parser.parseOptionalLParen())) {
    do {
      if (parser.parseRegion(*result.addRegion())) {
        return failure();
      }
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseRParen()) {
      return failure();
    }
  }
  FunctionType type;
  Builder &builder = parser.getBuilder();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), nameLoc, result.operands)) {
    return failure();
  }
  Properties &properties = result.getOrAddProperties<Properties>();
  properties.op_type = builder.getStringAttr(opType);
  properties.domain = builder.getStringAttr(domain);
  properties.since_version = builder.getI64IntegerAttr(version);
  properties.attrs = attrs.getDictionary(builder.getContext());
  result.addTypes(type.getResults());
  return success();
}

void NodeOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printString(qualifiedName());
  printer << '(' << getInputs() << ") version " << getSinceVersion();
  printer.printOptionalAttrDict(getAttrs().getValue());
  if (!getSubgraphs().empty()) {
    printer << " (";
    llvm::interleaveComma(getSubgraphs(), printer,
                          [&](Region &region) { printer.printRegion(region); });
    printer << ')';
  }
  printer.printOptionalAttrDictWithKeyword((*this)->getDiscardableAttrDictionary().getValue());
  printer << " : ";
  printer.printFunctionalType(*this);
}
