// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations of the raise passes, generated from Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace sluicec::raise {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise
