// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The optimize stage as one pipeline: verified padded lm IR in, verified packed and fused lm IR
// out.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "mlir/Pass/PassManager.h"

#include <string>
#include <vector>

namespace sluicec::optimize {

struct OptimizeOptions {
  std::string weights = "keep";            // element type of matrices: keep, f32, f16, bf16
  std::string kv = "keep";                 // element type of the cache: keep, f32, f16, bf16
  std::vector<std::string> disabledPasses; // by option name; names of other stages are ignored
};

/// Names of the passes that may be switched off, in pipeline order; results stay right without
/// them.
llvm::ArrayRef<llvm::StringLiteral> optionalPasses();
/// Names of the passes that later stages cannot do without.
llvm::ArrayRef<llvm::StringLiteral> requiredPasses();

/// Adds the optimize passes to a pass manager over modules. Error where a required pass is to be
/// switched off.
llvm::Error buildOptimizePipeline(mlir::OpPassManager &manager, const OptimizeOptions &options);

} // namespace sluicec::optimize
