// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inference rules that rows of the op table name. A rule checks ranks, sizes and element types
// of the operands (an error names found and expected) and sets type, shape and, for small integer
// tensors, values of each result. An operand of unknown rank or type is not an error: the result is
// then unknown as well.
#pragma once

#include "dialects/onnx/InferContext.h"

namespace sluicec::onnx::rules {

using llvm::LogicalResult;

// ShapeRulesElementwise.cpp
LogicalResult sameAsFirst(InferContext &c);
LogicalResult arithmetic(InferContext &c);
LogicalResult compare(InferContext &c);
LogicalResult logical(InferContext &c);
LogicalResult classify(InferContext &c);
LogicalResult power(InferContext &c);
LogicalResult where(InferContext &c);
LogicalResult cast(InferContext &c);
LogicalResult castLike(InferContext &c);
LogicalResult dropout(InferContext &c);
LogicalResult quantizeLinear(InferContext &c);
LogicalResult dequantizeLinear(InferContext &c);
LogicalResult dynamicQuantizeLinear(InferContext &c);

// ShapeRulesLayout.cpp
LogicalResult shape(InferContext &c);
LogicalResult size(InferContext &c);
LogicalResult concat(InferContext &c);
LogicalResult split(InferContext &c);
LogicalResult slice(InferContext &c);
LogicalResult reshape(InferContext &c);
LogicalResult flatten(InferContext &c);
LogicalResult squeeze(InferContext &c);
LogicalResult unsqueeze(InferContext &c);
LogicalResult transpose(InferContext &c);
LogicalResult expand(InferContext &c);
LogicalResult tile(InferContext &c);
LogicalResult pad(InferContext &c);

// ShapeRulesIndexing.cpp
LogicalResult constant(InferContext &c);
LogicalResult constantOfShape(InferContext &c);
LogicalResult range(InferContext &c);
LogicalResult eyeLike(InferContext &c);
LogicalResult gather(InferContext &c);
LogicalResult gatherElements(InferContext &c);
LogicalResult gatherND(InferContext &c);
LogicalResult nonZero(InferContext &c);
LogicalResult oneHot(InferContext &c);
LogicalResult topK(InferContext &c);
LogicalResult argReduce(InferContext &c);
LogicalResult reduce(InferContext &c);

// ShapeRulesLinear.cpp
LogicalResult matMul(InferContext &c);
LogicalResult fusedMatMul(InferContext &c);
LogicalResult matMulInteger(InferContext &c);
LogicalResult gemm(InferContext &c);
LogicalResult einsum(InferContext &c);
LogicalResult matMulNBits(InferContext &c);
LogicalResult gatherBlockQuantized(InferContext &c);
LogicalResult rmsNorm(InferContext &c);
LogicalResult layerNorm(InferContext &c);
LogicalResult skipLayerNorm(InferContext &c);
LogicalResult attention(InferContext &c);
LogicalResult groupQueryAttention(InferContext &c);
LogicalResult multiHeadAttention(InferContext &c);
LogicalResult moe(InferContext &c);
LogicalResult qmoe(InferContext &c);

// ShapeRulesControl.cpp
LogicalResult ifOp(InferContext &c);
LogicalResult loop(InferContext &c);
LogicalResult scan(InferContext &c);

// Used by several of the files above.

/// Numpy broadcasting of two shapes; unknown where a rank is. Error where two constant sizes differ
/// and neither is 1.
mlir::FailureOr<std::optional<SymbolicShape>>
broadcastShapes(InferContext &c, const std::optional<SymbolicShape> &a,
                const std::optional<SymbolicShape> &b);
/// Error unless both types are known and equal or one is unknown; returns the known one.
mlir::FailureOr<mlir::Type> sameElementType(InferContext &c, size_t first, size_t second);
/// Error where operand `index` has a known rank other than `rank`.
LogicalResult requireRank(InferContext &c, size_t index, size_t rank);
/// The number of elements, unknown where a size is.
SymbolicExpr numElements(llvm::ArrayRef<SymbolicExpr> shape);
/// "[2, s26]": how diagnostics write a shape.
std::string shapeText(llvm::ArrayRef<SymbolicExpr> shape);

} // namespace sluicec::onnx::rules
