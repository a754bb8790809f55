// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers all dialects and passes, for the tools.
#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace sluicec {

void registerDialects(mlir::DialectRegistry &registry);

/// Passes of every stage, and those of MLIR that tests use (canonicalize, cse, ...).
void registerPasses();

} // namespace sluicec
