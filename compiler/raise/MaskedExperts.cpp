// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Experts that the graph computes for every row and weighs by zero where the router did not choose
// them.
#include "compiler/raise/ExpertRaiser.h"
#include "compiler/raise/NodeMatch.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

/// weight of expert `expert` times its result.
struct ExpertTerm {
  int64_t expert = 0;
  Value weights, ids; // [B, S, k]
  Value x;            // [B, S, K]
  lm::LinearOp gate, up, down;
  lm::GatedActivationAttr activation;
  Operation *op = nullptr;
};

/// weights, ids and expert where `value` is the sum over choices of weights where ids equal the
/// expert.
bool readShare(RaiseRewriter &rewriter, Value value, ExpertTerm &term) {
  // The sum may keep its dimension or get it back by Unsqueeze.
  NodeBinder unsqueeze(value);
  NodeBinder sum(unsqueeze.is("Unsqueeze") ? unsqueeze.operand(0) : value);
  if (!sum.is("ReduceSum") || !worksOnLastAxis(sum)) {
    return false;
  }
  NodeBinder product(sum.operand(0));
  Value equal, weights;
  if (product.is("Mul")) {
    auto order = orderOperands(product, [](Value v) { return NodeBinder(v).is("Cast"); });
    if (!order) {
      return false;
    }
    equal = NodeBinder(order->first).operand(0);
    weights = order->second;
  } else if (product.is("Where") && constantNumber(product.operand(2)) == 0.0) {
    equal = product.operand(0);
    weights = product.operand(1);
  }
  NodeBinder compare(equal);
  auto sides = compare.is("Equal")
                   ? orderOperands(compare, [](Value v) { return constantNumber(v).has_value(); })
                   : std::nullopt;
  if (!sides) {
    return false;
  }
  term.expert = static_cast<int64_t>(*constantNumber(sides->first));
  term.ids = skipIdentity(rewriter.views, sides->second);
  term.weights = skipIdentity(rewriter.views, weights);
  return term.ids.getDefiningOp<lm::RouteOp>() &&
         term.ids.getDefiningOp() == term.weights.getDefiningOp();
}

std::optional<ExpertTerm> readTerm(RaiseRewriter &rewriter, Value value) {
  NodeBinder product(value);
  if (!product.is("Mul")) {
    return std::nullopt;
  }
  for (size_t side : {0, 1}) {
    ExpertTerm term;
    term.op = product.op();
    term.down = skipIdentity(rewriter.views, product.operand(side)).getDefiningOp<lm::LinearOp>();
    if (!term.down || !readShare(rewriter, product.operand(1 - side), term)) {
      continue;
    }
    auto gated = term.down.getX().getDefiningOp<lm::GatedActivationOp>();
    term.gate = gated ? gated.getGate().getDefiningOp<lm::LinearOp>() : lm::LinearOp();
    term.up = gated ? gated.getUp().getDefiningOp<lm::LinearOp>() : lm::LinearOp();
    if (term.gate && term.up && term.gate.getX() == term.up.getX()) {
      term.activation = gated.getActivation();
      term.x = term.gate.getX();
      return term;
    }
  }
  return std::nullopt;
}

/// The summands of a tree of Adds whose inner sums nothing else uses.
void collectSummands(Value root, SmallVectorImpl<Value> &leaves, DenseSet<Operation *> &visited) {
  SmallVector<Value> stack{root};
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    NodeBinder node(value);
    bool inner = (node.is("Add") || node.is("Sum")) && (value == root || value.hasOneUse());
    if (!inner) {
      leaves.push_back(value);
      continue;
    }
    visited.insert(node.op());
    for (size_t i = node.numOperands(); i > 0; --i) {
      stack.push_back(node.operand(i - 1));
    }
  }
}

} // namespace

FailureOr<bool> ExpertRaiser::raiseMaskedSum(NodeBinder root) {
  if ((!root.is("Add") && !root.is("Sum")) || visitedSums.contains(root.op())) {
    return false;
  }
  SmallVector<Value> leaves, others;
  collectSummands(root.op()->getResult(0), leaves, visitedSums);
  SmallVector<ExpertTerm> terms;
  for (Value leaf : leaves) {
    if (std::optional<ExpertTerm> term = readTerm(rewriter, leaf)) {
      terms.push_back(*term);
    } else {
      others.push_back(leaf);
    }
  }
  if (terms.empty()) {
    return false;
  }
  ExpertTerm &first = terms.front();
  auto route = first.ids.getDefiningOp<lm::RouteOp>();
  int64_t experts = *shapeOf(route.getLogits()).back().asConstant();
  SmallVector<ExpertTerm *> byId(static_cast<size_t>(experts), nullptr);
  for (ExpertTerm &term : terms) {
    NodeBinder node(term.op);
    if (term.ids != first.ids || term.x != first.x || term.activation != first.activation ||
        term.gate.getWeight().getType() != first.gate.getWeight().getType() ||
        term.down.getWeight().getType() != first.down.getWeight().getType() ||
        static_cast<bool>(term.gate.getBias()) != static_cast<bool>(first.gate.getBias()) ||
        static_cast<bool>(term.up.getBias()) != static_cast<bool>(first.up.getBias()) ||
        static_cast<bool>(term.down.getBias()) != static_cast<bool>(first.down.getBias())) {
      return node.error() << "expert " << term.expert
                          << " differs in input, shape or activation from expert " << first.expert
                          << " of the same sum";
    }
    if (term.expert < 0 || term.expert >= experts) {
      return node.error() << "expert " << term.expert << " is none of the router's " << experts;
    }
    ExpertTerm *&place = byId[static_cast<size_t>(term.expert)];
    if (place) {
      return node.error() << "expert " << term.expert << " stands twice in one sum";
    }
    place = &term;
  }
  for (auto [id, term] : llvm::enumerate(byId)) {
    if (!term) {
      return root.error() << "expert " << id << " is missing: the sum holds " << terms.size()
                          << " of the " << experts << " experts that the router chooses among";
    }
  }
  // One weight for all experts: [E, N, K] from E times [N, K]; a bias [E, N] likewise.
  auto stacked = [&](auto pick) -> Value {
    SmallVector<Value> parts;
    for (ExpertTerm *term : byId) {
      Value part = pick(*term);
      if (!part) {
        return {};
      }
      SmallVector<int64_t> shape(cast<RankedTensorType>(part.getType()).getShape());
      shape.insert(shape.begin(), 1);
      parts.push_back(rewriter.reshapeWeight(part, shape));
    }
    return rewriter.concatWeights(parts, 0);
  };
  ExpertWeights weights;
  weights.gate = stacked([](ExpertTerm term) { return term.gate.getWeight(); });
  weights.up = stacked([](ExpertTerm term) { return term.up.getWeight(); });
  weights.down = stacked([](ExpertTerm term) { return term.down.getWeight(); });
  weights.gateBias = stacked([](ExpertTerm term) { return term.gate.getBias(); });
  weights.upBias = stacked([](ExpertTerm term) { return term.up.getBias(); });
  weights.downBias = stacked([](ExpertTerm term) { return term.down.getBias(); });
  SmallVector<Operation *> ops{root.op()};
  for (const ExpertTerm &term : terms) {
    ops.push_back(term.op);
  }
  Value sum = emitExperts(first.x, {first.weights, first.ids}, weights, first.activation,
                          rewriter.fuse(ops));
  for (Value other : others) {
    sum = rewriter.createNode(root.op()->getLoc(), "Add", {other, sum}, sum.getType());
  }
  rewriter.replace(root.op()->getResult(0), sum);
  return true;
}
