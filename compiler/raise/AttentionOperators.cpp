// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention written as one operator: Attention (opset 23+) and com.microsoft.GroupQueryAttention.
#include "compiler/raise/AttentionRaiser.h"
#include "compiler/raise/NodeMatch.h"
#include "dialects/onnx/InferShapes.h"
#include "dialects/onnx/OnnxOpTable.h"

#include <cmath>

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

static int64_t featuresOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back();
}

/// The [B, S, F] activation that `value` shows, with the shown features.
static Value rowsActivation(RaiseRewriter &rewriter, Value value) {
  auto rows = rewriter.views.rows(value);
  if (rows && rows->repeats == 1 && shapeOf(rows->base).size() == 3) {
    return rewriter.rowsOf(*rows);
  }
  return shapeOf(value).size() == 3 ? value : Value();
}

FailureOr<bool> AttentionRaiser::raiseStandard(NodeBinder node) {
  if (!node.is("Attention")) {
    return false;
  }
  AttentionParts parts;
  parts.ops = {node.op()};
  Value query = node.operand(0), key = node.operand(1), value = node.operand(2);
  Value pastKey = node.operand(4), pastValue = node.operand(5);
  bool fourDimensional = shapeOf(query).size() == 4;
  if (node.operand(6) || node.result(3) ||
      static_cast<bool>(pastKey) != static_cast<bool>(pastValue)) {
    return node.error() << "has a nonpad_kv_seqlen operand, a qk_matmul_output or half a cache, "
                           "expected neither";
  }
  Location loc = node.op()->getLoc();
  if (fourDimensional) {
    auto heads = rewriter.scaledViews.heads(query);
    auto keys = rewriter.scaledViews.cache(key);
    auto values = rewriter.views.cache(value);
    if (!heads || heads->tokensFirst || !heads->wholeHeads() || !keys || keys->transposed ||
        !values || values->transposed || (pastKey && (!keys->flat || !values->flat))) {
      return node.error() << "query, keys or values aren't heads of activations or of a cache, "
                             "expected [batch, heads, "
                             "tokens, size]";
    }
    parts.query =
        rewriter.selectFeatures(heads->base, heads->offset, 1, heads->heads * heads->size);
    parts.heads = heads->heads;
    parts.scale = heads->scale * keys->scale;
    parts.keyRepeats = keys->repeats;
    parts.valueRepeats = values->repeats;
    if (pastKey) {
      auto grow = [&](Value past, const CacheView &view, size_t result) {
        Value rows = rewriter.selectFeatures(view.base, view.offset, 1, view.heads * view.size);
        return append(past, rows, loc, node.result(result));
      };
      parts.keys = grow(pastKey, *keys, 1);
      parts.values = grow(pastValue, *values, 2);
    } else {
      parts.keys = cacheOf(*keys);
      parts.values = cacheOf(*values);
    }
  } else {
    parts.query = rowsActivation(rewriter, query);
    Value keyRows = rowsActivation(rewriter, key), valueRows = rowsActivation(rewriter, value);
    parts.heads = node.attrInt("q_num_heads", 0);
    int64_t kvHeads = node.attrInt("kv_num_heads", 0);
    if (!parts.query || !keyRows || !valueRows || parts.heads < 1 || kvHeads < 1 ||
        featuresOf(keyRows) % kvHeads != 0 || featuresOf(valueRows) % kvHeads != 0) {
      return node.error()
             << "q_num_heads and kv_num_heads don't divide the features of query, keys and values";
    }
    if (pastKey) {
      parts.keys = append(pastKey, keyRows, loc, node.result(1));
      parts.values = append(pastValue, valueRows, loc, node.result(2));
    } else {
      CacheView keys{keyRows, kvHeads, 1, featuresOf(keyRows) / kvHeads, 0, false, true, 1.0};
      CacheView values{valueRows, kvHeads, 1, featuresOf(valueRows) / kvHeads, 0, false, true, 1.0};
      parts.keys = cacheOf(keys);
      parts.values = cacheOf(values);
    }
  }
  double head = static_cast<double>(featuresOf(parts.query)) / static_cast<double>(parts.heads);
  parts.scale *=
      node.hasAttr("scale") ? static_cast<double>(node.attrFloat("scale")) : 1.0 / std::sqrt(head);
  parts.softCap = node.attrFloat("softcap");
  Condition seen = Condition::always();
  if (Value mask = node.operand(3)) {
    auto [condition, culprit] = maskCondition(mask);
    if (!condition) {
      auto error =
          node.error()
          << "attention mask isn't understood, expected one that positions and inputs decide";
      if (culprit) {
        error.attachNote(culprit->getLoc()) << "this node stands in the way";
      }
      return error;
    }
    seen = *condition;
  }
  // is_causal aligns the last query with the last key only where the operator itself knows the
  // past.
  bool causal = node.attrInt("is_causal") != 0 &&
                (pastKey || shapeOf(parts.query)[1] == shapeOf(key)[fourDimensional ? 2 : 1]);
  FailureOr<MaskMeaning> mask = readMask(node, seen, parts, causal);
  if (failed(mask)) {
    return failure();
  }
  parts.mask = *mask;
  Value old = node.op()->getResult(0);
  Value result = emit(parts);
  rewriter.replace(old, fourDimensional ? rewriter.headsLike(result, old, false)
                                        : rewriter.reshapeLike(result, old));
  for (size_t i : {1, 2}) {
    if (Value present = node.result(i)) {
      rewriter.replace(present, i == 1 ? parts.keys : parts.values);
    }
  }
  return true;
}

