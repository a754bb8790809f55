// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which operations compute each row (token) from the same row of their operands: what pack-tokens
// may repack and what logit rows may be moved through. Known by interface and trait, never by name.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace sluicec::optimize {

/// True where row r of each result depends on row r of each activation operand alone, rows being
/// the first `rowDims` dimensions: an operation with TokenWiseOpInterface, an elementwise one on
/// tensors, or a linalg.generic whose first `rowDims` loops are parallel and index the first
/// dimensions of results and activations alike.
bool isTokenWise(mlir::Operation *op, unsigned rowDims);

/// True for an operation that takes the batch and so knows where a sequence begins and ends.
bool takesBatch(mlir::Operation *op);

/// True for a tensor made of its sizes alone (tensor.empty, tensor.splat): it has as many rows as
/// its user wants.
bool isFill(mlir::Value value);

/// A copy of such a tensor with the type [?, ..] and as many rows as `like` [?, ..] has; stands
/// behind `like`.
mlir::Value fillRowsLike(mlir::Value fill, mlir::RankedTensorType type, mlir::Value like);

/// True for values that no row has a part in: recipes, constants, scalars computed from constants.
bool isRowFree(mlir::Value value);

} // namespace sluicec::optimize
