// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routers, and the lm operations of a layer of experts. MaskedExperts.cpp has sums over all
// experts.
#include "compiler/raise/ExpertRaiser.h"

#include "compiler/raise/NodeMatch.h"
#include "dialects/onnx/InferShapes.h"
#include "dialects/onnx/OnnxOpTable.h"

#include <limits>

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

static ArrayRef<int64_t> shapeOfWeight(Value weight) {
  return cast<RankedTensorType>(weight.getType()).getShape();
}

ExpertRaiser::Route ExpertRaiser::emitRoute(const RouteSpec &spec, Location loc) {
  OpBuilder &builder = rewriter.builder;
  RankedTensorType weights = rewriter.typeLike(spec.logits, {spec.topK});
  SymbolicShape shape = shapeOf(spec.logits);
  shape.back() = SymbolicExpr::constant(spec.topK);
  auto op = lm::RouteOp::create(
      builder, loc, weights, onnx::rankedType(shape, builder.getI32Type()), spec.logits,
      spec.correction, builder.getI64IntegerAttr(spec.topK),
      lm::ScoreFunctionAttr::get(builder.getContext(), spec.score),
      spec.normalize ? builder.getUnitAttr() : UnitAttr(), builder.getF64FloatAttr(spec.scale));
  lm::ProbeOp::create(builder, loc, op.getIds(), "router_ids", numLayers);
  lm::ProbeOp::create(builder, loc, op.getWeights(), "router_weights", numLayers);
  ++numLayers;
  return {op.getWeights(), op.getIds()};
}

Value ExpertRaiser::groupedLinear(Value x, Value ids, Value weight, Value bias, Location loc) {
  int64_t choices = *shapeOf(ids).back().asConstant();
  RankedTensorType type = rewriter.typeLike(ids, {choices, shapeOfWeight(weight)[1]});
  return lm::GroupedLinearOp::create(rewriter.builder, loc, type, x, ids, weight, bias);
}

Value ExpertRaiser::emitExperts(Value x, const Route &route, const ExpertWeights &weights,
                                lm::GatedActivationAttr activation, Location loc) {
  Value gate = groupedLinear(x, route.ids, weights.gate, weights.gateBias, loc);
  Value up = groupedLinear(x, route.ids, weights.up, weights.upBias, loc);
  Value inner =
      lm::GatedActivationOp::create(rewriter.builder, loc, gate.getType(), gate, up, activation);
  Value down = groupedLinear(inner, route.ids, weights.down, weights.downBias, loc);
  return lm::CombineOp::create(rewriter.builder, loc,
                               rewriter.typeLike(x, {shapeOfWeight(weights.down)[1]}), down,
                               route.weights);
}

/// The value that divides `values` by their sum along the last dimension where that is all they are
/// used for.
static Value normalizedUse(Value values) {
  Value quotient;
  for (Operation *user : values.getUsers()) {
    NodeBinder node(user);
    if (node.is("ReduceSum") && worksOnLastAxis(node) && node.attrInt("keepdims") == 1) {
      continue;
    }
    if (!node.is("Div") || node.operand(0) != values || quotient) {
      return {};
    }
    auto guarded = plusNumber(node.operand(1)); // a tiny number may keep the sum from zero
    NodeBinder sum(guarded && guarded->second < 1e-6 ? guarded->first : node.operand(1));
    if (!sum.is("ReduceSum") || sum.operand(0) != values) {
      return {};
    }
    quotient = node.op()->getResult(0);
  }
  return quotient;
}

