// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass infer-shapes.
#include "dialects/onnx/InferShapes.h"

#include "compiler/import/Passes.h"

namespace sluicec {
#define GEN_PASS_DEF_INFERSHAPES
#include "compiler/import/Passes.h.inc"

namespace {
struct InferShapes : impl::InferShapesBase<InferShapes> {
  using InferShapesBase::InferShapesBase;

  void runOnOperation() override {
    mlir::FailureOr<onnx::ShapeFacts> facts = onnx::inferShapes(getOperation());
    if (failed(facts)) {
      return signalPassFailure();
    }
    if (fold) {
      onnx::foldKnownValues(getOperation(), *facts);
    }
  }
};
} // namespace
} // namespace sluicec
