// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifiers of the lm operations: leading dimensions agree, features fit the weights.
#include "dialects/lm/LmDialect.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sluicec::lm {

static RankedTensorType tensorOf(Value v) { return cast<RankedTensorType>(v.getType()); }

/// Dimensions before the last `trailing` ones.
static ArrayRef<int64_t> leadingOf(Value v, unsigned trailing = 1) {
  auto shape = tensorOf(v).getShape();
  return shape.size() < trailing ? ArrayRef<int64_t>() : shape.drop_back(trailing);
}

static bool compatible(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto p) {
           auto [x, y] = p;
           return x == y || ShapedType::isDynamic(x) || ShapedType::isDynamic(y);
         });
}

/// Fails unless `v` is [.., sizes...] with the leading dimensions of `like`.
static LogicalResult expectShape(Operation *op, StringRef name, Value v, ArrayRef<int64_t> leading,
                                 ArrayRef<int64_t> sizes) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  SmallVector<int64_t> want(leading);
  want.append(sizes.begin(), sizes.end());
  if (!type || !compatible(type.getShape(), want)) {
    auto diag = op->emitOpError() << name << " is " << v.getType() << ", expected [";
    llvm::interleaveComma(want, diag,
                          [&](int64_t d) { ShapedType::isDynamic(d) ? diag << "?" : diag << d; });
    return diag << "]";
  }
  return success();
}

static LogicalResult expectWeight(Operation *op, StringRef name, Value v, ArrayRef<int64_t> sizes) {
  if (!v) {
    return success();
  }
  return expectShape(op, name, v, {}, sizes);
}

static LogicalResult expectF32(Operation *op, StringRef name, Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type || !type.getElementType().isF32()) {
    return op->emitOpError() << name << " is " << v.getType() << ", expected f32 elements";
  }
  return success();
}

LogicalResult EmbeddingOp::verify() {
  auto table = tensorOf(getTable());
  if (table.getRank() != 2) {
    return emitOpError() << "table is " << table << ", expected [vocabulary, features]";
  }
  return expectShape(*this, "result", getResult(), tensorOf(getIds()).getShape(),
                     {table.getDimSize(1)});
}

LogicalResult LinearOp::verify() {
  auto w = tensorOf(getWeight());
  if (w.getRank() != 2 || w.getDimSize(1) != featuresOf(getX())) {
    return emitOpError() << "weight is " << w << ", expected [outputs, " << featuresOf(getX())
                         << "]";
  }
  int64_t n = w.getDimSize(0);
  if (failed(expectWeight(*this, "bias", getBias(), {n})) ||
      (getResidual() &&
       failed(expectShape(*this, "residual", getResidual(), leadingOf(getX()), {n})))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), leadingOf(getX()), {n});
}

LogicalResult RmsNormOp::verify() {
  int64_t f = featuresOf(getX()), g = getGroups();
  if (g < 1 || f % g != 0) {
    return emitOpError() << "groups " << g << " do not divide " << f << " features";
  }
  if (static_cast<bool>(getResidual()) != static_cast<bool>(getSum())) {
    return emitOpError("gives sum exactly when it has a residual");
  }
  if (failed(expectWeight(*this, "weight", getWeight(), {f / g}))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), leadingOf(getX()), {f});
}

LogicalResult LayerNormOp::verify() {
  int64_t f = featuresOf(getX());
  if (failed(expectWeight(*this, "weight", getWeight(), {f})) ||
      failed(expectWeight(*this, "bias", getBias(), {f}))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), leadingOf(getX()), {f});
}

LogicalResult RopeTableOp::verify() {
  int64_t j = static_cast<int64_t>(getFrequencies().size());
  auto lead = tensorOf(getPositions()).getShape();
  if (failed(expectShape(*this, "cos", getCos(), lead, {j}))) {
    return failure();
  }
  return expectShape(*this, "sin", getSin(), lead, {j});
}

LogicalResult RopeOp::verify() {
  int64_t f = featuresOf(getX()), h = getHeads();
  if (h < 1 || f % h != 0 || 2 * featuresOf(getCos()) > f / h) {
    return emitOpError() << f << " features in " << h << " heads can't be rotated by "
                         << featuresOf(getCos()) << " pairs";
  }
  return expectShape(*this, "result", getResult(), leadingOf(getX()), {f});
}

