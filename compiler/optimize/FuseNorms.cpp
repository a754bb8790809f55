// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// fuse-norms: the addition in front of a norm is done by the norm.
#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/WeightPlacement.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_FUSENORMS
#include "compiler/optimize/Passes.h.inc"

namespace {

struct FuseAddition : OpRewritePattern<lm::RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(lm::RmsNormOp norm, PatternRewriter &rewriter) const override {
    auto add = norm.getX().getDefiningOp<arith::AddFOp>();
    if (!add || norm.getResidual()) {
      return rewriter.notifyMatchFailure(norm, "does not read a sum, or has a residual already");
    }
    if (add.getType() != norm.getResult().getType()) {
      return rewriter.notifyMatchFailure(norm, "the sum has another type than the norm");
    }
    // Where the sum stood, so that all who read it come later; weights stand at the top.
    rewriter.setInsertionPoint(add);
    Location loc = rewriter.getFusedLoc({add.getLoc(), norm.getLoc()});
    auto fused = lm::RmsNormOp::create(rewriter, loc, norm.getResult().getType(), add.getType(),
                                       add.getLhs(), norm.getWeight(), add.getRhs(),
                                       norm.getEpsilonAttr(), norm.getGroupsAttr());
    rewriter.replaceOp(norm, fused.getResult());
    rewriter.replaceOp(add, fused.getSum());
    return success();
  }
};

struct FuseNorms : impl::FuseNormsBase<FuseNorms> {
  using FuseNormsBase::FuseNormsBase;

  void runOnOperation() override {
    if (!isModel(getOperation())) {
      return;
    }
    hoistWeights(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseAddition>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace sluicec::optimize
