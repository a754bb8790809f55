// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// fuse-experts: the grouped linears of a layer's chosen experts become one lm.experts.
#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/WeightPlacement.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_FUSEEXPERTS
#include "compiler/optimize/Passes.h.inc"

namespace {

/// The linear that gives `value` for this one use, or null.
lm::GroupedLinearOp onlyUsedResult(Value value) {
  return value.hasOneUse() ? value.getDefiningOp<lm::GroupedLinearOp>() : lm::GroupedLinearOp();
}

struct FuseCombine : OpRewritePattern<lm::CombineOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(lm::CombineOp combine, PatternRewriter &rewriter) const override {
    lm::GroupedLinearOp down = onlyUsedResult(combine.getY());
    auto gated = down && down.getX().hasOneUse()
                     ? down.getX().getDefiningOp<lm::GatedActivationOp>()
                     : lm::GatedActivationOp();
    if (!gated) {
      return rewriter.notifyMatchFailure(combine, "no grouped linear behind a gated activation");
    }
    lm::GroupedLinearOp gate = onlyUsedResult(gated.getGate()), up = onlyUsedResult(gated.getUp());
    if (!gate || !up) {
      return rewriter.notifyMatchFailure(gated, "gate and up are not grouped linears of one use");
    }
    Value ids = gate.getIds(), x = gate.getX();
    if (up.getIds() != ids || down.getIds() != ids || up.getX() != x) {
      return rewriter.notifyMatchFailure(gated, "gate, up and down differ in rows or choices");
    }
    // One row per choice would be another operation: lm.experts gives all choices the same row.
    if (cast<RankedTensorType>(x.getType()).getRank() !=
        cast<RankedTensorType>(ids.getType()).getRank()) {
      return rewriter.notifyMatchFailure(gate, "reads another row for each choice");
    }
    if (!canConcat(gate.getWeight(), up.getWeight(), 1) ||
        !canConcat(gate.getBias(), up.getBias(), 1)) {
      return rewriter.notifyMatchFailure(gated, "gate and up cannot be stacked");
    }
    Value gateUp = concatWeights(gate.getWeight(), up.getWeight(), 1); // [E, 2I, K]
    Value gateUpBias = concatWeights(gate.getBias(), up.getBias(), 1); // [E, 2I] or null
    Location loc = rewriter.getFusedLoc(
        {gate.getLoc(), up.getLoc(), gated.getLoc(), down.getLoc(), combine.getLoc()});
    auto experts = lm::ExpertsOp::create(rewriter, loc, combine.getType(), x, combine.getWeights(),
                                         ids, gateUp, down.getWeight(), gateUpBias, down.getBias(),
                                         gated.getActivation());
    rewriter.replaceOp(combine, experts);
    for (Operation *op :
         {down.getOperation(), gated.getOperation(), gate.getOperation(), up.getOperation()}) {
      rewriter.eraseOp(op);
    }
    return success();
  }
};

struct FuseExperts : impl::FuseExpertsBase<FuseExperts> {
  using FuseExpertsBase::FuseExpertsBase;

  void runOnOperation() override {
    if (!isModel(getOperation())) {
      return;
    }
    hoistWeights(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseCombine>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace sluicec::optimize