FailureOr<bool> ExpertRaiser::raiseRoute(NodeBinder node) {
  auto type = node.is("TopK") ? node.operandType(0) : RankedTensorType();
  std::optional<int64_t> topK = type ? node.constantInt(1) : std::nullopt;
  int64_t axis = type ? node.attrInt("axis") : 0;
  if (!topK || !isa<FloatType>(type.getElementType()) || node.attrInt("largest") == 0 ||
      (axis != -1 && axis != type.getRank() - 1)) {
    return false;
  }
  RouteSpec spec;
  spec.topK = *topK;
  SmallVector<Operation *> ops{node.op()};
  NodeBinder score(node.operand(0));
  Value logits = node.operand(0), chosen = node.op()->getResult(0), weights = chosen;
  if (score.is("Softmax") && worksOnLastAxis(score)) {
    logits = score.operand(0);
    ops.push_back(score.op());
  } else if (score.is("Sigmoid")) {
    spec.score = lm::ScoreFunction::Sigmoid;
    logits = score.operand(0);
    ops.push_back(score.op());
  } else {
    NodeBinder softmax(chosen.hasOneUse() ? *chosen.getUsers().begin() : nullptr);
    if (!softmax.is("Softmax") || !worksOnLastAxis(softmax)) {
      return false;
    }
    spec.score = lm::ScoreFunction::SoftmaxSelected;
    weights = softmax.op()->getResult(0);
    ops.push_back(softmax.op());
  }
  if (Value quotient = normalizedUse(weights)) {
    spec.normalize = true;
    weights = quotient;
    ops.push_back(quotient.getDefiningOp());
  }
  auto rows = rewriter.views.rows(logits);
  if (!rows || rows->repeats != 1 || shapeOf(rows->base).size() != 3 ||
      isa_and_nonnull<onnx::NodeOp>(rows->base.getDefiningOp())) {
    return false;
  }
  spec.logits = rewriter.rowsOf(*rows);
  int64_t experts = *shapeOf(spec.logits).back().asConstant();
  if (*topK < 1 || *topK > experts) {
    return node.error() << "chooses " << *topK << " of " << experts << " experts";
  }
  Route route = emitRoute(spec, rewriter.fuse(ops));
  Value ids = rewriter.reshapeLike(route.ids, node.op()->getResult(1));
  Value scores = rewriter.reshapeLike(route.weights, weights);
  if (!ids || !scores) {
    return node.error() << "router results of an unexpected shape";
  }
  rewriter.replace(node.op()->getResult(1), ids);
  rewriter.replace(weights, scores);
  return true;
}

Value ExpertRaiser::idsOf(Value index) {
  auto rows = rewriter.views.rows(index);
  return rows && rows->wholeRows() && rows->repeats == 1 && rows->base.getDefiningOp<lm::RouteOp>()
             ? rows->base
             : Value();
}

/// The table and index of a Gather or GatherND of whole entries along dimension 0.
static std::optional<std::pair<Value, Value>> chosenEntries(Value value) {
  NodeBinder node(value);
  if (node.is("Gather") && node.attrInt("axis") == 0) {
    return std::pair(node.operand(0), node.operand(1));
  }
  auto index = node.is("GatherND") ? node.operandType(1) : RankedTensorType();
  if (index && node.attrInt("batch_dims") == 0 && index.getShape().back() == 1) {
    return std::pair(node.operand(0), node.operand(1));
  }
  return std::nullopt;
}

FailureOr<bool> ExpertRaiser::raiseGatheredMatMul(NodeBinder node) {
  if (!node.is("MatMul")) {
    return false;
  }
  for (size_t side : {0, 1}) {
    auto entries = chosenEntries(node.operand(side));
    Value ids = entries ? idsOf(entries->second) : Value();
    Value weight = ids ? rewriter.weight(entries->first) : Value();
    if (!weight || shapeOfWeight(weight).size() != 3) {
      continue;
    }
    // W[e] x has the weight as it is, x W[e] its transpose.
    Value oriented = side == 0 ? weight : rewriter.transposeWeight(weight, {0, 2, 1});
    auto rows = rewriter.views.rows(node.operand(1 - side));
    int64_t choices = *shapeOf(ids).back().asConstant();
    bool perToken = rows && rows->repeats == choices && shapeOf(rows->base).size() == 3;
    bool perChoice = rows && rows->repeats == 1 && shapeOf(rows->base).size() == 4;
    if (!perToken && !perChoice) {
      return node.error()
             << "multiplies experts chosen per token with rows that aren't those tokens";
    }
    Value x = rewriter.rowsOf(*rows), old = node.op()->getResult(0);
    if (shapeOf(x).back().asConstant() != shapeOfWeight(oriented)[2]) {
      return node.error() << "expert weights have " << shapeOfWeight(oriented)[2]
                          << " input features, rows have " << *shapeOf(x).back().asConstant();
    }
    Value result = groupedLinear(x, ids, oriented, Value(), node.op()->getLoc());
    result = rewriter.reshapeLike(result, old);
    if (!result) {
      return node.error() << "result of an unexpected shape";
    }
    rewriter.replace(old, result);
    return true;
  }
  return false;
}