LogicalResult RepeatHeadsOp::verify() {
  auto in = tensorOf(getX());
  SmallVector<int64_t> want(in.getShape());
  unsigned dim = in.getRank() == 4 ? 1 : in.getRank() - 1;
  if (getHeads() < 1 || getRepeats() < 1 || want[dim] % getHeads() != 0) {
    return emitOpError() << getHeads() << " heads do not divide " << want[dim];
  }
  want[dim] *= getRepeats();
  return expectShape(*this, "result", getResult(), {}, want);
}

LogicalResult GatedActivationOp::verify() {
  int64_t f = featuresOf(getGate());
  if (failed(expectShape(*this, "up", getUp(), leadingOf(getGate()), {f}))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), leadingOf(getGate()), {f});
}

LogicalResult GatedLinearOp::verify() {
  auto w = tensorOf(getWeight());
  if (w.getRank() != 2 || w.getDimSize(1) != featuresOf(getX()) || w.getDimSize(0) % 2 != 0) {
    return emitOpError() << "weight is " << w << ", expected [2 * outputs, " << featuresOf(getX())
                         << "]";
  }
  if (failed(expectWeight(*this, "bias", getBias(), {w.getDimSize(0)}))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), leadingOf(getX()), {w.getDimSize(0) / 2});
}

LogicalResult RouteOp::verify() {
  int64_t e = featuresOf(getLogits()), k = getTopK();
  if (k < 1 || k > e) {
    return emitOpError() << "top_k is " << k << ", expected 1 to " << e
                         << " (the number of experts)";
  }
  if (failed(expectWeight(*this, "correction", getCorrection(), {e})) ||
      failed(expectShape(*this, "weights", getWeights(), leadingOf(getLogits()), {k}))) {
    return failure();
  }
  return expectShape(*this, "ids", getIds(), leadingOf(getLogits()), {k});
}

LogicalResult GroupedLinearOp::verify() {
  auto w = tensorOf(getWeight());
  int64_t k = featuresOf(getIds());
  if (w.getRank() != 3 || w.getDimSize(2) != featuresOf(getX())) {
    return emitOpError() << "weight is " << w << ", expected [experts, outputs, "
                         << featuresOf(getX()) << "]";
  }
  auto rows = leadingOf(getIds());
  if (!compatible(leadingOf(getX()), rows)) {
    SmallVector<int64_t> perChoice(rows);
    perChoice.push_back(k);
    if (!compatible(leadingOf(getX()), perChoice)) {
      return emitOpError() << "x is " << getX().getType()
                           << ", expected one row per token or per choice of "
                           << getIds().getType();
    }
  }
  if (failed(expectWeight(*this, "bias", getBias(), {w.getDimSize(0), w.getDimSize(1)}))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), rows, {k, w.getDimSize(1)});
}

LogicalResult CombineOp::verify() {
  int64_t f = featuresOf(getY()), k = featuresOf(getWeights());
  if (failed(expectShape(*this, "y", getY(), leadingOf(getWeights()), {k, f}))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), leadingOf(getWeights()), {f});
}

LogicalResult ExpertsOp::verify() {
  auto gu = tensorOf(getGateUp()), down = tensorOf(getDown());
  int64_t f = featuresOf(getX()), k = featuresOf(getIds());
  if (gu.getRank() != 3 || gu.getDimSize(2) != f || gu.getDimSize(1) % 2 != 0) {
    return emitOpError() << "gate_up is " << gu << ", expected [experts, 2 * inner, " << f << "]";
  }
  int64_t e = gu.getDimSize(0), inner = gu.getDimSize(1) / 2;
  if (down.getRank() != 3 || down.getDimSize(0) != e || down.getDimSize(2) != inner) {
    return emitOpError() << "down is " << down << ", expected [" << e << ", outputs, " << inner
                         << "]";
  }
  int64_t n = down.getDimSize(1);
  if (failed(expectWeight(*this, "gate_up_bias", getGateUpBias(), {e, 2 * inner})) ||
      failed(expectWeight(*this, "down_bias", getDownBias(), {e, n})) ||
      failed(expectShape(*this, "weights", getWeights(), leadingOf(getX()), {k}))) {
    return failure();
  }
  return expectShape(*this, "result", getResult(), leadingOf(getX()), {n});
}

LogicalResult PaddedAppendOp::verify() {
  auto past = tensorOf(getPast()), out = tensorOf(getResult());
  if (past.getRank() != 4 || out.getRank() != 4 || tensorOf(getRows()).getRank() != 3 ||
      featuresOf(getRows()) != past.getDimSize(1) * past.getDimSize(3)) {
    return emitOpError() << "appends " << getRows().getType() << " to " << past
                         << ", expected [batch, new, heads * head] to [batch, heads, past, head]";
  }
  return success(out.getDimSize(1) == past.getDimSize(1) &&
                 out.getDimSize(3) == past.getDimSize(3));
}

