// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves and joins weight recipes.
#include "compiler/optimize/WeightPlacement.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace sluicec::optimize {

static RankedTensorType tensorOf(Value v) { return cast<RankedTensorType>(v.getType()); }

void hoistWeights(func::FuncOp func) {
  Block &block = func.getBody().front();
  SmallVector<Operation *> recipes;
  for (Operation &op : block) {
    if (isa<lm::WeightOpInterface>(op)) {
      recipes.push_back(&op);
    }
  }
  for (Operation *op : llvm::reverse(recipes)) {
    op->moveBefore(&block, block.begin());
  }
}

bool canConcat(Value a, Value b, int64_t dim) {
  if (!a && !b) {
    return true;
  }
  if (!a || !b) {
    return false;
  }
  RankedTensorType x = tensorOf(a), y = tensorOf(b);
  if (x.getRank() != y.getRank() || x.getElementType() != y.getElementType()) {
    return false;
  }
  for (int64_t i = 0; i < x.getRank(); ++i) {
    if (i != dim && x.getDimSize(i) != y.getDimSize(i)) {
      return false;
    }
  }
  return true;
}

Value concatWeights(Value a, Value b, int64_t dim) {
  if (!a) {
    return {};
  }
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  OpBuilder builder(a.getContext());
  builder.setInsertionPointAfter(first->isBeforeInBlock(second) ? second : first);
  SmallVector<int64_t> shape(tensorOf(a).getShape());
  shape[dim] += tensorOf(b).getDimSize(dim);
  auto type = RankedTensorType::get(shape, tensorOf(a).getElementType());
  Location loc = builder.getFusedLoc({a.getLoc(), b.getLoc()});
  return builder.createOrFold<lm::WeightConcatOp>(loc, type, ValueRange{a, b}, dim);
}

} // namespace sluicec::optimize
