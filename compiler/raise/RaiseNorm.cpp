// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalisation operators and their arithmetic to lm.rms_norm and lm.layer_norm; see Passes.td.
#include "compiler/raise/NodeMatch.h"
#include "compiler/raise/Passes.h"
#include "compiler/raise/RaiseRewriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISENORM
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

struct NormMatch {
  Value x;
  Value weight; // [features of a group]
  double epsilon = 0.0;
  SmallVector<Operation *> ops;
};

/// s with value = s^2: Pow(s, 2) or Mul(s, s).
Value squaredOperand(Value value) {
  NodeBinder node(value);
  if (node.is("Pow") && constantNumber(node.operand(1)) == 2.0) {
    return node.operand(0);
  }
  return node.is("Mul") && node.operand(0) == node.operand(1) ? node.operand(0) : Value();
}

/// The value under the root where `value` = 1 / sqrt(v).
Value underReciprocalRoot(Value value, SmallVectorImpl<Operation *> &ops) {
  NodeBinder node(value);
  Value root;
  if (node.is("Reciprocal")) {
    root = node.operand(0);
  } else if (node.is("Div") && constantNumber(node.operand(0)) == 1.0) {
    root = node.operand(1);
  } else if (node.is("Pow") && constantNumber(node.operand(1)) == -0.5) {
    ops.push_back(node.op());
    return node.operand(0);
  }
  NodeBinder square(root);
  bool isRoot = square.is("Sqrt") || (square.is("Pow") && constantNumber(square.operand(1)) == 0.5);
  if (!isRoot) {
    return {};
  }
  ops.push_back(node.op());
  ops.push_back(square.op());
  return square.operand(0);
}

/// x and epsilon where `value` = mean(x^2) + epsilon over the last dimension.
bool matchMeanSquare(Value value, NormMatch &match) {
  auto sum = plusNumber(value);
  NodeBinder mean(sum ? sum->first : value);
  if (!mean.is("ReduceMean") || !worksOnLastAxis(mean) || mean.attrInt("keepdims") != 1) {
    return false;
  }
  match.x = squaredOperand(mean.operand(0));
  match.epsilon = sum ? sum->second : 0.0;
  match.ops.push_back(mean.op());
  return static_cast<bool>(match.x);
}

/// weight * (x * 1/sqrt(mean(x^2) + epsilon)), the factors in any order.
std::optional<NormMatch> matchRmsArithmetic(RaiseRewriter &rewriter, NodeBinder root) {
  auto factors =
      root.is("Mul")
          ? orderOperands(root, [&](Value v) { return static_cast<bool>(rewriter.weight(v)); })
          : std::nullopt;
  if (!factors) {
    return std::nullopt;
  }
  NodeBinder normal(factors->second);
  NormMatch match;
  match.weight = rewriter.weight(factors->first);
  match.ops = {root.op(), normal.op()};
  auto inverse = [&](Value v) {
    SmallVector<Operation *> ops;
    NormMatch attempt;
    Value inner = underReciprocalRoot(v, ops);
    if (!inner || !matchMeanSquare(inner, attempt)) {
      return false;
    }
    match.x = attempt.x;
    match.epsilon = attempt.epsilon;
    match.ops.append(ops);
    match.ops.append(attempt.ops);
    return true;
  };
  if (normal.is("Mul")) {
    auto parts = orderOperands(normal, inverse);
    return parts && parts->second == match.x ? std::optional(match) : std::nullopt;
  }
  if (normal.is("Div")) { // x / sqrt(…)
    NodeBinder rootNode(normal.operand(1));
    match.ops.push_back(rootNode.op());
    if (rootNode.is("Sqrt") && matchMeanSquare(rootNode.operand(0), match) &&
        normal.operand(0) == match.x) {
      return match;
    }
  }
  return std::nullopt;
}

/// How a norm over the last dimension of `x` stands on a [B, S, F] activation: {base, groups}; `x`
/// itself where it is one.
struct NormBase {
  Value base;
  int64_t groups = 1;
};
std::optional<NormBase> findNormBase(RaiseRewriter &rewriter, Value x) {
  if (auto heads = rewriter.views.heads(x); heads && heads->wholeRows()) {
    return NormBase{heads->base, heads->heads};
  }
  if (auto rows = rewriter.views.rows(x);
      rows && rows->wholeRows() && rows->repeats == 1 && shapeOf(rows->base).size() == 3) {
    return NormBase{rows->base, 1};
  }
  return shapeOf(x).size() == 3 ? std::optional(NormBase{x, 1}) : std::nullopt;
}

