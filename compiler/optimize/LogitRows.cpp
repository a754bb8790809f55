// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves the choice of logit rows up through token-wise operations, from the logits to the last
// attention.
#include "compiler/optimize/LogitRows.h"

#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/RowIndependence.h"
#include "dialects/lm/LmDialect.h"

using namespace mlir;

namespace sluicec::optimize {

/// Rows of a packed activation are its first dimension.
static constexpr unsigned kRowDims = 1;

namespace {

class RowChoice {
public:
  RowChoice(func::FuncOp func, Value batch) : func(func), batch(batch) {}

  void run(OpOperand &logits) {
    choose(logits);
    // From the last operation to the first: all readers of a result have been seen.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front()))) {
      if (isOpTriviallyDead(&op)) {
        op.erase(); // a fill or size that all rows needed
      } else if (servesChosenRowsAlone(&op)) {
        moveChoiceAbove(&op);
      }
    }
  }

private:
  func::FuncOp func;
  Value batch;

  /// Makes `use` read the chosen rows of its value.
  void choose(OpOperand &use) {
    Value all = use.get();
    for (Operation *user : all.getUsers()) {
      if (auto known = dyn_cast<lm::LogitRowsOp>(user)) {
        use.set(known.getResult());
        return;
      }
    }
    OpBuilder b(func.getContext());
    b.setInsertionPointAfterValue(all);
    auto chosen = lm::LogitRowsOp::create(b, use.getOwner()->getLoc(), all.getType(), all, batch);
    use.set(chosen.getResult());
  }

  /// Token ids and positions, which have no features; the number of rows that a view is told.
  static bool isUnchoosable(Value v) {
    auto tensor = dyn_cast<RankedTensorType>(v.getType());
    return !isRowFree(v) && (!tensor || tensor.getRank() < 2);
  }

  /// Token-wise, and whatever reads it reads chosen rows or shows a probe.
  static bool servesChosenRowsAlone(Operation *op) {
    if (!isTokenWise(op, kRowDims) || op->getNumResults() == 0 ||
        llvm::any_of(op->getOperands(), isUnchoosable)) {
      return false;
    }
    bool anyChosen = false;
    for (Operation *user : op->getUsers()) {
      bool chosen = isa<lm::LogitRowsOp>(user);
      anyChosen |= chosen;
      if (!chosen && !isa<lm::ProbeOp>(user)) {
        return false;
      }
    }
    return anyChosen;
  }

  void moveChoiceAbove(Operation *op) {
    Value chosen;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isRowFree(operand.get()) && !isFill(operand.get())) {
        choose(operand);
        chosen = operand.get();
      }
    }
    for (OpOperand &operand : op->getOpOperands()) {
      if (isFill(operand.get())) {
        auto type = cast<RankedTensorType>(operand.get().getType());
        operand.set(fillRowsLike(operand.get(), type, chosen));
      }
    }
    for (Value result : op->getResults()) {
      for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
        if (auto rows = dyn_cast<lm::LogitRowsOp>(user)) {
          rows.getResult().replaceAllUsesWith(result);
          rows.erase();
        }
      }
    }
  }
};

} // namespace

LogicalResult keepLogitRows(func::FuncOp func) {
  std::optional<unsigned> logits = findResult(func, "logits");
  if (!logits) {
    return func.emitError("has no result of role logits");
  }
  Value batch = func.getArgument(*findArgument(func, "batch"));
  RowChoice(func, batch).run(returnOf(func)->getOpOperand(*logits));
  updateFunctionType(func);
  return success();
}

} // namespace sluicec::optimize
