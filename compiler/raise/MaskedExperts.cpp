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

/// True where one node at most computes with the value; asking for its shape is no computation.
bool hasOneReader(Value value) {
  auto readsShape = [](Operation *user) {
    NodeBinder node(user);
    return node.is("Shape") ||
           (node.is("Slice") && llvm::all_of(user->getUsers(), [](Operation *next) {
              return NodeBinder(next).is("Shape");
            }));
  };
  return llvm::count_if(value.getUsers(), [&](Operation *user) { return !readsShape(user); }) <= 1;
}

/// The summands of a tree of Adds whose inner sums nothing else uses.
void collectSummands(Value root, SmallVectorImpl<Value> &leaves, DenseSet<Operation *> &visited) {
  SmallVector<Value> stack{root};
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    NodeBinder node(value);
    bool inner = (node.is("Add") || node.is("Sum")) && (value == root || hasOneReader(value));
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

std::optional<ExpertTerm> ExpertRaiser::readExpert(Value result) {
  auto rows = rewriter.views.rows(result);
  auto down = rows && rows->wholeRows() && rows->repeats == 1
                  ? rows->base.getDefiningOp<lm::LinearOp>()
                  : lm::LinearOp();
  auto gated = down ? down.getX().getDefiningOp<lm::GatedActivationOp>() : lm::GatedActivationOp();
  auto gate = gated ? gated.getGate().getDefiningOp<lm::LinearOp>() : lm::LinearOp();
  auto up = gated ? gated.getUp().getDefiningOp<lm::LinearOp>() : lm::LinearOp();
  if (!gate || !up || gate.getX() != up.getX()) {
    return std::nullopt;
  }
  ExpertTerm term;
  term.activation = gated.getActivation();
  term.x = gate.getX();
  term.gate = gate.getWeight();
  term.up = up.getWeight();
  term.down = down.getWeight();
  term.gateBias = gate.getBias();
  term.upBias = up.getBias();
  term.downBias = down.getBias();
  return term;
}

std::optional<ExpertTerm> ExpertRaiser::readMaskedTerm(Value value) {
  NodeBinder product(value);
  for (size_t side : {0, 1}) {
    auto term = product.is("Mul") ? readExpert(product.operand(side)) : std::nullopt;
    if (term && readShare(rewriter, product.operand(1 - side), *term)) {
      term->op = product.op();
      return term;
    }
  }
  return std::nullopt;
}

FailureOr<bool> ExpertRaiser::raiseExpertSum(NodeBinder root) {
  if ((!root.is("Add") && !root.is("Sum")) || visitedSums.contains(root.op())) {
    return false;
  }
  SmallVector<Value> leaves, others;
  collectSummands(root.op()->getResult(0), leaves, visitedSums);
  SmallVector<ExpertTerm> terms;
  for (Value leaf : leaves) {
    std::optional<ExpertTerm> term = readMaskedTerm(leaf);
    term = term ? term : readScatteredTerm(leaf);
    if (term) {
      terms.push_back(*term);
    } else if (!isZeros(leaf)) {
      others.push_back(leaf);
    }
  }
  if (terms.empty()) {
    return false;
  }
  FailureOr<Value> sum = joinExperts(root, terms);
  if (failed(sum)) {
    return failure();
  }
  Value old = root.op()->getResult(0);
  Value result = rewriter.reshapeLike(*sum, old);
  if (!result) {
    return root.error() << "sum of experts of an unexpected shape";
  }
  for (Value other : others) {
    result = rewriter.createNode(root.op()->getLoc(), "Add", {other, result}, result.getType());
  }
  rewriter.replace(old, result);
  return true;
}

FailureOr<Value> ExpertRaiser::joinExperts(NodeBinder root, ArrayRef<ExpertTerm> terms) {
  const ExpertTerm &first = terms.front();
  Value routeIds = first.ids;
  int64_t experts = *shapeOf(routeIds.getDefiningOp<lm::RouteOp>().getLogits()).back().asConstant();
  SmallVector<const ExpertTerm *> byId(static_cast<size_t>(experts), nullptr);
  auto alike = [](Value a, Value b) { return a ? b && a.getType() == b.getType() : !b; };
  for (const ExpertTerm &term : terms) {
    NodeBinder node(term.op);
    if (term.ids != first.ids || term.x != first.x || term.activation != first.activation ||
        !alike(term.gate, first.gate) || !alike(term.up, first.up) ||
        !alike(term.down, first.down) || !alike(term.gateBias, first.gateBias) ||
        !alike(term.upBias, first.upBias) || !alike(term.downBias, first.downBias)) {
      return node.error() << "expert " << term.expert
                          << " differs in input, shape or activation from expert " << first.expert
                          << " of the same sum";
    }
    if (term.expert < 0 || term.expert >= experts) {
      return node.error() << "expert " << term.expert << " is none of the router's " << experts;
    }
    const ExpertTerm *&place = byId[static_cast<size_t>(term.expert)];
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
  auto stacked = [&](Value ExpertTerm::*part) -> Value {
    if (!(first.*part)) {
      return {};
    }
    SmallVector<Value> parts;
    for (const ExpertTerm *term : byId) {
      SmallVector<int64_t> shape(cast<RankedTensorType>((term->*part).getType()).getShape());
      shape.insert(shape.begin(), 1);
      parts.push_back(rewriter.reshapeWeight(term->*part, shape));
    }
    return rewriter.concatWeights(parts, 0);
  };
  ExpertWeights weights{stacked(&ExpertTerm::gate),   stacked(&ExpertTerm::up),
                        stacked(&ExpertTerm::down),   stacked(&ExpertTerm::gateBias),
                        stacked(&ExpertTerm::upBias), stacked(&ExpertTerm::downBias)};
  SmallVector<Operation *> ops{root.op()};
  for (const ExpertTerm &term : terms) {
    ops.push_back(term.op);
  }
  return emitExperts(first.x, {first.weights, first.ids}, weights, first.activation,
                     rewriter.fuse(ops));
}
