// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GraphProto → func.func @main of onnx ops: names become SSA values, nodes are sorted and checked
// against the op table, subgraphs become regions, model-local functions are inlined.
#pragma once

#include "compiler/import/TensorReader.h"
#include "dialects/onnx/OnnxDialect.h"
#include "dialects/onnx/OnnxOpTable.h"

#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace google::protobuf {
template <typename T> class RepeatedPtrField;
}
namespace onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
class ValueInfoProto;
} // namespace onnx

namespace sluicec {

/// Opset version by domain; "" is ai.onnx.
using OpsetMap = llvm::StringMap<int64_t>;

class GraphImporter {
public:
  GraphImporter(mlir::ModuleOp module, const ::onnx::ModelProto &model, const OpsetMap &opsets,
                TensorReader &tensors);

  /// Creates @main; result types are those of the file's value_info until inference ran. Errors as
  /// importModel.
  mlir::FailureOr<mlir::func::FuncOp> importMain();
  /// After inference: the element type that the file states for each output is the one found, else
  /// an error; an output's rank or size that differs is a warning.
  mlir::LogicalResult checkOutputs(mlir::func::FuncOp main);

private:
  static constexpr unsigned kMaxDepth = 16;       // of subgraphs and of function calls
  static constexpr int64_t kMaxNodes = 2'000'000; // in all, functions inlined

  // Names that nodes of one graph or function body see; a subgraph sees its parent's as well.
  struct Scope {
    const Scope *parent = nullptr; // of a subgraph
    const Scope *caller = nullptr; // of a function body
    llvm::StringMap<mlir::Value> values;
    llvm::StringMap<mlir::Type> stated; // value_info
    const OpsetMap *opsets = nullptr;
    const ::onnx::FunctionProto *function = nullptr;            // of a function body
    llvm::StringMap<const ::onnx::AttributeProto *> attributes; // what ref_attr_name refers to
    std::string prefix;                                         // of node names: the calling node's
    unsigned depth = 0;

    mlir::Value find(llvm::StringRef name) const;
  };

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  const ::onnx::ModelProto &model;
  const OpsetMap &opsets;
  TensorReader &tensors;
  std::string file;
  int64_t numNodes = 0;
  mlir::Value none; // the one onnx.none, at the start of @main

  mlir::Location locate(llvm::StringRef name, unsigned index, onnx::LocationKind kind);
  mlir::Location locateNode(const ::onnx::NodeProto &node, unsigned index, const Scope &scope);

  // GraphImporter.cpp
  mlir::FailureOr<mlir::Type> importType(const ::onnx::ValueInfoProto &info,
                                         mlir::Location location, bool isInput);
  mlir::LogicalResult importValueInfos(const ::onnx::GraphProto &graph, Scope &scope);
  mlir::LogicalResult importInitializers(const ::onnx::GraphProto &graph, Scope &scope);
  mlir::LogicalResult define(Scope &scope, llvm::StringRef name, mlir::Value value,
                             mlir::Location location);
  mlir::LogicalResult importSubgraph(const ::onnx::GraphProto &graph, mlir::Region &region,
                                     const Scope &parent, mlir::Location location);

  // ImportNodes.cpp
  mlir::LogicalResult
  importNodes(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes, Scope &scope);
  mlir::LogicalResult importNode(const ::onnx::NodeProto &node, unsigned index, Scope &scope);
  mlir::LogicalResult importConstant(const ::onnx::NodeProto &node, mlir::Location location,
                                     Scope &scope);
  mlir::LogicalResult importCall(const ::onnx::NodeProto &node, const ::onnx::FunctionProto &callee,
                                 mlir::Location location, Scope &scope);
  mlir::FailureOr<int64_t> checkSchema(const ::onnx::NodeProto &node, const onnx::OpRow &row,
                                       mlir::Location location, const Scope &scope);
  mlir::LogicalResult unknownOperator(const ::onnx::NodeProto &node, mlir::Location location,
                                      const Scope &scope);
  mlir::FailureOr<mlir::Value> operand(llvm::StringRef name, mlir::Location location,
                                       const Scope &scope);

  // ImportAttributes.cpp
  mlir::FailureOr<mlir::Attribute> importAttribute(const ::onnx::AttributeProto &attribute,
                                                   mlir::Location location);
  mlir::FailureOr<mlir::DictionaryAttr> importAttributes(const ::onnx::NodeProto &node,
                                                         const onnx::OpRow &row,
                                                         mlir::Location location,
                                                         const Scope &scope);
};

/// The attribute that `attribute` stands for: itself, or in a function body what the call passed;
/// null where a call leaves it out.
const ::onnx::AttributeProto *
resolveReference(const ::onnx::AttributeProto &attribute,
                 const llvm::StringMap<const ::onnx::AttributeProto *> &callAttributes);

} // namespace sluicec