/// What both attentions share: `head` features per key head, `valueHead` per value head.
template <typename AttentionLike>
static LogicalResult verifyAttention(AttentionLike op, int64_t kvHeads, int64_t head,
                                     int64_t valueHead) {
  int64_t h = op.getHeads(), g = op.getKvHeads();
  if (h < 1 || g < 1 || h % g != 0) {
    return op.emitOpError() << "heads (" << h << ") is not a multiple of kv_heads (" << g << ")";
  }
  if (g != kvHeads) {
    return op.emitOpError() << "kv_heads is " << g << ", the cache has " << kvHeads;
  }
  if (op.getWindow() < 0 || op.getMaskWindow() < 0) {
    return op.emitOpError("a window is 0 (none) or positive");
  }
  if (featuresOf(op.getQuery()) != h * head) {
    return op.emitOpError() << "query has " << featuresOf(op.getQuery()) << " features, expected "
                            << h * head;
  }
  if (failed(expectWeight(op, "sinks", op.getSinks(), {h}))) {
    return failure();
  }
  return expectShape(op, "result", op.getResult(), leadingOf(op.getQuery()), {h * valueHead});
}

LogicalResult PaddedAttentionOp::verify() {
  auto k = tensorOf(getKeys()), v = tensorOf(getValues());
  if (k.getRank() != 4 || v.getRank() != 4 || k.getDimSize(1) != v.getDimSize(1)) {
    return emitOpError() << "keys " << k << " and values " << v
                         << " are not [batch, kv heads, length, head]";
  }
  return verifyAttention(*this, k.getDimSize(1), k.getDimSize(3), v.getDimSize(3));
}

LogicalResult AttentionOp::verify() {
  auto cache = getCache().getType();
  if (getLayer() < 0 || getLayer() >= cache.getLayers()) {
    return emitOpError() << "layer " << getLayer() << " is not in a cache of " << cache.getLayers();
  }
  if (cache.getWindow() != 0 && getWindow() != cache.getWindow()) {
    return emitOpError() << "window " << getWindow() << " reads a cache that keeps "
                         << cache.getWindow();
  }
  return verifyAttention(*this, cache.getKvHeads(), cache.getKeyHead(), cache.getValueHead());
}

LogicalResult CacheAppendOp::verify() {
  auto cache = getCache().getType();
  if (getResult().getType() != cache) {
    return emitOpError() << "result is " << getResult().getType() << ", expected " << cache;
  }
  if (getLayer() < 0 || getLayer() >= cache.getLayers()) {
    return emitOpError() << "layer " << getLayer() << " is not in a cache of " << cache.getLayers();
  }
  if (failed(expectF32(*this, "keys", getKeys())) ||
      failed(expectF32(*this, "values", getValues()))) {
    return failure();
  }
  if (featuresOf(getKeys()) != cache.getKvHeads() * cache.getKeyHead() ||
      featuresOf(getValues()) != cache.getKvHeads() * cache.getValueHead() ||
      !compatible(leadingOf(getKeys()), leadingOf(getValues()))) {
    return emitOpError() << "keys " << getKeys().getType() << " and values "
                         << getValues().getType() << " do not fit " << cache;
  }
  return success();
}

LogicalResult LogitRowsOp::verify() {
  auto x = tensorOf(getX());
  if (x.getRank() < 2) {
    return emitOpError() << "x is " << x << ", expected [tokens, features]";
  }
  SmallVector<int64_t> want(x.getShape().drop_front());
  want.insert(want.begin(), ShapedType::kDynamic);
  return expectShape(*this, "result", getResult(), {}, want);
}

// Which operands are matrices (MatrixOpInterface).
SmallVector<OpOperand *> EmbeddingOp::matrices() { return {&getTableMutable()}; }
SmallVector<OpOperand *> LinearOp::matrices() { return {&getWeightMutable()}; }
SmallVector<OpOperand *> GatedLinearOp::matrices() { return {&getWeightMutable()}; }
SmallVector<OpOperand *> GroupedLinearOp::matrices() { return {&getWeightMutable()}; }
SmallVector<OpOperand *> ExpertsOp::matrices() { return {&getGateUpMutable(), &getDownMutable()}; }

} // namespace sluicec::lm
