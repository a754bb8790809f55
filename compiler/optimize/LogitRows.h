// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts lm.logit_rows into a packed function, as early as only token-wise operations follow.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluicec::optimize {

/// The logits result of a packed function [T, V] becomes [R, V]: the rows whose logits are wanted
/// are selected in front of all token-wise operations that serve logits alone. Fails, with a
/// diagnostic, where there is no logits result.
mlir::LogicalResult keepLogitRows(mlir::func::FuncOp func);

} // namespace sluicec::optimize
