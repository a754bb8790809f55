// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where weight recipes stand in a function, and joining two weights: for passes that give an
// operation weights that were written further down.
#pragma once

#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluicec::optimize {

/// Moves all recipe operations to the top of the entry block in their order, so that any operation
/// may use any weight.
void hoistWeights(mlir::func::FuncOp func);

/// True where both are null or neither is.
inline bool bothOrNeither(mlir::Value a, mlir::Value b) {
  return static_cast<bool>(a) == static_cast<bool>(b);
}

/// True where the two weights can be joined along `dim`: equal element types and sizes of all other
/// dimensions.
bool canConcat(mlir::Value a, mlir::Value b, int64_t dim);

/// `a` then `b` along `dim`, or null where both are null. The recipe stands directly behind the
/// later of the two.
mlir::Value concatWeights(mlir::Value a, mlir::Value b, int64_t dim);

} // namespace sluicec::optimize