FailureOr<bool> ExpertRaiser::raiseGatheredBias(NodeBinder node) {
  auto terms = node.is("Add")
                   ? orderOperands(node, [](Value v) { return chosenEntries(v).has_value(); })
                   : std::nullopt;
  if (!terms) {
    return false;
  }
  auto entries = chosenEntries(terms->first);
  Value ids = idsOf(entries->second), bias = ids ? rewriter.weight(entries->first) : Value();
  auto rows = rewriter.views.rows(terms->second);
  auto linear = rows && rows->wholeRows() && rows->repeats == 1
                    ? rows->base.getDefiningOp<lm::GroupedLinearOp>()
                    : lm::GroupedLinearOp();
  if (!bias || !linear || linear.getIds() != ids || linear.getBias() ||
      shapeOfWeight(bias).size() != 2) {
    return false;
  }
  Value result = groupedLinear(linear.getX(), ids, linear.getWeight(), bias,
                               rewriter.fuse({linear, node.op()}));
  Value old = node.op()->getResult(0);
  result = rewriter.reshapeLike(result, old);
  if (!result) {
    return false;
  }
  rewriter.replace(old, result);
  return true;
}

FailureOr<bool> ExpertRaiser::raiseCombine(NodeBinder node) {
  auto axes = node.is("ReduceSum") ? reducedAxes(node) : std::nullopt;
  if (!axes || axes->size() != 1 || node.attrInt("keepdims") != 0) {
    return false;
  }
  Value summed = node.operand(0);
  const TensorView &view = rewriter.views.of(summed);
  NodeBinder product(view.base);
  auto axis = static_cast<size_t>(axes->front());
  if (!product.is("Mul") || axis + 2 != view.dims.size()) {
    return false;
  }
  for (size_t side : {0, 1}) {
    auto rows = rewriter.views.rows(product.operand(side));
    auto weights = rewriter.views.rows(product.operand(1 - side));
    auto down = rows && rows->wholeRows() && rows->repeats == 1
                    ? rows->base.getDefiningOp<lm::GroupedLinearOp>()
                    : lm::GroupedLinearOp();
    if (!down || !weights || weights->repeats != 1 || !weights->wholeRows() ||
        !weights->base.getDefiningOp<lm::RouteOp>() ||
        weights->base.getDefiningOp() != down.getIds().getDefiningOp()) {
      continue;
    }
    // The summed dimension must be the choices: k entries, right outside the features.
    SymbolicShape shape = shapeOf(summed);
    int64_t choices = *shapeOf(weights->base).back().asConstant();
    if (!shape[axis].isConstant(choices) || shape.back().asConstant() != rows->count) {
      continue;
    }
    Value result = lm::CombineOp::create(rewriter.builder, rewriter.fuse({node.op(), product.op()}),
                                         rewriter.typeLike(weights->base, {rows->count}),
                                         rows->base, weights->base);
    Value old = node.op()->getResult(0);
    result = rewriter.reshapeLike(result, old);
    if (!result) {
      return node.error() << "result of an unexpected shape";
    }
    rewriter.replace(old, result);
    return true;
  }
  return false;
}