namespace sluicec::raise {

/// Query, keys and values of a GroupQueryAttention node, and its padding.
struct GroupQueryReader {
  GroupQueryReader(RaiseRewriter &rewriter, NodeBinder node) : rewriter(rewriter), node(node) {}

  RaiseRewriter &rewriter;
  NodeBinder node;
  int64_t heads = node.attrInt("num_heads"), kvHeads = node.attrInt("kv_num_heads"), size = 0;
  Value query, keyRows, valueRows;
  BlockArgument padding;

  LogicalResult readRows() {
    Value packed = rowsActivation(rewriter, node.operand(0));
    if (!packed || heads < 1 || kvHeads < 1 || heads % kvHeads != 0) {
      return node.error() << "num_heads (" << heads
                          << ") is not a positive multiple of kv_num_heads (" << kvHeads << ")";
    }
    if (node.operand(1) && node.operand(2)) {
      query = packed;
      keyRows = rowsActivation(rewriter, node.operand(1));
      valueRows = rowsActivation(rewriter, node.operand(2));
      size = featuresOf(query) / heads;
    } else {
      size = featuresOf(packed) / (heads + 2 * kvHeads);
      query = rewriter.selectFeatures(packed, 0, 1, heads * size);
      keyRows = rewriter.selectFeatures(packed, heads * size, 1, kvHeads * size);
      valueRows = rewriter.selectFeatures(packed, (heads + kvHeads) * size, 1, kvHeads * size);
    }
    if (!keyRows || !valueRows || featuresOf(query) != heads * size ||
        featuresOf(keyRows) != kvHeads * size) {
      return node.error() << "query and keys have " << featuresOf(packed)
                          << " features, expected heads of one size";
    }
    return success();
  }

  /// The attention mask input whose row sums the lengths are.
  LogicalResult readLengths() {
    Value lengths = node.operand(5);
    SmallVector<SymbolicExpr> index(shapeOf(lengths).size(), SymbolicExpr::constant(0));
    if (!index.empty()) {
      index[0] = indexAtom(0);
      ElementExpr element = rewriter.expressions.element(lengths, index);
      for (BlockArgument argument : rewriter.function.getArguments()) {
        if (element.kind == ElementExpr::Kind::Integer &&
            element.integer == rowSumAtom(argument, indexAtom(0)) - SymbolicExpr::constant(1)) {
          padding = argument;
          return success();
        }
      }
    }
    return node.error() << "seqlens_k isn't the row sums of an attention mask input less 1; export "
                           "the model with the "
                           "attention mask as input";
  }
};

} // namespace sluicec::raise

FailureOr<bool> AttentionRaiser::raiseGroupQuery(NodeBinder node) {
  if (!node.is("GroupQueryAttention", onnx::kMicrosoftDomain)) {
    return false;
  }
  GroupQueryReader reader(rewriter, node);
  if (failed(reader.readRows()) || failed(reader.readLengths())) {
    return failure();
  }
  Value past = node.operand(3), pastValue = node.operand(4);
  if (!past || !pastValue || node.operand(10) || node.attrInt("smooth_softmax", 0) > 0) {
    return node.error() << "has no past, an attention bias or smooth softmax; expected a past of "
                           "keys and values alone";
  }
  Location loc = node.op()->getLoc();
  if (node.attrInt("do_rotary", 0) != 0) {
    Value ids = tokenIds(rewriter.function);
    Value positions = node.operand(9) ? skipIdentity(rewriter.views, node.operand(9)) : Value();
    if (!positions) {
      if (!ids) {
        return node.error() << "rotates by position, but the graph looks up no token ids";
      }
      positions = paddedPositions(rewriter, ids, reader.padding, loc);
    }
    std::string why;
    const RopeTable *table =
        node.operand(7) && node.operand(8)
            ? ropes.matchCaches(node.operand(7), node.operand(8), positions, why)
            : nullptr;
    if (!table) {
      return node.error() << "can't be raised: "
                          << (why.empty() ? "it rotates without cos_cache and sin_cache" : why);
    }
    RopeAngles angles = ropes.emit(*table, loc);
    auto rotate = [&](Value rows, int64_t heads) -> Value {
      return lm::RopeOp::create(
          rewriter.builder, loc, rewriter.typeLike(rows, {featuresOf(rows)}), rows, angles.cos,
          angles.sin, rewriter.builder.getI64IntegerAttr(heads),
          node.attrInt("rotary_interleaved", 0) != 0 ? rewriter.builder.getUnitAttr() : UnitAttr());
    };
    reader.query = rotate(reader.query, reader.heads);
    reader.keyRows = rotate(reader.keyRows, reader.kvHeads);
  }
  AttentionParts parts;
  parts.ops = {node.op()};
  parts.query = reader.query;
  parts.heads = reader.heads;
  for (Value cache : {past, pastValue}) { // the file may leave heads and size open
    SymbolicShape shape = shapeOf(cache);
    if (shape.size() != 4 || !isa<BlockArgument>(cache)) {
      return node.error() << "its past is not an input [batch, heads, length, size]";
    }
    shape[1] = SymbolicExpr::constant(reader.kvHeads);
    shape[3] = SymbolicExpr::constant(
        cache == past ? reader.size : featuresOf(reader.valueRows) / reader.kvHeads);
    cache.setType(onnx::rankedType(shape, rewriter.builder.getF32Type()));
  }
  parts.keys = append(past, reader.keyRows, loc, Value());
  parts.values = append(pastValue, reader.valueRows, loc, Value());
  float scale = node.attrFloat("scale", 0.0f);
  parts.scale = scale != 0.0f ? static_cast<double>(scale)
                              : 1.0 / std::sqrt(static_cast<double>(reader.size));
  parts.softCap = node.attrFloat("softcap", 0.0f);
  parts.mask = {true, std::max<int64_t>(node.attrInt("local_window_size", -1), 0), reader.padding};
  if (node.operand(11)) {
    Value sinks = rewriter.weight(node.operand(11));
    if (!sinks) {
      return node.error() << "its head_sink is not a constant";
    }
    parts.sinks = rewriter.reshapeWeight(sinks, {reader.heads});
  }
  rewriter.replace(node.op()->getResult(0),
                   rewriter.reshapeLike(emit(parts), node.op()->getResult(0)));
  for (size_t i : {1, 2}) {
    if (Value present = node.result(i)) {
      rewriter.replace(present, i == 1 ? parts.keys : parts.values);
    }
  }
  return true;
}
