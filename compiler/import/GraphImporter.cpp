// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs: inputs, initializers, value types, outputs; the nodes are in ImportNodes.cpp.
#include "compiler/import/GraphImporter.h"

#include "dialects/onnx/ElementTypes.h"
#include "dialects/onnx/InferShapes.h"
#include "dialects/onnx/ShapeRules.h"

#include "mlir/IR/Diagnostics.h"

#include "onnx/onnx-ml.pb.h"

using namespace mlir;
namespace sluicec {

Value GraphImporter::Scope::find(llvm::StringRef name) const {
  for (const Scope *scope = this; scope; scope = scope->parent) {
    auto found = scope->values.find(name);
    if (found != scope->values.end()) {
      return found->second;
    }
  }
  return {};
}

GraphImporter::GraphImporter(ModuleOp moduleOp, const ::onnx::ModelProto &modelProto,
                             const OpsetMap &opsetMap, TensorReader &reader)
    : module(moduleOp), builder(moduleOp.getContext()), model(modelProto), opsets(opsetMap),
      tensors(reader), file(moduleOp->getAttrOfType<StringAttr>(onnx::kFileAttr).str()) {}

Location GraphImporter::locate(llvm::StringRef name, unsigned index, onnx::LocationKind kind) {
  return onnx::makeLocation(builder.getContext(), file, name, index, kind);
}

LogicalResult GraphImporter::define(Scope &scope, llvm::StringRef name, Value value,
                                    Location location) {
  if (!scope.values.try_emplace(name, value).second) {
    return emitError(location)
           << "'" << name
           << "' is defined twice; names of inputs, initializers and results must differ";
  }
  return success();
}

// The type that a value's declaration states. Sizes of 0 are read as unknown (some exporters write
// 0 for a size they lost); an input's nameless size gets a name of its own, so that shape inference
// can follow it.
FailureOr<Type> GraphImporter::importType(const ::onnx::ValueInfoProto &info, Location location,
                                          bool isInput) {
  if (!info.type().has_tensor_type()) {
    emitError(location) << "has no tensor type; sequences, maps and optionals are not supported";
    return failure();
  }
  const auto &tensor = info.type().tensor_type();
  onnx::TensorFacts facts;
  facts.elementType = onnx::elementTypeFromNumber(builder.getContext(), tensor.elem_type());
  if (!facts.elementType && (isInput || tensor.elem_type() != 0)) {
    emitError(location) << "has element type " << tensor.elem_type() << ", which is not supported";
    return failure();
  }
  if (tensor.has_shape()) {
    if (static_cast<size_t>(tensor.shape().dim_size()) > kMaxRank) {
      emitError(location) << "has rank " << tensor.shape().dim_size() << ", expected at most "
                          << kMaxRank;
      return failure();
    }
    facts.shape = onnx::SymbolicShape();
    for (const auto &[i, dim] : llvm::enumerate(tensor.shape().dim())) {
      onnx::SymbolicExpr size = onnx::SymbolicExpr::parse(dim.dim_param());
      if (dim.has_dim_value() && dim.dim_value() > 0) {
        size = onnx::SymbolicExpr::constant(dim.dim_value());
      } else if (dim.has_dim_value() && dim.dim_value() < 0) {
        emitError(location) << "has size " << dim.dim_value() << " in dimension " << i;
        return failure();
      }
      if (size.isUnknown() && isInput) {
        std::string name = info.name() + "." + std::to_string(i);
        std::replace_if(
            name.begin(), name.end(), [](char c) { return !llvm::isAlnum(c) && c != '.'; }, '_');
        size = onnx::SymbolicExpr::atom(name);
      }
      facts.shape->push_back(size);
    }
  }
  return onnx::typeOfFacts(builder.getContext(), facts);
}

LogicalResult GraphImporter::importValueInfos(const ::onnx::GraphProto &graph, Scope &scope) {
  for (const auto &[index, info] : llvm::enumerate(graph.value_info())) {
    if (!info.has_type() || !info.type().has_tensor_type()) {
      continue;
    }
    FailureOr<Type> type = importType(
        info, locate(info.name(), static_cast<unsigned>(index), onnx::LocationKind::Tensor), false);
    if (failed(type)) {
      return failure();
    }
    scope.stated[info.name()] = *type;
  }
  // Outputs are declared apart; their own declaration is as good as a value_info.
  for (const auto &[index, info] : llvm::enumerate(graph.output())) {
    if (info.has_type() && info.type().has_tensor_type()) {
      FailureOr<Type> type = importType(
          info, locate(info.name(), static_cast<unsigned>(index), onnx::LocationKind::GraphOutput),
          false);
      if (failed(type)) {
        return failure();
      }
      scope.stated[info.name()] = *type;
    }
  }
  return success();
}

LogicalResult GraphImporter::importInitializers(const ::onnx::GraphProto &graph, Scope &scope) {
  if (graph.sparse_initializer_size() > 0) {
    return emitError(
               locate(graph.sparse_initializer(0).values().name(), 0, onnx::LocationKind::Tensor))
           << "sparse initializers are not supported; re-export with dense weights";
  }
  for (const auto &[index, tensor] : llvm::enumerate(graph.initializer())) {
    Location location =
        locate(tensor.name(), static_cast<unsigned>(index), onnx::LocationKind::Tensor);
    if (tensor.name().empty()) {
      return emitError(location) << "initializer #" << index << " has no name";
    }
    FailureOr<Value> value =
        tensors.create(builder, tensor, tensor.name(), location, scope.parent != nullptr);
    if (failed(value) || failed(define(scope, tensor.name(), *value, location))) {
      return failure();
    }
  }
  return success();
}

FailureOr<func::FuncOp> GraphImporter::importMain() {
  const ::onnx::GraphProto &graph = model.graph();
  Location graphLocation = locate(graph.name(), 0, onnx::LocationKind::File);
  if (graph.node_size() == 0 || graph.output_size() == 0) {
    emitError(graphLocation) << "the graph is empty: it has " << graph.node_size() << " nodes and "
                             << graph.output_size() << " outputs";
    return failure();
  }
  Scope scope;
  scope.opsets = &opsets;
  llvm::StringMap<bool>
      initialized; // an input with an initializer is a weight (IR versions before 4 listed them so)
  for (const auto &tensor : graph.initializer()) {
    initialized[tensor.name()] = true;
  }
  llvm::SmallVector<Type> inputTypes;
  llvm::SmallVector<Location> inputLocations;
  llvm::SmallVector<const ::onnx::ValueInfoProto *> inputs;
  for (const auto &[index, input] : llvm::enumerate(graph.input())) {
    if (initialized.contains(input.name())) {
      continue;
    }
    inputLocations.push_back(
        locate(input.name(), static_cast<unsigned>(index), onnx::LocationKind::GraphInput));
    FailureOr<Type> type = importType(input, inputLocations.back(), true);
    if (failed(type)) {
      return failure();
    }
    inputs.push_back(&input);
    inputTypes.push_back(*type);
  }
  builder.setInsertionPointToEnd(module.getBody());
  auto main =
      func::FuncOp::create(builder, graphLocation, "main", builder.getFunctionType(inputTypes, {}));
  Block *body = builder.createBlock(&main.getBody(), {}, inputTypes, inputLocations);
  none = onnx::NoneOp::create(builder, graphLocation, builder.getNoneType());
  for (auto [index, input] : llvm::enumerate(inputs)) {
    main.setArgAttr(static_cast<unsigned>(index), onnx::kNameAttr,
                    builder.getStringAttr(input->name()));
    if (failed(define(scope, input->name(), body->getArgument(static_cast<unsigned>(index)),
                      inputLocations[index]))) {
      return failure();
    }
  }
  if (failed(importValueInfos(graph, scope)) || failed(importInitializers(graph, scope)) ||
      failed(importNodes(graph.node(), scope))) {
    return failure();
  }
  llvm::SmallVector<Value> results;
  for (const auto &[index, output] : llvm::enumerate(graph.output())) {
    Location location =
        locate(output.name(), static_cast<unsigned>(index), onnx::LocationKind::GraphOutput);
    Value value = scope.find(output.name());
    if (!value || onnx::isNone(value)) {
      emitError(location) << "no node, input or initializer defines this output";
      return failure();
    }
    results.push_back(value);
  }
  func::ReturnOp::create(builder, graphLocation, results);
  main.setFunctionType(builder.getFunctionType(inputTypes, ValueRange(results).getTypes()));
  for (const auto &[index, output] : llvm::enumerate(graph.output())) {
    main.setResultAttr(static_cast<unsigned>(index), onnx::kNameAttr,
                       builder.getStringAttr(output.name()));
  }
  if (none.use_empty()) {
    none.getDefiningOp()->erase();
  }
  return main;
}

LogicalResult GraphImporter::importSubgraph(const ::onnx::GraphProto &graph, Region &region,
                                            const Scope &parent, Location location) {
  if (parent.depth >= kMaxDepth) {
    return emitError(location) << "functions and subgraphs are nested more than " << kMaxDepth
                               << " deep";
  }
  Scope scope;
  scope.parent = &parent;
  scope.opsets = parent.opsets;
  scope.function = parent.function;
  scope.prefix = parent.prefix;
  scope.attributes = parent.attributes;
  scope.depth = parent.depth + 1;
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&region);
  for (const auto &[index, input] : llvm::enumerate(graph.input())) {
    Location inputLocation =
        locate(input.name(), static_cast<unsigned>(index), onnx::LocationKind::GraphInput);
    Type type = UnrankedTensorType::get(onnx::UnknownType::get(builder.getContext()));
    if (input.has_type()) {
      FailureOr<Type> stated = importType(input, inputLocation, false);
      if (failed(stated)) {
        return failure();
      }
      type = *stated;
    }
    if (failed(
            define(scope, input.name(), body->addArgument(type, inputLocation), inputLocation))) {
      return failure();
    }
  }
  if (failed(importValueInfos(graph, scope)) || failed(importInitializers(graph, scope)) ||
      failed(importNodes(graph.node(), scope))) {
    return failure();
  }
  llvm::SmallVector<Value> results;
  for (const auto &output : graph.output()) {
    FailureOr<Value> value = operand(output.name(), location, scope);
    if (failed(value)) {
      return failure();
    }
    results.push_back(*value);
  }
  onnx::YieldOp::create(builder, location, results);
  return success();
}

