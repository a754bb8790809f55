// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What raise-attention's matchers share: the parts of an attention, however written, and how they
// become lm operations.
#pragma once

#include "compiler/raise/MaskMatch.h"
#include "compiler/raise/RopeMatch.h"

namespace sluicec::raise {

/// One attention. Shapes: B batch, S new tokens, T keys, H query heads, G key-value heads, D and Dv
/// head sizes.
struct AttentionParts {
  mlir::Value query;                        // [B, S, H * D]
  mlir::Value keys, values;                 // [B, G, T, D], [B, G, T, Dv]
  int64_t heads = 0;                        // H
  int64_t keyRepeats = 1, valueRepeats = 1; // the graph's own repetition of key-value heads
  double scale = 1.0;
  double softCap = 0.0;
  MaskMeaning mask;
  mlir::Value sinks; // [H] or null
  llvm::SmallVector<mlir::Operation *> ops;
};

class AttentionRaiser {
public:
  explicit AttentionRaiser(mlir::func::FuncOp function) : rewriter(function), ropes(rewriter) {}

  RaiseRewriter rewriter;

  // Each returns true where it raised `node`, false where the node is something else, and fails
  // after reporting an error.
  /// Concat(past, new heads) along the length.
  mlir::FailureOr<bool> raiseAppend(onnx::NodeBinder node);
  /// softmax(q k^T + mask) v.
  mlir::FailureOr<bool> raiseArithmetic(onnx::NodeBinder node);
  /// Where(a row sees nothing, 0, attention): lm attention gives 0 there.
  mlir::FailureOr<bool> raiseGuard(onnx::NodeBinder node);
  /// Attention of opset 23 and later.
  mlir::FailureOr<bool> raiseStandard(onnx::NodeBinder node);
  /// com.microsoft.GroupQueryAttention.
  mlir::FailureOr<bool> raiseGroupQuery(onnx::NodeBinder node);

private:
  RopeTables ropes;
  llvm::DenseMap<mlir::Value, mlir::Value> emptyPasts;
  llvm::DenseMap<mlir::Value, std::pair<std::optional<Condition>, mlir::Operation *>>
      maskConditions;

  /// The condition of a mask value, each mask once.
  std::pair<std::optional<Condition>, mlir::Operation *> maskCondition(mlir::Value mask);
  /// Meaning of all conditions together, or an error on `node`.
  mlir::FailureOr<MaskMeaning> readMask(onnx::NodeBinder node, const Condition &seen,
                                        const AttentionParts &parts, bool causalByOperator);
  /// The scores' decomposition from the softmax's operand down to the product of query and keys.
  mlir::FailureOr<bool> readScores(onnx::NodeBinder node, mlir::Value scores, AttentionParts &parts,
                                   Condition &seen);
  bool readProduct(onnx::NodeBinder product, AttentionParts &parts);
  /// Keys or values as [B, G, T, D]: a raised cache, or new ones behind an empty past (a cache that
  /// the graph lacks).
  mlir::Value cacheOf(const CacheView &view);
  mlir::Value append(mlir::Value past, mlir::Value rows, mlir::Location loc, mlir::Value like);
  mlir::Value emit(const AttentionParts &parts);
};

} // namespace sluicec::raise
