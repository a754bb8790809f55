// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells token-wise operations from those that mix rows.
#include "compiler/optimize/RowIndependence.h"

#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace sluicec::optimize {

bool isRowFree(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op) {
    return isa<BlockArgument>(value) && !isa<func::FuncOp>(value.getParentBlock()->getParentOp());
  }
  return isa<lm::WeightOpInterface>(op) || op->hasTrait<OpTrait::ConstantLike>() ||
         (op->getNumOperands() > 0 && op->getNumRegions() == 0 && isPure(op) &&
          llvm::all_of(op->getOperands(), isRowFree));
}

bool takesBatch(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), [](Type t) { return isa<lm::BatchType>(t); });
}

bool isFill(Value value) {
  return isa_and_nonnull<tensor::EmptyOp, tensor::SplatOp>(value.getDefiningOp());
}

Value fillRowsLike(Value fill, RankedTensorType type, Value like) {
  OpBuilder b(fill.getContext());
  b.setInsertionPointAfterValue(like);
  Value rows = tensor::DimOp::create(b, fill.getLoc(), like, 0);
  auto splat = fill.getDefiningOp<tensor::SplatOp>();
  if (!splat) {
    return tensor::EmptyOp::create(b, fill.getLoc(), type.getShape(), type.getElementType(), rows);
  }
  // The scalar may stand further down than the activation.
  Operation *scalar = splat.getInput().getDefiningOp();
  if (scalar && rows.getDefiningOp()->isBeforeInBlock(scalar)) {
    b.setInsertionPointAfter(scalar);
  }
  return tensor::SplatOp::create(b, fill.getLoc(), type, splat.getInput(), rows);
}

/// The first `rowDims` results are loops 0, 1, ..., and no other result uses those loops.
static bool readsOwnRow(AffineMap map, unsigned rowDims) {
  if (map.getNumResults() < rowDims) {
    return false;
  }
  for (auto [i, expr] : llvm::enumerate(map.getResults())) {
    if (i < rowDims) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (!dim || dim.getPosition() != i) {
        return false;
      }
      continue;
    }
    for (unsigned d = 0; d < rowDims; ++d) {
      if (expr.isFunctionOfDim(d)) {
        return false;
      }
    }
  }
  return true;
}

static bool usesNoRow(AffineMap map, unsigned rowDims) {
  for (unsigned d = 0; d < rowDims; ++d) {
    if (map.isFunctionOfDim(d)) {
      return false;
    }
  }
  return true;
}

static bool isTokenWiseGeneric(linalg::GenericOp op, unsigned rowDims) {
  if (op.getNumLoops() < rowDims || op.getNumResults() == 0) {
    return false;
  }
  for (unsigned d = 0; d < rowDims; ++d) {
    if (op.getIteratorTypesArray()[d] != utils::IteratorType::parallel) {
      return false;
    }
  }
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    bool fits = isRowFree(operand.get()) && !op.isDpsInit(&operand) ? usesNoRow(map, rowDims)
                                                                    : readsOwnRow(map, rowDims);
    if (!fits) {
      return false;
    }
  }
  // A row must not ask which one it is.
  WalkResult walk = op->walk([&](linalg::IndexOp index) {
    return index.getDim() < rowDims ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !walk.wasInterrupted();
}

/// A view that splits or joins dimensions behind the rows alone.
template <typename ReshapeOp> static bool keepsRows(ReshapeOp op, unsigned rowDims) {
  auto groups = op.getReassociationIndices();
  return groups.size() > rowDims &&
         llvm::all_of(llvm::seq(rowDims), [&](unsigned d) { return groups[d].size() == 1; });
}

bool isTokenWise(Operation *op, unsigned rowDims) {
  if (isa<lm::TokenWiseOpInterface>(op)) {
    return true;
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    return isTokenWiseGeneric(generic, rowDims);
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    return keepsRows(expand, rowDims);
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    return keepsRows(collapse, rowDims);
  }
  return OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() > 0 &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

} // namespace sluicec::optimize
