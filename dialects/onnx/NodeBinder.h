// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typed access to the operands and attributes of an onnx.node, with the defaults of the op table.
// Used by inference and by all raise patterns.
#pragma once

#include "dialects/onnx/OnnxDialect.h"

#include <optional>

namespace sluicec::onnx {

struct OpRow;

/// Reads a node. Cheap to make and to copy; holds no state beyond the op and its row.
///
///     NodeBinder b(node);
///     if (!b.is("Gemm")) return failure();
///     Value a = b.operand(0), bias = b.operand(2);        // null where absent
///     int64_t transB = b.attrInt("transB");               // default from the op table
///
/// Asking for an attribute that the operator's row does not declare, or with another type than the
/// row's default, is an assertion. The importer has checked that attributes of the file have the
/// declared type.
class NodeBinder {
public:
  explicit NodeBinder(NodeOp node);
  /// Binds `op` if it is an onnx.node, else the binder is empty.
  explicit NodeBinder(mlir::Operation *op);
  /// Binds the node that defines `value`, else the binder is empty.
  explicit NodeBinder(mlir::Value value);

  explicit operator bool() const { return node != nullptr; }
  NodeOp op() const { return node; }
  const OpRow *row() const { return opRow; }
  /// True where the node is `opType` of the domain ("" is ai.onnx). False for an empty binder.
  bool is(llvm::StringRef opType, llvm::StringRef domain = "") const;
  int64_t version() const;

  size_t numOperands() const;
  size_t numResults() const;
  /// Operand `index`; null where it is absent or beyond the end.
  mlir::Value operand(size_t index) const;
  /// Result `index`; null where the node does not have it (also type none).
  mlir::Value result(size_t index) const;
  /// The type of operand `index` as ranked tensor, null where absent or unranked.
  mlir::RankedTensorType operandType(size_t index) const;
  mlir::RankedTensorType resultType(size_t index) const;

  /// True where the file states the attribute.
  bool hasAttr(llvm::StringRef name) const;
  mlir::Attribute attr(llvm::StringRef name) const;
  /// The attribute or its default in the op table.
  int64_t attrInt(llvm::StringRef name) const;
  float attrFloat(llvm::StringRef name) const;
  llvm::StringRef attrString(llvm::StringRef name) const;
  /// As above with a default that the caller states (where the op table has none).
  int64_t attrInt(llvm::StringRef name, int64_t fallback) const;
  float attrFloat(llvm::StringRef name, float fallback) const;
  /// INTS; empty optional where absent.
  std::optional<llvm::ArrayRef<int64_t>> attrInts(llvm::StringRef name) const;
  std::optional<llvm::ArrayRef<float>> attrFloats(llvm::StringRef name) const;
  /// TENSOR; null where absent.
  mlir::DenseElementsAttr attrTensor(llvm::StringRef name) const;

  /// Integer elements of operand `index` where it is an onnx.constant of integers or bools (shape
  /// inference replaces what folds).
  std::optional<llvm::SmallVector<int64_t>> constantInts(size_t index) const;
  /// The only element of a constant operand as a number.
  std::optional<int64_t> constantInt(size_t index) const;
  std::optional<double> constantFloat(size_t index) const;

  /// Starts an error on the node: "Gemm: ".
  mlir::InFlightDiagnostic error() const;

private:
  NodeOp node;
  const OpRow *opRow = nullptr;
};

/// Elements of an integer or bool constant; empty optional for anything else.
std::optional<llvm::SmallVector<int64_t>> integerElements(mlir::Value value);
/// Elements of a float constant, widened; empty optional for anything else.
std::optional<llvm::SmallVector<double>> floatElements(mlir::Value value);

} // namespace sluicec::onnx
