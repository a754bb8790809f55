// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A forward walk raises routers and gathered experts, a backward one sums over all experts from
// their roots; see Passes.td.
#include "compiler/raise/ExpertRaiser.h"
#include "compiler/raise/GatedActivation.h"
#include "compiler/raise/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISEMOE
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

struct RaiseMoe : sluicec::raise::impl::RaiseMoeBase<RaiseMoe> {
  using RaiseMoeBase::RaiseMoeBase;

  void runOnOperation() override {
    ExpertRaiser raiser(getOperation());
    using Rule = FailureOr<bool> (ExpertRaiser::*)(NodeBinder);
    constexpr Rule kForward[] = {
        &ExpertRaiser::raiseRoute,          &ExpertRaiser::raiseSort,
        &ExpertRaiser::raiseSortedGather,   &ExpertRaiser::raiseSortedMatMuls,
        &ExpertRaiser::raiseGatheredMatMul, &ExpertRaiser::raiseGatheredBias,
        &ExpertRaiser::raiseCombine,        &ExpertRaiser::raiseOperator,
        &ExpertRaiser::raiseDenseExperts};
    for (Operation *op : raiser.rewriter.operations()) {
      NodeBinder node(op);
      if (!node || op->use_empty()) {
        continue;
      }
      raiser.rewriter.setInsertionPoint(op);
      bool done = false;
      for (Rule rule : kForward) {
        FailureOr<bool> raised = (raiser.*rule)(node);
        if (failed(raised)) {
          return signalPassFailure();
        }
        done = done || *raised;
        if (done) {
          break;
        }
      }
      if (!done) {
        raiseGatedActivation(raiser.rewriter,
                             node); // of experts whose matrices were raised just before
      }
    }
    SmallVector<Operation *> behind = raiser.rewriter.operations();
    for (Operation *op : llvm::reverse(behind)) {
      NodeBinder node(op);
      if (node && !op->use_empty()) {
        raiser.rewriter.setInsertionPoint(op);
        if (failed(raiser.raiseExpertSum(node))) {
          return signalPassFailure();
        }
      }
    }
    raiser.rewriter.finish();
  }
};

} // namespace
