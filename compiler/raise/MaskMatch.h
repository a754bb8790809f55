// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an attention mask means: which keys it lets a query see. Used by raise-attention.
#pragma once

#include "compiler/raise/IndexExpression.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluicec::raise {

/// What a mask lets through, all of it together.
struct MaskMeaning {
  bool causal = false;         // keys at or before the query's own place
  int64_t window = 0;          // of them the own and the window - 1 before it; 0 for all
  mlir::BlockArgument padding; // [B, T] integers, keys with 0 are hidden; null for none
};

/// Places of queries among the keys: query q of S stands at `past` + q.
struct MaskGeometry {
  SymbolicExpr past;
};

/// The meaning of `seen`, a condition of batch %0, head %1, query %2 and key %3; std::nullopt and
/// the part that isn't understood.
std::optional<MaskMeaning> interpretMask(mlir::func::FuncOp function, const Condition &seen,
                                         const MaskGeometry &geometry, std::string &notUnderstood);

/// The condition under which `mask` (rank 2 to 4, bool: true is seen; float: added to the scores)
/// lets key %3 through; std::nullopt where an element isn't understood, with the operation that
/// stands in the way.
std::optional<Condition> conditionOfMask(IndexExpressions &expressions, mlir::Value mask,
                                         mlir::Operation *&culprit);

} // namespace sluicec::raise
