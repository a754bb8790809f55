// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Row lookups by token ids to lm.embedding; see Passes.td.
#include "compiler/raise/Passes.h"
#include "compiler/raise/RaiseRewriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISEEMBEDDING
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

/// Gather of rows of a [V, F] weight by [B, S] integers.
LogicalResult raiseEmbedding(RaiseRewriter &rewriter, NodeBinder node) {
  if (!node.is("Gather") || node.attrInt("axis") != 0) {
    return failure();
  }
  auto ids = node.operandType(1), table = node.operandType(0);
  if (!ids || !table || ids.getRank() != 2 || table.getRank() != 2 ||
      !isa<FloatType>(table.getElementType()) ||
      !isa<BlockArgument>(skipIdentity(rewriter.views, node.operand(1)))) {
    return failure();
  }
  Value weight = rewriter.weight(node.operand(0));
  if (!weight) {
    return failure();
  }
  Value source = skipIdentity(rewriter.views, node.operand(1));
  rewriter.replace(
      node.op()->getResult(0),
      lm::EmbeddingOp::create(
          rewriter.builder, node.op()->getLoc(),
          rewriter.typeLike(source, {cast<RankedTensorType>(weight.getType()).getDimSize(1)}, 0),
          weight, source));
  return success();
}

struct RaiseEmbedding : sluicec::raise::impl::RaiseEmbeddingBase<RaiseEmbedding> {
  using RaiseEmbeddingBase::RaiseEmbeddingBase;

  void runOnOperation() override {
    RaiseRewriter rewriter(getOperation());
    for (Operation *op : rewriter.operations()) {
      NodeBinder node(op);
      if (node && !op->use_empty()) {
        rewriter.setInsertionPoint(op);
        (void)raiseEmbedding(rewriter, node);
      }
    }
    rewriter.finish();
  }
};

} // namespace
