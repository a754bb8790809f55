// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products with weights to lm.linear; see Passes.td.
#include "compiler/raise/NodeMatch.h"
#include "compiler/raise/Passes.h"
#include "compiler/raise/RaiseRewriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISELINEAR
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

int64_t rankOf(Value weight) { return cast<RankedTensorType>(weight.getType()).getRank(); }
int64_t sizeOf(Value weight, unsigned dim) {
  return cast<RankedTensorType>(weight.getType()).getDimSize(dim);
}

/// The [B, S, F] activation whose rows `x` shows; `x` itself where it has rank 3 and shows nothing
/// simpler.
Value findRows(RaiseRewriter &rewriter, Value x) {
  auto rows = rewriter.views.rows(x);
  if (rows && rows->wholeRows() && rows->repeats == 1 && shapeOf(rows->base).size() == 3) {
    return rows->base;
  }
  return shapeOf(x).size() == 3 ? x : Value();
}

LogicalResult emitLinear(RaiseRewriter &rewriter, NodeBinder node, Value weight, Value bias) {
  Value x = findRows(rewriter, node.operand(0)), old = node.op()->getResult(0);
  if (!x || cast<RankedTensorType>(x.getType()).getShape().back() != sizeOf(weight, 1)) {
    return failure();
  }
  Value result =
      lm::LinearOp::create(rewriter.builder, node.op()->getLoc(),
                           rewriter.typeLike(x, {sizeOf(weight, 0)}), x, weight, bias, Value());
  result = rewriter.reshapeLike(result, old);
  if (!result) {
    return failure();
  }
  rewriter.replace(old, result);
  return success();
}

/// MatMul(x, W[K, N]).
LogicalResult raiseMatMul(RaiseRewriter &rewriter, NodeBinder node) {
  Value weight = node.is("MatMul") ? rewriter.weight(node.operand(1)) : Value();
  if (!weight || rankOf(weight) != 2) {
    return failure();
  }
  return emitLinear(rewriter, node, rewriter.transposeWeight(weight, {1, 0}), Value());
}

/// Gemm with alpha = beta = 1 and untransposed rows.
LogicalResult raiseGemm(RaiseRewriter &rewriter, NodeBinder node) {
  Value weight = node.is("Gemm") ? rewriter.weight(node.operand(1)) : Value();
  if (!weight || rankOf(weight) != 2 || node.attrInt("transA") != 0 ||
      node.attrFloat("alpha") != 1.0f) {
    return failure();
  }
  if (node.attrInt("transB") == 0) {
    weight = rewriter.transposeWeight(weight, {1, 0});
  }
  Value bias;
  if (node.operand(2)) {
    bias = rewriter.weight(node.operand(2));
    int64_t features = sizeOf(weight, 0);
    if (!bias || node.attrFloat("beta") != 1.0f ||
        cast<RankedTensorType>(bias.getType()).getNumElements() != features) {
      return failure();
    }
    bias = rewriter.reshapeWeight(bias, {features});
  }
  return emitLinear(rewriter, node, weight, bias);
}

/// linear + vector: the vector becomes the bias.
LogicalResult raiseBias(RaiseRewriter &rewriter, NodeBinder node) {
  auto terms =
      node.is("Add")
          ? orderOperands(node, [&](Value v) { return static_cast<bool>(rewriter.weight(v)); })
          : std::nullopt;
  auto rows = terms ? rewriter.views.rows(terms->second) : std::nullopt;
  auto linear = rows && rows->wholeRows() && rows->repeats == 1
                    ? rows->base.getDefiningOp<lm::LinearOp>()
                    : lm::LinearOp();
  if (!linear || linear.getBias() || linear.getResidual()) {
    return failure();
  }
  Value bias = rewriter.weight(terms->first);
  int64_t features = sizeOf(linear.getWeight(), 0);
  auto biasType = cast<RankedTensorType>(bias.getType());
  if (biasType.getNumElements() != features || biasType.getShape().back() != features) {
    return failure();
  }
  Value result = lm::LinearOp::create(rewriter.builder, rewriter.fuse({linear, node.op()}),
                                      linear.getType(), linear.getX(), linear.getWeight(),
                                      rewriter.reshapeWeight(bias, {features}), Value());
  Value old = node.op()->getResult(0);
  result = rewriter.reshapeLike(result, old);
  if (!result) {
    return failure();
  }
  rewriter.replace(old, result);
  return success();
}

/// Elementwise code on flattened rows [B * S, F] moves before the Reshape that flattened them, so
/// that what follows sees [B, S, F].
LogicalResult sinkReshape(RaiseRewriter &rewriter, NodeBinder node) {
  constexpr StringLiteral kElementwise[] = {
      "Add",  "Sub",  "Mul", "Div", "Max",        "Min",  "Pow",     "Neg",  "Exp", "Log",
      "Sqrt", "Tanh", "Erf", "Abs", "Reciprocal", "Relu", "Sigmoid", "Clip", "Gelu"};
  auto result = node.resultType(0);
  if (!node.op().getDomain().empty() || !llvm::is_contained(kElementwise, node.op().getOpType()) ||
      !result || result.getRank() != 2 || !result.getElementType().isF32()) {
    return failure();
  }
  SmallVector<Value> operands;
  Value base;
  for (Value operand : node.op()->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type || type.getRank() < 2) { // absent, a number or a vector: broadcast as before
      operands.push_back(operand);
      continue;
    }
    auto rows = rewriter.views.rows(operand);
    if (!rows || !rows->wholeRows() || rows->repeats != 1 || shapeOf(rows->base).size() != 3) {
      return failure();
    }
    base = rows->base;
    operands.push_back(base);
  }
  if (!base || ShapedType::isDynamic(result.getDimSize(1))) {
    return failure();
  }
  Value moved = onnx::NodeOp::create(rewriter.builder, node.op()->getLoc(),
                                     TypeRange{rewriter.typeLike(base, {result.getDimSize(1)})},
                                     operands, node.op().getOpType(), "",
                                     node.op().getSinceVersion(), node.op().getAttrs(), 0)
                    .getResult(0);
  Value old = node.op()->getResult(0);
  moved = rewriter.reshapeLike(moved, old);
  if (!moved) {
    return failure();
  }
  rewriter.replace(old, moved);
  return success();
}

struct RaiseLinear : sluicec::raise::impl::RaiseLinearBase<RaiseLinear> {
  using RaiseLinearBase::RaiseLinearBase;

  void runOnOperation() override {
    RaiseRewriter rewriter(getOperation());
    for (Operation *op : rewriter.operations()) {
      NodeBinder node(op);
      if (!node || op->use_empty()) {
        continue;
      }
      rewriter.setInsertionPoint(op);
      (void)(succeeded(raiseMatMul(rewriter, node)) || succeeded(raiseGemm(rewriter, node)) ||
             succeeded(raiseBias(rewriter, node)) || succeeded(sinkReshape(rewriter, node)));
    }
    rewriter.finish();
  }
};

} // namespace
