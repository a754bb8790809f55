// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention written as matmul, mask, softmax, matmul.
#include "compiler/raise/AttentionRaiser.h"
#include "compiler/raise/NodeMatch.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

/// Strips Where(IsNaN(p), 0, p), which only touches rows that see nothing.
static Value skipNanGuard(Value value) {
  NodeBinder where(value);
  if (!where.is("Where")) {
    return value;
  }
  NodeBinder isNan(where.operand(0));
  bool guard = isNan.is("IsNaN") && constantNumber(where.operand(1)) == 0.0 &&
               isNan.operand(0) == where.operand(2);
  return guard ? where.operand(2) : value;
}

/// z where `value` is z minus its maximum along the last dimension.
static Value skipMaximum(Value value) {
  NodeBinder difference(value);
  NodeBinder maximum(difference.is("Sub") ? difference.operand(1) : Value());
  return maximum.is("ReduceMax") && maximum.operand(0) == difference.operand(0) &&
                 worksOnLastAxis(maximum)
             ? difference.operand(0)
             : value;
}

/// The softmax behind probabilities from which the last column (the sink) may be cut.
static NodeBinder softmaxOf(Value value, bool &cut) {
  value = skipNanGuard(value);
  NodeBinder slice(value);
  if (slice.is("Slice")) {
    SymbolicShape from = shapeOf(slice.operand(0)), to = shapeOf(value);
    auto starts = slice.constantInts(1);
    cut = starts && llvm::all_of(*starts, [](int64_t start) { return start == 0; }) &&
          from.size() == to.size() && !from.empty() &&
          from.back() == to.back() + SymbolicExpr::constant(1);
    return cut ? NodeBinder(slice.operand(0)) : NodeBinder(Value());
  }
  return NodeBinder(value);
}

/// query and keys of a product of [B, H, S, D] and [B, H, D, T].
bool AttentionRaiser::readProduct(NodeBinder product, AttentionParts &parts) {
  if (!product.is("MatMul")) {
    return false;
  }
  auto query = rewriter.scaledViews.heads(product.operand(0));
  auto keys = rewriter.scaledViews.cache(product.operand(1));
  if (!query || query->tokensFirst || !query->wholeHeads() || !keys || !keys->transposed) {
    return false;
  }
  parts.query = rewriter.selectFeatures(query->base, query->offset, 1, query->heads * query->size);
  parts.heads = query->heads;
  parts.keys = cacheOf(*keys);
  parts.keyRepeats = keys->repeats;
  parts.scale *= query->scale * keys->scale;
  parts.ops.push_back(product.op());
  return true;
}

FailureOr<bool> AttentionRaiser::readScores(NodeBinder node, Value scores, AttentionParts &parts,
                                            Condition &seen) {
  // From the outside in; a bound for chains that hostile files make.
  for (int step = 0; step < 16; ++step) {
    NodeBinder current(scores);
    if (current.is("MatMul")) {
      return readProduct(current, parts);
    }
    if (auto scaled = scaledByNumber(scores)) {
      NodeBinder tanh(scaled->first);
      if (tanh.is("Tanh")) {
        parts.softCap = scaled->second;
        parts.scale *= scaled->second; // cap * tanh(x * scale / cap)
        scores = tanh.operand(0);
      } else {
        parts.scale *= scaled->second;
        scores = scaled->first;
      }
      continue;
    }
    if (current.is("Add")) {
      Value rest;
      Operation *culprit = nullptr;
      for (size_t side : {1, 0}) {
        auto [condition, blocker] = maskCondition(current.operand(side));
        if (condition) {
          seen = Condition::both(seen, *condition);
          rest = current.operand(1 - side);
          break;
        }
        culprit = culprit ? culprit : blocker;
      }
      if (!rest) {
        auto error =
            node.error()
            << "attention mask isn't understood, expected one that positions and inputs decide";
        if (culprit) {
          error.attachNote(culprit->getLoc()) << "this node stands in the way";
        }
        return error;
      }
      scores = rest;
      continue;
    }
    if (current.is("Where")) {
      auto [condition, blocker] = maskCondition(current.operand(0));
      bool hidesElse = constantNumber(current.operand(2)).value_or(0.0) <= kMaskedOut;
      bool hidesThen = constantNumber(current.operand(1)).value_or(0.0) <= kMaskedOut;
      if (!condition || hidesElse == hidesThen) {
        return false;
      }
      seen = Condition::both(seen, hidesElse ? *condition : condition->negated());
      scores = current.operand(hidesElse ? 1 : 2);
      continue;
    }
    return false;
  }
  return false;
}

FailureOr<bool> AttentionRaiser::raiseArithmetic(NodeBinder node) {
  if (!node.is("MatMul") || shapeOf(node.op()->getResult(0)).size() != 4) {
    return false;
  }
  bool cut = false;
  NodeBinder softmax = softmaxOf(node.operand(0), cut);
  if (!softmax.is("Softmax") || !worksOnLastAxis(softmax)) {
    return false;
  }
  AttentionParts parts;
  parts.ops = {node.op(), softmax.op()};
  Value scores = skipMaximum(softmax.operand(0));
  if (cut) { // one more logit per head
    NodeBinder concat(scores);
    Value sinks = concat.is("Concat") && concat.numOperands() == 2
                      ? rewriter.weight(rewriter.views.of(concat.operand(1)).base)
                      : Value();
    if (!sinks) {
      return false;
    }
    parts.sinks =
        rewriter.reshapeWeight(sinks, {cast<RankedTensorType>(sinks.getType()).getNumElements()});
    scores = concat.operand(0);
  }
  Condition seen = Condition::always();
  FailureOr<bool> read = readScores(node, scores, parts, seen);
  if (failed(read) || !*read) {
    return read;
  }
  auto values = rewriter.views.cache(node.operand(1));
  if (!values || values->transposed) {
    return false;
  }
  parts.values = cacheOf(*values);
  parts.valueRepeats = values->repeats;
  FailureOr<MaskMeaning> mask = readMask(node, seen, parts, false);
  if (failed(mask)) {
    return failure();
  }
  parts.mask = *mask;
  Value old = node.op()->getResult(0);
  rewriter.replace(old, rewriter.headsLike(emit(parts), old, false));
  return true;
}

FailureOr<bool> AttentionRaiser::raiseGuard(NodeBinder node) {
  if (!node.is("Where") || !isZeros(node.operand(1)) ||
      !rewriter.views.of(node.operand(2)).base.getDefiningOp<lm::PaddedAttentionOp>()) {
    return false;
  }
  // sum of what is seen < a number in (0, 1]
  NodeBinder less(node.operand(0));
  NodeBinder sum(less.is("Less") ? less.operand(0) : Value());
  double bound = less.is("Less") ? constantNumber(less.operand(1)).value_or(0.0) : 0.0;
  NodeBinder cast(sum.is("ReduceSum") && worksOnLastAxis(sum) ? sum.operand(0) : Value());
  if (!cast.is("Cast") || bound <= 0.0 || bound > 1.0 || !maskCondition(cast.operand(0)).first) {
    return false;
  }
  rewriter.replace(node.op()->getResult(0), node.operand(2));
  return true;
}
