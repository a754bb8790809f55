// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the raise passes. Norms and linears come first since the others match on what
// surrounds them.
#include "compiler/raise/RaisePipeline.h"

#include "compiler/raise/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

void sluicec::raise::buildRaisePipeline(OpPassManager &manager, const RaiseOptions &options) {
  OpPassManager &functions = manager.nest<func::FuncOp>();
  functions.addPass(createCanonicalizeOnnx());
  functions.addPass(createRaiseNorm());
  functions.addPass(createRaiseLinear());
  functions.addPass(createRaiseRope());
  functions.addPass(createRaiseEmbedding());
  functions.addPass(createRaiseAttention());
  functions.addPass(createRaiseActivation());
  functions.addPass(createRaiseMoe());
  functions.addPass(createRaiseElementwise());
  manager.addPass(
      createRaiseSignature({options.configContext, options.configWindow, options.trustConfig}));
  manager.nest<func::FuncOp>().addPass(createVerifyRaised());
}
