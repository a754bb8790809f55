// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// share-kv-heads: attention reads each key-value head once instead of repeated copies.
#include "compiler/optimize/ModelSignature.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_SHAREKVHEADS
#include "compiler/optimize/Passes.h.inc"

namespace {

/// past [B, G * r, P, D] and rows [B, S, G * r * D] of repeated heads become past [B, G, P, D] and
/// rows [B, S, G * D], the repetition follows. The past is an argument, whose type changes; a
/// returned present loses the copies too.
void repeatBehindCache(func::FuncOp func, lm::PaddedAppendOp append) {
  auto rows = append.getRows().getDefiningOp<lm::RepeatHeadsOp>();
  auto past = dyn_cast<BlockArgument>(append.getPast());
  if (!rows || !past || !past.hasOneUse() || past.getOwner() != &func.getBody().front()) {
    return;
  }
  // Whoever reads the cache reads heads; only attention and the caller do.
  bool knownUses = llvm::all_of(append->getUsers(), [](Operation *user) {
    return isa<lm::PaddedAttentionOp, lm::RepeatHeadsOp, func::ReturnOp>(user);
  });
  int64_t heads = rows.getHeads(), repeats = rows.getRepeats();
  auto pastType = cast<RankedTensorType>(past.getType());
  auto presentType = cast<RankedTensorType>(append.getType());
  if (!knownUses || pastType.getDimSize(1) != heads * repeats) {
    return;
  }
  auto withHeads = [&](RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = heads;
    return type.clone(shape);
  };
  past.setType(withHeads(pastType));
  append.getRowsMutable().assign(rows.getX());
  append.getResult().setType(withHeads(presentType));
  OpBuilder b(append->getContext());
  b.setInsertionPointAfter(append);
  auto again =
      lm::RepeatHeadsOp::create(b, rows.getLoc(), presentType, append.getResult(), heads, repeats);
  append.getResult().replaceUsesWithIf(again.getResult(), [&](OpOperand &use) {
    return use.getOwner() != again && !isa<func::ReturnOp>(use.getOwner());
  });
}

void foldRepeats(lm::PaddedAttentionOp attention) {
  auto keys = attention.getKeys().getDefiningOp<lm::RepeatHeadsOp>();
  auto values = attention.getValues().getDefiningOp<lm::RepeatHeadsOp>();
  // Query head h reads copy h / (H / (G r)), which is head h / (H / G): the grouping of fewer
  // key-value heads.
  if (!keys || !values || keys.getRepeats() != values.getRepeats() ||
      keys.getHeads() != values.getHeads()) {
    return;
  }
  attention.getKeysMutable().assign(keys.getX());
  attention.getValuesMutable().assign(values.getX());
  attention.setKvHeads(keys.getHeads());
}

struct ShareKvHeads : impl::ShareKvHeadsBase<ShareKvHeads> {
  using ShareKvHeadsBase::ShareKvHeadsBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isModel(func)) {
      return;
    }
    func.walk([&](lm::PaddedAppendOp append) { repeatBehindCache(func, append); });
    func.walk([&](lm::PaddedAttentionOp attention) {
      lm::PaddedAttentionOp op = attention;
      int64_t before = 0;
      // Copies of copies fold one after another.
      do {
        before = op.getKvHeads();
        foldRepeats(op);
      } while (static_cast<int64_t>(op.getKvHeads()) != before);
    });
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front()))) {
      if (isa<lm::RepeatHeadsOp>(op) && op.use_empty()) {
        op.erase();
      }
    }
    updateFunctionType(func);
  }
};

} // namespace
} // namespace sluicec::optimize
