// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations of the optimize passes, generated from Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace sluicec::optimize {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/optimize/Passes.h.inc"
} // namespace sluicec::optimize
