// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AttributeProto → MLIR attributes, checked against the op table.
#include "compiler/import/GraphImporter.h"

#include "onnx/onnx-ml.pb.h"

using namespace mlir;
namespace sluicec {
using AttributeProto = ::onnx::AttributeProto;

const AttributeProto *
resolveReference(const AttributeProto &attribute,
                 const llvm::StringMap<const AttributeProto *> &callAttributes) {
  if (attribute.ref_attr_name().empty()) {
    return &attribute;
  }
  auto found = callAttributes.find(attribute.ref_attr_name());
  return found == callAttributes.end() ? nullptr : found->second;
}

// The letter of the op table for an attribute's type; "" where the table has none.
static llvm::StringRef typeLetter(AttributeProto::AttributeType type) {
  switch (type) {
  case AttributeProto::INT:
    return "i";
  case AttributeProto::FLOAT:
    return "f";
  case AttributeProto::STRING:
    return "s";
  case AttributeProto::TENSOR:
    return "t";
  case AttributeProto::GRAPH:
    return "g";
  case AttributeProto::INTS:
    return "is";
  case AttributeProto::FLOATS:
    return "fs";
  case AttributeProto::STRINGS:
    return "ss";
  default:
    return "";
  }
}

FailureOr<Attribute> GraphImporter::importAttribute(const AttributeProto &attribute,
                                                    Location location) {
  switch (attribute.type()) {
  case AttributeProto::INT:
    return Attribute(builder.getI64IntegerAttr(attribute.i()));
  case AttributeProto::FLOAT:
    return Attribute(builder.getF32FloatAttr(attribute.f()));
  case AttributeProto::STRING:
    return Attribute(builder.getStringAttr(attribute.s()));
  case AttributeProto::INTS:
    return Attribute(builder.getDenseI64ArrayAttr(
        llvm::SmallVector<int64_t>(attribute.ints().begin(), attribute.ints().end())));
  case AttributeProto::FLOATS:
    return Attribute(builder.getDenseF32ArrayAttr(
        llvm::SmallVector<float>(attribute.floats().begin(), attribute.floats().end())));
  case AttributeProto::STRINGS:
    return Attribute(builder.getStrArrayAttr(llvm::SmallVector<llvm::StringRef>(
        attribute.strings().begin(), attribute.strings().end())));
  case AttributeProto::TENSOR: {
    FailureOr<DenseElementsAttr> tensor = tensors.readAttribute(attribute.t(), location);
    return failed(tensor) ? FailureOr<Attribute>(failure()) : FailureOr<Attribute>(*tensor);
  }
  default:
    emitError(location) << "attribute '" << attribute.name() << "' has an unsupported type ("
                        << static_cast<int>(attribute.type()) << ")";
    return failure();
  }
}

FailureOr<DictionaryAttr> GraphImporter::importAttributes(const ::onnx::NodeProto &node,
                                                          const onnx::OpRow &row, Location location,
                                                          const Scope &scope) {
  NamedAttrList attributes;
  llvm::StringMap<bool> given;
  for (const AttributeProto &stated : node.attribute()) {
    const AttributeProto *attribute = resolveReference(stated, scope.attributes);
    if (!attribute) {
      continue; // the call of the function leaves it out: the default holds
    }
    std::optional<onnx::AttributeRule> rule = onnx::attributeRule(row, stated.name());
    if (!rule) {
      emitError(location) << node.op_type() << ": attribute '" << stated.name()
                          << "' is not known to this operator";
      return failure();
    }
    if (typeLetter(attribute->type()) != rule->type) {
      emitError(location)
          << node.op_type() << ": attribute '" << stated.name() << "' has type "
          << AttributeProto::AttributeType_Name(attribute->type()) << ", expected '" << rule->type
          << "' (i, f, s, t, g: int, float, string, tensor, graph; is, fs, ss: lists)";
      return failure();
    }
    if (!given.try_emplace(stated.name(), true).second) {
      emitError(location) << node.op_type() << ": attribute '" << stated.name()
                          << "' is given twice";
      return failure();
    }
    if (attribute->type() == AttributeProto::GRAPH) {
      continue; // becomes a region
    }
    FailureOr<Attribute> value = importAttribute(*attribute, location);
    if (failed(value)) {
      return failure();
    }
    attributes.append(stated.name(), *value);
  }
  for (llvm::StringRef name : onnx::requiredAttributes(row)) {
    if (!given.contains(name)) {
      emitError(location) << node.op_type() << ": attribute '" << name << "' is missing";
      return failure();
    }
  }
  return attributes.getDictionary(builder.getContext());
}

} // namespace sluicec