LogicalResult GraphImporter::checkOutputs(func::FuncOp main) {
  for (const auto &[index, output] : llvm::enumerate(model.graph().output())) {
    Location location =
        locate(output.name(), static_cast<unsigned>(index), onnx::LocationKind::GraphOutput);
    if (!output.has_type() || !output.type().has_tensor_type()) {
      continue;
    }
    FailureOr<Type> declared = importType(output, location, false);
    if (failed(declared)) {
      return failure();
    }
    onnx::TensorFacts stated = onnx::factsOfType(*declared);
    onnx::TensorFacts found = onnx::factsOfType(main.getResultTypes()[index]);
    if (stated.elementType && found.elementType && stated.elementType != found.elementType) {
      return emitError(location) << "is " << onnx::elementTypeText(found.elementType)
                                 << ", the file states "
                                 << onnx::elementTypeText(stated.elementType);
    }
    if (!stated.shape || !found.shape) {
      continue;
    }
    bool differs = stated.shape->size() != found.shape->size();
    for (size_t i = 0; !differs && i < found.shape->size(); ++i) {
      std::optional<int64_t> a = (*stated.shape)[i].asConstant();
      std::optional<int64_t> b = (*found.shape)[i].asConstant();
      differs = a && b && *a != *b;
    }
    if (differs) {
      emitWarning(location) << "has shape " << onnx::rules::shapeText(*found.shape)
                            << ", the file states " << onnx::rules::shapeText(*stated.shape);
    }
  }
  return success();
}

} // namespace sluicec
