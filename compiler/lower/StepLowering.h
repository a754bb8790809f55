// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers one packed function, operation by operation in order, into a program under construction.
// The state that lower-to-kernel's files share: which buffer holds which tensor.
#pragma once

#include "compiler/lower/ProgramBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluicec::lower {

/// A tensor [rows, perRow elements] is one buffer; the rows are tokens, or logit rows after
/// lm.logit_rows. Every method that fails has reported why on the operation.
class StepLowering {
public:
  StepLowering(mlir::func::FuncOp func, ProgramBuilder &builder, int64_t kvBlockTokens)
      : func(func), builder(builder), kvBlockTokens(kvBlockTokens) {}

  mlir::LogicalResult run();

private:
  /// One cache group of the program.
  struct Group {
    mlir::Value pool;  // blocks * block elements
    mlir::Value table; // [seqs, max_blocks] i32
    lm::CacheType layout;
  };
  /// Choices of one ids tensor, sorted by expert.
  struct ExpertPlan {
    mlir::Value order;  // [T * k] i32
    mlir::Value starts; // [E + 1] i32
  };

  mlir::func::FuncOp func;
  ProgramBuilder &builder;
  int64_t kvBlockTokens;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;     // activation -> buffer
  llvm::DenseMap<mlir::Value, std::string> outputNames; // returned activation -> output
  llvm::DenseMap<mlir::Value, int64_t> cacheGroups;     // cache value -> group
  llvm::SmallVector<Group> groups;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, ExpertPlan> expertPlans;
  llvm::DenseSet<mlir::Operation *> absorbed; // lowered together with another operation
  mlir::Value rowSeq, rowIndex;               // [T] i32 each, made once per step

  // The function's edges.
  mlir::LogicalResult bindArguments();
  mlir::LogicalResult declareGroup(mlir::BlockArgument argument);
  mlir::LogicalResult nameOutputs();
  mlir::LogicalResult finishOutputs();

  mlir::LogicalResult lowerOp(mlir::Operation *op);
  /// Operations that need no launch: views, constants, recipes. True where `op` was one.
  mlir::FailureOr<bool> lowerWithoutLaunch(mlir::Operation *op);
  mlir::LogicalResult reportUnlowered(mlir::Operation *op);

  mlir::LogicalResult lower(lm::EmbeddingOp op);
  mlir::LogicalResult lower(lm::LinearOp op);
  mlir::LogicalResult lower(lm::GatedLinearOp op);
  mlir::LogicalResult lower(lm::RmsNormOp op);
  mlir::LogicalResult lower(lm::LayerNormOp op);
  mlir::LogicalResult lower(lm::RopeTableOp op);
  mlir::LogicalResult lower(lm::RopeOp op);
  mlir::LogicalResult lower(lm::RepeatHeadsOp op);
  mlir::LogicalResult lower(lm::GatedActivationOp op);
  mlir::LogicalResult lower(lm::RouteOp op);
  mlir::LogicalResult lower(lm::GroupedLinearOp op);
  mlir::LogicalResult lower(lm::CombineOp op);
  mlir::LogicalResult lower(lm::ExpertsOp op);
  mlir::LogicalResult lower(lm::ProbeOp op);
  mlir::LogicalResult lower(lm::CacheAppendOp op);
  mlir::LogicalResult lower(lm::AttentionOp op);
  mlir::LogicalResult lower(lm::LogitRowsOp op);

  // LowerElementwise.cpp
  static bool isElementwise(mlir::Operation *op);
  /// One kernel of elementwise operations: what it reads and what it computes, in order.
  struct ElementwiseKernel {
    llvm::SmallVector<mlir::Value> tensors, buffers; // inputs, side by side
    llvm::SmallVector<mlir::Operation *> order;
    int64_t features;
  };
  mlir::LogicalResult lowerElementwise(mlir::Operation *op);
  mlir::FailureOr<ElementwiseKernel> collectElementwise(mlir::Operation *root);
  /// The buffer that an operation's operand is read from; null for a constant.
  mlir::FailureOr<mlir::Value> elementwiseInput(mlir::OpOperand &use, int64_t features, bool isNew);
  /// [rows, 1] as [rows, features].
  mlir::FailureOr<mlir::Value> repeatAcrossRow(mlir::Operation *user, mlir::Value scalars,
                                               int64_t features);

  /// The buffer of an activation; null after reporting where it has none.
  mlir::Value bufferOf(mlir::Operation *user, mlir::Value activation);
  /// A new buffer for a result of `rowsLike`'s rows; null after reporting.
  mlir::Value resultBuffer(mlir::Value result, mlir::Value rowsLike);
  mlir::Value resultBuffer(mlir::Value result, kernel::Unit rows);
  /// A workspace [rows of rowsLike, perRow]; null after reporting on `op`.
  mlir::Value scratchRows(mlir::Operation *op, mlir::Value rowsLike, std::optional<int64_t> perRow,
                          mlir::Type element);
  mlir::Value vectorOf(mlir::Value recipe); // f32 weight, or null for an absent operand

  struct GroupedMatmul {
    mlir::Value x, weight, bias, out; // buffers; bias may be null
    ExpertPlan plan;
    int64_t experts, topK, n, k;
    lm::GatedActivationAttr gated;
    bool perChoice;
  };
  void launchGroupedMatmul(mlir::Location loc, const GroupedMatmul &m);
  mlir::FailureOr<ExpertPlan> expertPlanOf(mlir::Operation *op, mlir::Value ids, int64_t experts);
  /// Launches combine into `result`, or into the sum that alone uses it.
  mlir::LogicalResult launchCombine(mlir::Operation *op, mlir::Value y, mlir::Value weights);
  void ensureRowIndex(mlir::Location loc);
};

/// Elements in one row of [?, d...]: the product of d; nothing where the tensor has another form or
/// the product overflows.
std::optional<int64_t> rowElements(mlir::Value activation);

/// The buffers of one launch with optional ones left out: add() gives a slot, at() finds the block
/// argument of that slot inside the kernel (null where nothing was added).
class BufferList {
public:
  int add(mlir::Value buffer) {
    if (!buffer) {
      return -1;
    }
    values.push_back(buffer);
    return static_cast<int>(values.size()) - 1;
  }
  static mlir::Value at(mlir::ValueRange inside, int slot) {
    return slot < 0 ? mlir::Value() : inside[slot];
  }
  mlir::ValueRange all() const { return values; }

private:
  llvm::SmallVector<mlir::Value> values;
};

} // namespace sluicec::lower
