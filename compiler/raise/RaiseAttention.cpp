// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One forward walk: caches before the attention that reads them, masks once for all layers; see
// Passes.td.
#include "compiler/raise/AttentionRaiser.h"
#include "compiler/raise/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISEATTENTION
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

struct RaiseAttention : sluicec::raise::impl::RaiseAttentionBase<RaiseAttention> {
  using RaiseAttentionBase::RaiseAttentionBase;

  void runOnOperation() override {
    AttentionRaiser raiser(getOperation());
    using Rule = FailureOr<bool> (AttentionRaiser::*)(NodeBinder);
    constexpr Rule kRules[] = {&AttentionRaiser::raiseAppend, &AttentionRaiser::raiseArithmetic,
                               &AttentionRaiser::raiseGuard, &AttentionRaiser::raiseStandard,
                               &AttentionRaiser::raiseGroupQuery};
    for (Operation *op : raiser.rewriter.operations()) {
      NodeBinder node(op);
      if (!node || op->use_empty()) {
        continue;
      }
      raiser.rewriter.setInsertionPoint(op);
      for (Rule rule : kRules) {
        FailureOr<bool> raised = (raiser.*rule)(node);
        if (failed(raised)) {
          return signalPassFailure();
        }
        if (*raised) {
          break;
        }
      }
    }
    raiser.rewriter.finish();
  }
};

} // namespace
