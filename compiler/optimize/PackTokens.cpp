// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// pack-tokens: activations lose batch and padding, [batch, seq, ..] becomes [tokens, ..].
#include "compiler/optimize/LogitRows.h"
#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/RowIndependence.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_PACKTOKENS
#include "compiler/optimize/Passes.h.inc"

namespace {

/// Rows of the padded form: batch and seq.
constexpr unsigned kPaddedRowDims = 2;

/// [B, S, rest...] -> [?, rest...]; null where there are no two leading dimensions.
RankedTensorType packedType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() < kPaddedRowDims) {
    return {};
  }
  SmallVector<int64_t> shape{ShapedType::kDynamic};
  llvm::append_range(shape, tensor.getShape().drop_front(kPaddedRowDims));
  return RankedTensorType::get(shape, tensor.getElementType());
}

class TokenPacker {
public:
  explicit TokenPacker(func::FuncOp func) : func(func) {}

  LogicalResult run() {
    if (failed(packInputs())) {
      return failure();
    }
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front().without_terminator())) {
      if (failed(packOp(&op))) {
        return failure();
      }
    }
    if (failed(dropPaddedInputs())) {
      return failure();
    }
    updateFunctionType(func);
    return success();
  }

private:
  func::FuncOp func;
  llvm::DenseSet<Value> packed; // activations that are [T, ..] by now
  Value positions;              // [T] i32

  LogicalResult packInputs();
  LogicalResult packOp(Operation *op);
  LogicalResult packOperands(Operation *op);
  LogicalResult packResults(Operation *op);
  void packGeneric(linalg::GenericOp op);
  void packReshape(Operation *op);
  LogicalResult dropPaddedInputs();
  /// Changes an id or position input to [T] i32; operations other than lm's get it widened to the
  /// type they had.
  Value packIdInput(BlockArgument argument);
  bool isPacked(Value v) const { return packed.contains(v); }
};

} // namespace

Value TokenPacker::packIdInput(BlockArgument argument) {
  MLIRContext *context = func.getContext();
  auto type = cast<RankedTensorType>(argument.getType());
  auto i32 = RankedTensorType::get({ShapedType::kDynamic}, IntegerType::get(context, 32));
  argument.setType(i32);
  packed.insert(argument);
  auto needsWide = [&](OpOperand &use) {
    return !isa<lm::TokenWiseOpInterface, lm::PaddedPositionsOp>(use.getOwner());
  };
  if (type.getElementType().isInteger(64) && llvm::any_of(argument.getUses(), needsWide)) {
    OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
    Value wide =
        arith::ExtSIOp::create(b, argument.getLoc(), i32.clone(type.getElementType()), argument);
    argument.replaceUsesWithIf(wide, [&](OpOperand &use) {
      return use.getOwner() != wide.getDefiningOp() && needsWide(use);
    });
    packed.insert(wide);
  }
  return argument;
}

LogicalResult TokenPacker::packInputs() {
  if (!findArgument(func, "batch")) {
    return func.emitError("has no batch argument; expected page-kv-cache before pack-tokens");
  }
  unsigned idsIndex = *findArgument(func, "token_ids");
  std::optional<unsigned> positionsIndex = findArgument(func, "position_ids");
  for (std::optional<unsigned> index : {std::optional<unsigned>(idsIndex), positionsIndex}) {
    if (index &&
        cast<RankedTensorType>(func.getArgument(*index).getType()).getRank() != kPaddedRowDims) {
      return func.emitError() << argumentRole(func, *index) << " are "
                              << func.getArgument(*index).getType() << ", expected [batch, seq]";
    }
  }
  if (positionsIndex) {
    positions = packIdInput(func.getArgument(*positionsIndex));
  } else {
    auto type =
        RankedTensorType::get({ShapedType::kDynamic}, IntegerType::get(func.getContext(), 32));
    positions = insertArgument(func, idsIndex + 1, type, "position_ids");
    packed.insert(positions);
  }
  packIdInput(func.getArgument(idsIndex));
  return success();
}

LogicalResult TokenPacker::packOperands(Operation *op) {
  auto like = llvm::find_if(op->getOperands(), [&](Value v) { return isPacked(v); });
  for (OpOperand &operand : op->getOpOperands()) {
    if (isPacked(operand.get()) || isRowFree(operand.get()) ||
        isa<lm::BatchType, lm::CacheType>(operand.get().getType())) {
      continue;
    }
    if (RankedTensorType type = packedType(operand.get().getType());
        type && isFill(operand.get())) {
      operand.set(fillRowsLike(operand.get(), type, *like));
      packed.insert(operand.get());
      continue;
    }
    if (isa<IndexType>(operand.get().getType())) {
      continue; // a size that a view states; packReshape leaves it out
    }
    return op->emitError()
           << "reads " << operand.get().getType()
           << ", which has no row per token; expected activations, weights and constants";
  }
  return success();
}

