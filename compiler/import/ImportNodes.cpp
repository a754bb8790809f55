// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NodeProto → onnx.node, onnx.constant for Constant, and the inlined body for a call of a
// model-local function.
#include "compiler/import/GraphImporter.h"
#include "compiler/import/SortNodes.h"

#include "mlir/IR/Diagnostics.h"

#include "onnx/onnx-ml.pb.h"

using namespace mlir;
namespace sluicec {

static llvm::StringRef canonicalDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? "" : domain;
}

Location GraphImporter::locateNode(const ::onnx::NodeProto &node, unsigned index,
                                   const Scope &scope) {
  std::string name = node.name();
  if (name.empty()) {
    name = node.output_size() > 0 && !node.output(0).empty() ? node.output(0) : node.op_type();
  }
  return locate(scope.prefix + name, index, onnx::LocationKind::Node);
}

FailureOr<Value> GraphImporter::operand(llvm::StringRef name, Location location,
                                        const Scope &scope) {
  if (name.empty()) {
    return none;
  }
  Value value = scope.find(name);
  if (!value) {
    emitError(location) << "input '" << name
                        << "' is no graph input, initializer or result of a node";
    return failure();
  }
  return value;
}

LogicalResult GraphImporter::unknownOperator(const ::onnx::NodeProto &node, Location location,
                                             const Scope &scope) {
  llvm::StringRef domain = canonicalDomain(node.domain());
  auto opset = scope.opsets->find(domain);
  InFlightDiagnostic error = emitError(location)
                             << "unknown operator '" << node.op_type() << "' of domain '"
                             << (domain.empty() ? "ai.onnx" : domain) << "'";
  if (opset != scope.opsets->end()) {
    error << " version " << opset->second;
  }
  std::string nearest = onnx::nearestOp(domain, node.op_type());
  return nearest.empty() ? error << "; no supported operator has a similar name"
                         : error << "; nearest supported is '" << nearest << "'";
}

// Version, arity. Returns the schema version.
FailureOr<int64_t> GraphImporter::checkSchema(const ::onnx::NodeProto &node, const onnx::OpRow &row,
                                              Location location, const Scope &scope) {
  auto opset = scope.opsets->find(canonicalDomain(node.domain()));
  if (opset == scope.opsets->end()) {
    emitError(location) << row.opType << ": the model does not import domain '"
                        << (row.domain.empty() ? "ai.onnx" : row.domain) << "'";
    return failure();
  }
  int64_t version = row.resolveVersion(opset->second);
  if (version == 0) {
    emitError(location) << row.opType << ": the operator came with opset " << row.sinceVersions[0]
                        << ", the model imports opset " << opset->second;
    return failure();
  }
  auto checkCount = [&](llvm::StringRef what, int count, int min, int max) -> LogicalResult {
    if (count >= min && count <= max) {
      return success();
    }
    InFlightDiagnostic error = emitError(location) << row.opType << ": has " << count << " " << what
                                                   << ", expected " << min;
    return max == onnx::kVariadic ? error << " or more"
           : max > min            ? error << " to " << max
                                  : error;
  };
  if (failed(checkCount("inputs", node.input_size(), row.minInputs, row.maxInputs)) ||
      failed(checkCount("outputs", node.output_size(), row.minOutputs, row.maxOutputs))) {
    return failure();
  }
  return version;
}

LogicalResult GraphImporter::importConstant(const ::onnx::NodeProto &node, Location location,
                                            Scope &scope) {
  if (node.attribute_size() != 1 || node.output_size() != 1) {
    return emitError(location) << "Constant: has " << node.attribute_size() << " attributes and "
                               << node.output_size() << " outputs, expected one of each";
  }
  const ::onnx::AttributeProto *attribute = resolveReference(node.attribute(0), scope.attributes);
  if (!attribute) {
    return emitError(location)
           << "Constant: its value refers to an attribute that the call does not give";
  }
  ::onnx::TensorProto list; // what value_int, value_floats, … abbreviate
  const ::onnx::TensorProto *tensor = &list;
  llvm::StringRef name = node.attribute(0).name();
  bool isList = name.ends_with("s");
  if (name == "value" && attribute->has_t()) {
    tensor = &attribute->t();
  } else if (name == "value_int" || name == "value_ints") {
    list.set_data_type(::onnx::TensorProto::INT64);
    list.mutable_int64_data()->CopyFrom(attribute->ints());
    if (!isList) {
      list.add_int64_data(attribute->i());
    }
  } else if (name == "value_float" || name == "value_floats") {
    list.set_data_type(::onnx::TensorProto::FLOAT);
    list.mutable_float_data()->CopyFrom(attribute->floats());
    if (!isList) {
      list.add_float_data(attribute->f());
    }
  } else {
    return emitError(location)
           << "Constant: attribute '" << name
           << "' is not supported, expected value, value_int(s) or value_float(s)";
  }
  if (tensor == &list && isList) {
    list.add_dims(list.data_type() == ::onnx::TensorProto::INT64 ? list.int64_data_size()
                                                                 : list.float_data_size());
  }
  FailureOr<Value> value =
      tensors.create(builder, *tensor, scope.prefix + node.output(0), location, true);
  return failed(value) ? failure() : define(scope, node.output(0), *value, location);
}

