// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the passes of stage lower.
#include "compiler/lower/LowerPipeline.h"

#include "compiler/lower/Passes.h"

namespace sluicec::lower {

void buildLowerPipeline(mlir::OpPassManager &passes, const LowerOptions &options) {
  LowerToKernelOptions toKernel;
  toKernel.kvBlockTokens = options.kvBlockTokens;
  passes.addPass(createLowerToKernel(toKernel));
  passes.addPass(createPlanMemory());
  passes.addPass(createVerifyKernel());
}

} // namespace sluicec::lower