/// Loops (b, s, rest...) become (t, rest...).
void TokenPacker::packGeneric(linalg::GenericOp op) {
  MLIRContext *context = op.getContext();
  unsigned loops = op.getNumLoops();
  SmallVector<AffineExpr> renumbered;
  for (unsigned i = 0; i < loops; ++i) {
    renumbered.push_back(getAffineDimExpr(i < kPaddedRowDims ? 0 : i - 1, context));
  }
  SmallVector<Attribute> maps;
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (isPacked(operand.get())) {
      map = map.dropResult(0);
    }
    maps.push_back(AffineMapAttr::get(map.replaceDimsAndSymbols(renumbered, {}, loops - 1, 0)));
  }
  op.setIndexingMapsAttr(ArrayAttr::get(context, maps));
  op.setIteratorTypesAttr(ArrayAttr::get(context, op.getIteratorTypes().getValue().drop_front()));
  op->walk([](linalg::IndexOp index) { index.setDim(index.getDim() - 1); });
}

/// Views whose first two dimensions stay alone lose one of them.
void TokenPacker::packReshape(Operation *op) {
  auto fewer = [](SmallVector<ReassociationIndices> groups) {
    groups.erase(groups.begin());
    for (ReassociationIndices &group : groups) {
      for (int64_t &dim : group) {
        --dim;
      }
    }
    return groups;
  };
  OpBuilder b(op);
  RankedTensorType type = packedType(op->getResult(0).getType());
  Value view;
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    SmallVector<OpFoldResult> sizes{
        tensor::DimOp::create(b, op->getLoc(), expand.getSrc(), 0).getResult()};
    for (int64_t size : type.getShape().drop_front()) {
      sizes.push_back(b.getIndexAttr(size));
    }
    view = tensor::ExpandShapeOp::create(b, op->getLoc(), type, expand.getSrc(),
                                         fewer(expand.getReassociationIndices()), sizes);
  } else {
    auto collapse = cast<tensor::CollapseShapeOp>(op);
    view = tensor::CollapseShapeOp::create(b, op->getLoc(), type, collapse.getSrc(),
                                           fewer(collapse.getReassociationIndices()));
  }
  packed.insert(view);
  op->getResult(0).replaceAllUsesWith(view);
  op->erase();
}

LogicalResult TokenPacker::packResults(Operation *op) {
  for (Value result : op->getResults()) {
    if (isa<lm::CacheType>(result.getType())) {
      continue;
    }
    RankedTensorType type = packedType(result.getType());
    if (!type) {
      return op->emitError() << "gives " << result.getType() << ", expected [batch, seq, ..]";
    }
    if (llvm::any_of(type.getShape().drop_front(), ShapedType::isDynamic)) {
      return op->emitError() << "gives " << result.getType()
                             << ", expected fixed sizes behind batch and seq";
    }
    result.setType(type);
    packed.insert(result);
  }
  return success();
}

LogicalResult TokenPacker::packOp(Operation *op) {
  if (isa<lm::PaddedPositionsOp>(op)) {
    op->getResult(0).replaceAllUsesWith(positions);
    op->erase();
    return success();
  }
  bool onActivations = llvm::any_of(op->getOperands(), [&](Value v) { return isPacked(v); });
  bool isDone = op->getNumResults() > 0 && isPacked(op->getResult(0)); // made by this pass
  if (isDone || !onActivations || isa<tensor::DimOp>(op)) {
    return success(); // recipes, constants, sizes
  }
  // Judged as it was: two row dimensions. The types of its operands are packed already, the maps of
  // a generic are not.
  if (!isTokenWise(op, kPaddedRowDims) && !takesBatch(op)) {
    return op->emitError() << "mixes tokens (" << op->getName()
                           << " is not token-wise); expected operations that treat each "
                           << "token alone outside of attention, so that sequences can share a "
                              "step without padding";
  }
  if (failed(packOperands(op))) {
    return failure();
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    packGeneric(generic);
  } else if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
    if (!packedType(op->getResult(0).getType()).getShape().drop_front().empty() &&
        llvm::any_of(packedType(op->getResult(0).getType()).getShape().drop_front(),
                     ShapedType::isDynamic)) {
      return op->emitError() << "gives " << op->getResult(0).getType()
                             << ", expected fixed sizes behind batch and seq";
    }
    packReshape(op);
    return success();
  }
  return packResults(op);
}

LogicalResult TokenPacker::dropPaddedInputs() {
  // Sizes and fills of the padded form, from the last to the first.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front()))) {
    if (isOpTriviallyDead(&op) && !isa<lm::WeightOpInterface>(op)) {
      op.erase();
    }
  }
  for (unsigned i = func.getNumArguments(); i-- > 0;) {
    if (argumentRole(func, i) != "attention_mask") {
      continue;
    }
    BlockArgument mask = func.getArgument(i);
    if (!mask.use_empty()) {
      return (*mask.user_begin())->emitError() << "computes with the attention mask; expected it "
                                                  "to serve attention and positions alone";
    }
    (void)func.eraseArgument(i);
  }
  return success();
}

namespace {

struct PackTokens : impl::PackTokensBase<PackTokens> {
  using PackTokensBase::PackTokensBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isModel(func)) {
      return;
    }
    auto ids = cast<RankedTensorType>(func.getArgument(*findArgument(func, "token_ids")).getType());
    if (ids.getRank() == 1) {
      func.emitError("is packed already; pack-tokens runs once");
      return signalPassFailure();
    }
    if (failed(TokenPacker(func).run()) || failed(keepLogitRows(func))) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace sluicec::optimize