LogicalResult GraphImporter::importNode(const ::onnx::NodeProto &node, unsigned index,
                                        Scope &scope) {
  Location location = locateNode(node, index, scope);
  if (++numNodes > kMaxNodes) {
    return emitError(location) << "the model has more than " << kMaxNodes << " nodes";
  }
  llvm::StringRef domain = canonicalDomain(node.domain());
  const onnx::OpRow *row = onnx::findOp(domain, node.op_type());
  if (!row) {
    for (const ::onnx::FunctionProto &function : model.functions()) {
      if (function.name() == node.op_type() && canonicalDomain(function.domain()) == domain &&
          function.overload() == node.overload()) {
        return importCall(node, function, location, scope);
      }
    }
    return unknownOperator(node, location, scope);
  }
  if (node.op_type() == "Constant" && domain.empty()) {
    return importConstant(node, location, scope);
  }
  FailureOr<int64_t> version = checkSchema(node, *row, location, scope);
  if (failed(version)) {
    return failure();
  }
  FailureOr<DictionaryAttr> attributes = importAttributes(node, *row, location, scope);
  if (failed(attributes)) {
    return failure();
  }
  llvm::SmallVector<Value> operands;
  for (const std::string &input : node.input()) {
    FailureOr<Value> value = operand(input, location, scope);
    if (failed(value)) {
      return failure();
    }
    operands.push_back(*value);
  }
  llvm::SmallVector<Type> types;
  for (const std::string &output : node.output()) {
    auto stated = scope.stated.find(output);
    types.push_back(
        output.empty() ? Type(builder.getNoneType())
        : stated != scope.stated.end()
            ? stated->second
            : Type(UnrankedTensorType::get(onnx::UnknownType::get(builder.getContext()))));
  }
  std::map<llvm::StringRef, const ::onnx::GraphProto *>
      subgraphs; // regions are in the order of the attribute names
  for (const auto &attribute : node.attribute()) {
    if (attribute.type() == ::onnx::AttributeProto::GRAPH) {
      subgraphs[attribute.name()] = &attribute.g();
    }
  }
  auto op =
      onnx::NodeOp::create(builder, location, types, operands, builder.getStringAttr(row->opType),
                           builder.getStringAttr(row->domain), builder.getI64IntegerAttr(*version),
                           *attributes, static_cast<unsigned>(subgraphs.size()));
  for (auto [region, subgraph] :
       llvm::zip_equal(op.getSubgraphs(), llvm::make_second_range(subgraphs))) {
    if (failed(importSubgraph(*subgraph, region, scope, location))) {
      return failure();
    }
  }
  for (auto [output, result] : llvm::zip_equal(node.output(), op.getOutputs())) {
    if (!output.empty() && failed(define(scope, output, result, location))) {
      return failure();
    }
  }
  return success();
}

LogicalResult GraphImporter::importCall(const ::onnx::NodeProto &node,
                                        const ::onnx::FunctionProto &callee, Location location,
                                        Scope &scope) {
  std::string name = onnx::qualifiedOpName(node.domain(), node.op_type());
  for (const Scope *at = &scope; at; at = at->parent ? at->parent : at->caller) {
    if (at->function == &callee) {
      return emitError(location) << "function '" << name << "' calls itself";
    }
  }
  if (scope.depth >= kMaxDepth) {
    return emitError(location) << "functions and subgraphs are nested more than " << kMaxDepth
                               << " deep";
  }
  if (node.input_size() > callee.input_size() || node.output_size() > callee.output_size()) {
    return emitError(location) << "function '" << name << "' is called with " << node.input_size()
                               << " inputs and " << node.output_size()
                               << " outputs, expected at most " << callee.input_size() << " and "
                               << callee.output_size();
  }
  OpsetMap calleeOpsets;
  for (const auto &entry : callee.opset_import()) {
    calleeOpsets[canonicalDomain(entry.domain())] = entry.version();
  }
  // The body sees its formal inputs only: its scope has a caller but no parent.
  Scope body;
  body.opsets = &calleeOpsets;
  body.function = &callee;
  body.depth = scope.depth + 1;
  body.prefix = cast<NameLoc>(location).getName().str() + "/";
  body.caller = &scope;
  for (const auto &attribute : callee.attribute_proto()) {
    body.attributes[attribute.name()] = &attribute;
  }
  for (const auto &attribute : node.attribute()) {
    const ::onnx::AttributeProto *value = resolveReference(attribute, scope.attributes);
    if (value) {
      body.attributes[attribute.name()] = value;
    }
  }
  for (int i = 0; i < callee.input_size(); ++i) {
    FailureOr<Value> value = operand(i < node.input_size() ? node.input(i) : "", location, scope);
    if (failed(value) || failed(define(body, callee.input(i), *value, location))) {
      return failure();
    }
  }
  if (failed(importNodes(callee.node(), body))) {
    return failure();
  }
  for (int i = 0; i < node.output_size(); ++i) {
    Value value = body.find(callee.output(i));
    if (!value) {
      return emitError(location) << "function '" << name << "' does not define its output '"
                                 << callee.output(i) << "'";
    }
    if (!node.output(i).empty() && failed(define(scope, node.output(i), value, location))) {
      return failure();
    }
  }
  return success();
}

LogicalResult
GraphImporter::importNodes(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes,
                           Scope &scope) {
  llvm::SmallVector<const ::onnx::NodeProto *> list;
  for (const auto &node : nodes) {
    list.push_back(&node);
  }
  NodeOrder order =
      sortNodes(list, [&](llvm::StringRef name) { return static_cast<bool>(scope.find(name)); });
  if (order.fault != NodeOrder::Fault::None) {
    Location location = locateNode(*list[order.faultyNode], order.faultyNode, scope);
    bool isCycle = order.fault == NodeOrder::Fault::Cycle;
    return emitError(location) << list[order.faultyNode]->op_type() << ": input '"
                               << order.faultyInput << "' "
                               << (isCycle
                                       ? "depends on this node's own result: the graph has a cycle"
                                       : "is no graph input, initializer or result of a node");
  }
  for (unsigned index : order.order) {
    if (failed(importNode(*list[index], index, scope))) {
      return failure();
    }
  }
  return success();
}

} // namespace sluicec
