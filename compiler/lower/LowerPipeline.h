// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes of stage lower in order. In: packed lm IR as optimize leaves it; out: verified kernel
// IR.
#pragma once

#include "mlir/Pass/PassManager.h"

namespace sluicec::lower {

struct LowerOptions {
  int64_t kvBlockTokens = 16; ///< tokens in one block of the key-value cache
};

/// lower-to-kernel, plan-memory, verify-kernel.
void buildLowerPipeline(mlir::OpPassManager &passes, const LowerOptions &options);

} // namespace sluicec::lower