/// The norm's result, with the layout of `old`, in place of it.
LogicalResult emitRmsNorm(RaiseRewriter &rewriter, const NormMatch &match, Value old) {
  std::optional<NormBase> place = findNormBase(rewriter, match.x);
  if (!place) {
    return failure();
  }
  int64_t features = cast<RankedTensorType>(place->base.getType()).getShape().back();
  auto weightType = cast<RankedTensorType>(match.weight.getType());
  if (ShapedType::isDynamic(features) || weightType.getNumElements() * place->groups != features) {
    return failure();
  }
  OpBuilder &builder = rewriter.builder;
  Value weight = rewriter.reshapeWeight(match.weight, {weightType.getNumElements()});
  auto norm = lm::RmsNormOp::create(
      builder, rewriter.fuse(match.ops), TypeRange{rewriter.typeLike(place->base, {features})},
      place->base, weight, Value(), builder.getF64FloatAttr(match.epsilon),
      builder.getI64IntegerAttr(place->groups));
  Value result = norm.getResult();
  if (place->groups > 1) {
    auto heads = rewriter.views.heads(match.x);
    result = rewriter.headsLike(result, old, heads->tokensFirst);
  } else {
    result = rewriter.reshapeLike(result, old);
  }
  if (!result) {
    return failure();
  }
  rewriter.replace(old, result);
  return success();
}

/// SimplifiedLayerNormalization and RMSNormalization over the last dimension.
std::optional<NormMatch> matchRmsOperator(RaiseRewriter &rewriter, NodeBinder node) {
  bool named = node.is("SimplifiedLayerNormalization") || node.is("RMSNormalization");
  Value weight = named ? rewriter.weight(node.operand(1)) : Value();
  auto type = named ? node.operandType(0) : RankedTensorType();
  if (!weight || !type) {
    return std::nullopt;
  }
  int64_t axis = node.attrInt("axis");
  if (axis != -1 && axis != type.getRank() - 1) {
    return std::nullopt;
  }
  return NormMatch{node.operand(0), weight, node.attrFloat("epsilon"), {node.op()}};
}

/// x + skip (+ bias), then the norm; result 3 is the sum.
LogicalResult raiseSkipNorm(RaiseRewriter &rewriter, NodeBinder node) {
  bool simplified = node.is("SkipSimplifiedLayerNormalization", "com.microsoft");
  if (!simplified && !node.is("SkipLayerNormalization", "com.microsoft")) {
    return failure();
  }
  Value weight = rewriter.weight(node.operand(2));
  Value x = node.operand(0), skip = node.operand(1);
  size_t biasIndex = simplified ? 3 : 4;
  if (!weight || shapeOf(x).size() != 3 || shapeOf(skip).size() != 3 || node.operand(biasIndex)) {
    return failure();
  }
  OpBuilder &builder = rewriter.builder;
  Location loc = node.op()->getLoc();
  int64_t features = cast<RankedTensorType>(x.getType()).getShape().back();
  RankedTensorType type = rewriter.typeLike(x, {features});
  Value sum = arith::AddFOp::create(builder, loc, type, skipIdentity(rewriter.views, x),
                                    skipIdentity(rewriter.views, skip));
  auto epsilon = builder.getF64FloatAttr(node.attrFloat("epsilon"));
  Value normal;
  if (simplified) {
    normal = lm::RmsNormOp::create(builder, loc, TypeRange{type}, sum, weight, Value(), epsilon,
                                   builder.getI64IntegerAttr(1))
                 .getResult();
  } else {
    normal = lm::LayerNormOp::create(builder, loc, type, sum, weight,
                                     rewriter.weight(node.operand(3)), epsilon);
  }
  rewriter.replace(node.op()->getResult(0), normal);
  if (Value summed = node.result(3)) {
    rewriter.replace(summed, sum);
  }
  return success();
}

LogicalResult raiseLayerNorm(RaiseRewriter &rewriter, NodeBinder node) {
  auto type = node.is("LayerNormalization") ? node.operandType(0) : RankedTensorType();
  Value weight = type ? rewriter.weight(node.operand(1)) : Value();
  if (!weight || type.getRank() != 3 || (node.attrInt("axis") != -1 && node.attrInt("axis") != 2)) {
    return failure();
  }
  OpBuilder &builder = rewriter.builder;
  Value x = skipIdentity(rewriter.views, node.operand(0));
  rewriter.replace(node.op()->getResult(0),
                   lm::LayerNormOp::create(builder, node.op()->getLoc(),
                                           rewriter.typeLike(x, {type.getDimSize(2)}), x, weight,
                                           rewriter.weight(node.operand(2)),
                                           builder.getF64FloatAttr(node.attrFloat("epsilon"))));
  return success();
}

struct RaiseNorm : sluicec::raise::impl::RaiseNormBase<RaiseNorm> {
  using RaiseNormBase::RaiseNormBase;

  void runOnOperation() override {
    RaiseRewriter rewriter(getOperation());
    for (Operation *op : rewriter.operations()) {
      NodeBinder node(op);
      if (!node || op->use_empty()) {
        continue;
      }
      rewriter.setInsertionPoint(op);
      if (succeeded(raiseSkipNorm(rewriter, node)) || succeeded(raiseLayerNorm(rewriter, node))) {
        continue;
      }
      std::optional<NormMatch> match = matchRmsOperator(rewriter, node);
      match = match ? match : matchRmsArithmetic(rewriter, node);
      if (match) {
        (void)emitRmsNorm(rewriter, *match, op->getResult(0));
      }
    }
    rewriter.finish();
  }
};

} // namespace
