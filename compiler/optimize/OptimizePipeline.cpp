// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the optimize passes, and why.
#include "compiler/optimize/OptimizePipeline.h"

#include "compiler/optimize/Passes.h"
#include "dialects/lm/LmDialect.h"

#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace sluicec::optimize {

static constexpr llvm::StringLiteral kOptional[] = {"share-kv-heads", "sparsify-attention",
                                                    "fuse-experts",   "fuse-epilogues",
                                                    "fuse-norms",     "convert-weights"};
static constexpr llvm::StringLiteral kRequired[] = {"page-kv-cache", "pack-tokens",
                                                    "verify-packed"};

llvm::ArrayRef<llvm::StringLiteral> optionalPasses() { return kOptional; }
llvm::ArrayRef<llvm::StringLiteral> requiredPasses() { return kRequired; }

llvm::Error buildOptimizePipeline(OpPassManager &manager, const OptimizeOptions &options) {
  for (llvm::StringRef name : kRequired) {
    if (llvm::is_contained(options.disabledPasses, name)) {
      return llvm::createStringError("pass '" + name +
                                     "' cannot be switched off: what follows works on its result");
    }
  }
  OpPassManager &functions = manager.nest<func::FuncOp>();
  auto add = [&](std::unique_ptr<Pass> pass) {
    if (!llvm::is_contained(options.disabledPasses, pass->getArgument())) {
      functions.addPass(std::move(pass));
    }
  };
  // Equal weights, tables and recipes become one value, so that patterns that compare values see
  // them as equal.
  functions.addPass(createCSEPass());

  // What the cache must hold is settled before there is one: fewer heads, windows instead of masks.
  add(createShareKvHeads());
  add(createSparsifyAttention());

  // Pages first: with them the batch comes into the function, and no operation is left that needs
  // batch and sequence as dimensions.
  add(createPageKvCache(PageKvCacheOptions{options.kv}));
  add(createPackTokens());

  // Fusions work on either form; behind packing they also see which rows the last layer computes.
  // Linears take their residuals before norms do: there the sum costs no extra read.
  add(createFuseExperts());
  add(createFuseEpilogues());
  add(createFuseNorms());

  // Last, since fusion joins weights and a conversion in between would hide that two are parts of
  // one.
  add(createConvertWeights(ConvertWeightsOptions{options.weights}));

  // Drops weights that nothing reads and joins equal conversions.
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  add(createVerifyPacked());
  return llvm::Error::success();
}

} // namespace sluicec::optimize
