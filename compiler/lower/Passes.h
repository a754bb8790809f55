// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations of the passes of stage lower, generated from Passes.td.
#pragma once
#include "dialects/kernel/KernelDialect.h"

#include "mlir/Pass/Pass.h"
namespace sluicec::lower {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/lower/Passes.h.inc"
} // namespace sluicec::lower
