// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gates of dense layers and of experts that are computed for all rows; see Passes.td.
#include "compiler/raise/GatedActivation.h"
#include "compiler/raise/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISEACTIVATION
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

struct RaiseActivation : sluicec::raise::impl::RaiseActivationBase<RaiseActivation> {
  using RaiseActivationBase::RaiseActivationBase;

  void runOnOperation() override {
    RaiseRewriter rewriter(getOperation());
    for (Operation *op : rewriter.operations()) {
      NodeBinder node(op);
      if (node && !op->use_empty()) {
        rewriter.setInsertionPoint(op);
        raiseGatedActivation(rewriter, node);
      }
    }
    rewriter.finish();
  }
};

} // namespace
