// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// fuse-epilogues: what follows a linear and reads nothing else of its row is done before the row is
// written.
#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/WeightPlacement.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "compiler/optimize/Passes.h.inc"

namespace {

/// The linear without residual that gives `value` for this one use, or null.
lm::LinearOp plainLinear(Value value) {
  auto linear = value.hasOneUse() ? value.getDefiningOp<lm::LinearOp>() : lm::LinearOp();
  return linear && !linear.getResidual() ? linear : lm::LinearOp();
}

struct FuseResidual : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::AddFOp add, PatternRewriter &rewriter) const override {
    Value residual = add.getRhs();
    lm::LinearOp linear = plainLinear(add.getLhs());
    if (!linear) {
      linear = plainLinear(add.getRhs());
      residual = add.getLhs();
    }
    if (!linear || linear.getType() != add.getType()) {
      return rewriter.notifyMatchFailure(add, "no linear that this sum alone reads");
    }
    Location loc = rewriter.getFusedLoc({linear.getLoc(), add.getLoc()});
    rewriter.replaceOp(add, lm::LinearOp::create(rewriter, loc, add.getType(), linear.getX(),
                                                 linear.getWeight(), linear.getBias(), residual));
    rewriter.eraseOp(linear);
    return success();
  }
};

struct FuseGate : OpRewritePattern<lm::GatedActivationOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(lm::GatedActivationOp gated,
                                PatternRewriter &rewriter) const override {
    lm::LinearOp gate = plainLinear(gated.getGate()), up = plainLinear(gated.getUp());
    if (!gate || !up || gate.getX() != up.getX() ||
        !canConcat(gate.getWeight(), up.getWeight(), 0) ||
        !canConcat(gate.getBias(), up.getBias(), 0)) {
      return rewriter.notifyMatchFailure(gated, "gate and up are not two like linears of one row");
    }
    Value weight = concatWeights(gate.getWeight(), up.getWeight(), 0); // [2I, K]
    Value bias = concatWeights(gate.getBias(), up.getBias(), 0);       // [2I] or null
    Location loc = rewriter.getFusedLoc({gate.getLoc(), up.getLoc(), gated.getLoc()});
    rewriter.replaceOp(gated, lm::GatedLinearOp::create(rewriter, loc, gated.getType(), gate.getX(),
                                                        weight, bias, gated.getActivation()));
    rewriter.eraseOp(gate);
    rewriter.eraseOp(up);
    return success();
  }
};

struct FuseEpilogues : impl::FuseEpiloguesBase<FuseEpilogues> {
  using FuseEpiloguesBase::FuseEpiloguesBase;

  void runOnOperation() override {
    if (!isModel(getOperation())) {
      return;
    }
    hoistWeights(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseResidual, FuseGate>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace sluicec::optimize
