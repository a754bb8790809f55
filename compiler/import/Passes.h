// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations of the import stage's passes, generated from Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace sluicec {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/import/Passes.h.inc"
} // namespace sluicec