FailureOr<bool> ExpertRaiser::raiseOperator(NodeBinder node) {
  if (!node.is("MoE", onnx::kMicrosoftDomain)) {
    return false;
  }
  auto rows = rewriter.views.rows(node.operand(0)), logits = rewriter.views.rows(node.operand(1));
  Value fc1 = rewriter.weight(node.operand(2)), fc2 = rewriter.weight(node.operand(4));
  Value fc3 = node.operand(6) ? rewriter.weight(node.operand(6)) : Value();
  if (!rows || !rows->wholeRows() || rows->repeats != 1 || !logits || !logits->wholeRows() ||
      logits->repeats != 1 || shapeOf(rows->base).size() != 3 ||
      shapeOf(logits->base).size() != 3 || !fc1 || !fc2) {
    return node.error() << "its rows, router logits or weights aren't activations [batch, tokens, "
                           "features] and constants";
  }
  StringRef activation = node.attrString("activation_type");
  int64_t fusion = node.attrInt("swiglu_fusion", 0);
  bool swiglu = activation == "swiglu";
  if (node.attrInt("use_sparse_mixer", 0) != 0 ||
      (!swiglu && activation != "silu" && activation != "gelu") || (!fc3 && fusion == 0)) {
    return node.error()
           << "has activation '" << activation << "', swiglu_fusion " << fusion
           << " or sparse mixing, expected gated experts: swiglu, or silu and gelu with fc3";
  }
  int64_t features = rows->baseFeatures, experts = logits->baseFeatures;
  if (shapeOfWeight(fc1)[0] != experts || shapeOfWeight(fc2)[0] != experts) {
    return node.error() << "has weights of " << shapeOfWeight(fc1)[0] << " and "
                        << shapeOfWeight(fc2)[0] << " experts, the router chooses among "
                        << experts;
  }
  // [E, N, K] as the operator's documentation says; older exporters wrote [E, K, N].
  auto oriented = [&](Value weight, bool inputIsFeatures) {
    auto shape = shapeOfWeight(weight);
    bool transposed = inputIsFeatures ? shape[2] != features && shape[1] == features
                                      : shape[1] != features && shape[2] == features;
    return transposed ? rewriter.transposeWeight(weight, {0, 2, 1}) : weight;
  };
  ExpertWeights weights;
  fc1 = oriented(fc1, true);
  weights.down = oriented(fc2, false);
  weights.downBias = node.operand(5) ? rewriter.weight(node.operand(5)) : Value();
  Value fc1Bias = node.operand(3) ? rewriter.weight(node.operand(3)) : Value();
  if (fc3) {
    weights.gate = fc1;
    weights.up = oriented(fc3, true);
    weights.gateBias = fc1Bias;
    weights.upBias = node.operand(7) ? rewriter.weight(node.operand(7)) : Value();
  } else {
    int64_t inner = shapeOfWeight(fc1)[1] / 2;
    int64_t stride = fusion == 1 ? 2 : 1,
            second = fusion == 1 ? 1 : inner; // interleaved rows, or gate above up
    weights.gate = rewriter.sliceWeight(fc1, 1, 0, stride, inner);
    weights.up = rewriter.sliceWeight(fc1, 1, second, stride, inner);
    weights.gateBias = fc1Bias ? rewriter.sliceWeight(fc1Bias, 1, 0, stride, inner) : Value();
    weights.upBias = fc1Bias ? rewriter.sliceWeight(fc1Bias, 1, second, stride, inner) : Value();
  }
  if (shapeOfWeight(weights.gate)[2] != features || shapeOfWeight(weights.down)[1] != features ||
      shapeOfWeight(weights.down)[2] != shapeOfWeight(weights.gate)[1]) {
    return node.error() << "expert weights " << fc1.getType() << " and " << fc2.getType()
                        << " don't fit " << features << " features";
  }
  OpBuilder &builder = rewriter.builder;
  auto number = [&](double value) { return builder.getF64FloatAttr(value); };
  constexpr double kNone = std::numeric_limits<double>::infinity();
  auto gated = lm::GatedActivationAttr::get(
      builder.getContext(),
      activation == "gelu" ? lm::ActivationKind::GeluErf : lm::ActivationKind::Silu,
      number(swiglu ? node.attrFloat("activation_alpha", 1.0f) : 1.0),
      number(swiglu ? node.attrFloat("activation_beta", 0.0f) : 0.0),
      number(swiglu && node.hasAttr("swiglu_limit") ? node.attrFloat("swiglu_limit") : kNone));
  RouteSpec spec;
  spec.logits = logits->base;
  spec.topK = node.attrInt("k");
  spec.normalize = node.attrInt("normalize_routing_weights", 0) != 0;
  if (spec.topK < 1 || spec.topK > experts) {
    return node.error() << "chooses " << spec.topK << " of " << experts << " experts";
  }
  Route route = emitRoute(spec, node.op()->getLoc());
  Value old = node.op()->getResult(0);
  Value result = rewriter.reshapeLike(
      emitExperts(rows->base, route, weights, gated, node.op()->getLoc()), old);
  if (!result) {
    return node.error() << "result of an unexpected shape";
  }
  rewriter.replace(old, result);
  return true;
}
