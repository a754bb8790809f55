// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rotary embedding, as operator or arithmetic, to lm.rope; see Passes.td.
#include "compiler/raise/NodeMatch.h"
#include "compiler/raise/Passes.h"
#include "compiler/raise/RopeMatch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISEROPE
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

/// A rotation: x as the graph shows it, and the values of cos and sin that it is multiplied with.
struct Rotation {
  Value x;
  Value cos, sin;
  SmallVector<Operation *> ops;
};

/// The factors of a product, each with the other.
SmallVector<std::pair<Value, Value>, 2> factors(Value value) {
  NodeBinder node(value);
  if (!node.is("Mul")) {
    return {};
  }
  return {{node.operand(0), node.operand(1)}, {node.operand(1), node.operand(0)}};
}

/// True where `lo` and `hi` are the halves of each head of `x`.
bool areHalves(RaiseRewriter &rewriter, Value x, Value lo, Value hi) {
  auto whole = rewriter.views.heads(x), first = rewriter.views.heads(lo),
       second = rewriter.views.heads(hi);
  return whole && first && second && first->base == whole->base && second->base == whole->base &&
         first->heads == whole->heads && second->heads == whole->heads &&
         first->size * 2 == whole->size && second->size == first->size &&
         first->offset == whole->offset && second->offset == whole->offset + first->size &&
         (whole->heads == 1 ||
          (first->headStride == whole->headStride && second->headStride == whole->headStride)) &&
         first->tokensFirst == whole->tokensFirst;
}

/// x * cos + concat(-hi, lo) * sin.
std::optional<Rotation> matchRotateHalf(RaiseRewriter &rewriter, NodeBinder root) {
  if (!root.is("Add")) {
    return std::nullopt;
  }
  for (size_t side : {0, 1}) {
    for (auto [rotated, sin] : factors(root.operand(1 - side))) {
      NodeBinder concat(rotated);
      if (!concat.is("Concat") || concat.numOperands() != 2) {
        continue;
      }
      NodeBinder negated(concat.operand(0));
      if (!negated.is("Neg")) {
        continue;
      }
      for (auto [x, cos] : factors(root.operand(side))) {
        if (areHalves(rewriter, x, concat.operand(1), negated.operand(0))) {
          return Rotation{x, cos, sin, {root.op(), concat.op()}};
        }
      }
    }
  }
  return std::nullopt;
}

/// concat(lo * cos - hi * sin, hi * cos + lo * sin); x is what lo and hi are the halves of.
std::optional<Rotation> matchTwoHalves(RaiseRewriter &rewriter, NodeBinder root) {
  if (!root.is("Concat") || root.numOperands() != 2) {
    return std::nullopt;
  }
  NodeBinder lower(root.operand(0)), upper(root.operand(1));
  if (!lower.is("Sub") || !upper.is("Add")) {
    return std::nullopt;
  }
  for (auto [lo, cos] : factors(lower.operand(0))) {
    for (auto [hi, sin] : factors(lower.operand(1))) {
      auto has = [&](Value product, Value a, Value b) {
        return llvm::is_contained(factors(product), std::pair(a, b));
      };
      bool crossed = (has(upper.operand(0), hi, cos) && has(upper.operand(1), lo, sin)) ||
                     (has(upper.operand(1), hi, cos) && has(upper.operand(0), lo, sin));
      NodeBinder split(lo);
      Value x = split ? split.operand(0) : Value();
      if (crossed && x && areHalves(rewriter, x, lo, hi)) {
        return Rotation{x, cos, sin, {root.op(), lower.op(), upper.op()}};
      }
    }
  }
  return std::nullopt;
}

/// The activation that is rotated, and how its result is shown.
struct RopeTarget {
  Value x; // [B, S, heads * size]
  int64_t heads = 0;
  bool fourDimensional = false, tokensFirst = false;
};
std::optional<RopeTarget> findTarget(RaiseRewriter &rewriter, Value x,
                                     std::optional<int64_t> heads) {
  if (shapeOf(x).size() == 4) {
    auto view = rewriter.views.heads(x);
    if (!view || !view->wholeHeads()) {
      return std::nullopt;
    }
    Value rows = rewriter.selectFeatures(view->base, view->offset, 1, view->heads * view->size);
    return RopeTarget{rows, view->heads, true, view->tokensFirst};
  }
  if (shapeOf(x).size() != 3 || !heads || *heads < 1) {
    return std::nullopt;
  }
  auto rows = rewriter.views.rows(x);
  bool simple = rows && rows->repeats == 1 && shapeOf(rows->base).size() == 3;
  return RopeTarget{simple ? rewriter.rowsOf(*rows) : x, *heads, false, false};
}

LogicalResult emitRope(RaiseRewriter &rewriter, const RopeTarget &target, const RopeAngles &angles,
                       bool interleaved, std::pair<Value, Location> old) {
  auto type = cast<RankedTensorType>(target.x.getType());
  OpBuilder &builder = rewriter.builder;
  Value result =
      lm::RopeOp::create(builder, old.second, rewriter.typeLike(target.x, {type.getShape().back()}),
                         target.x, angles.cos, angles.sin, builder.getI64IntegerAttr(target.heads),
                         interleaved ? builder.getUnitAttr() : UnitAttr());
  result = target.fourDimensional ? rewriter.headsLike(result, old.first, target.tokensFirst)
                                  : rewriter.reshapeLike(result, old.first);
  if (!result) {
    return failure();
  }
  rewriter.replace(old.first, result);
  return success();
}

struct RaiseRope : sluicec::raise::impl::RaiseRopeBase<RaiseRope> {
  using RaiseRopeBase::RaiseRopeBase;

  void runOnOperation() override {
    RaiseRewriter rewriter(getOperation());
    RopeTables tables(rewriter);
    for (Operation *op : rewriter.operations()) {
      NodeBinder node(op);
      if (!node || op->use_empty()) {
        continue;
      }
      rewriter.setInsertionPoint(op);
      bool standard = node.is("RotaryEmbedding"),
           contributed = node.is("RotaryEmbedding", "com.microsoft");
      if (standard || contributed) {
        std::string why;
        if (failed(raiseOperator(rewriter, tables, node, why))) {
          node.error() << "can't be raised: " << why
                       << "; expected angles of positions times frequencies";
          return signalPassFailure();
        }
        continue;
      }
      std::optional<Rotation> rotation = matchRotateHalf(rewriter, node);
      rotation = rotation ? rotation : matchTwoHalves(rewriter, node);
      if (rotation) {
        std::string why;
        const RopeTable *table = tables.match(rotation->cos, rotation->sin, why);
        std::optional<RopeTarget> target =
            table ? findTarget(rewriter, rotation->x, {}) : std::nullopt;
        if (!target || failed(emitRope(rewriter, *target, tables.emit(*table, op->getLoc()), false,
                                       {op->getResult(0), rewriter.fuse(rotation->ops)}))) {
          node.error() << "rotates features as a rotary embedding does, but "
                       << (why.empty() ? "not whole heads of an activation" : why);
          return signalPassFailure();
        }
      }
    }
    rewriter.finish();
  }

  LogicalResult raiseOperator(RaiseRewriter &rewriter, RopeTables &tables, NodeBinder node,
                              std::string &why) {
    bool contributed = node.is("RotaryEmbedding", "com.microsoft");
    Value x = node.operand(0);
    Value cos = node.operand(contributed ? 2 : 1), sin = node.operand(contributed ? 3 : 2);
    Value positions = node.operand(contributed ? 1 : 3);
    const RopeTable *table = nullptr;
    if (positions) {
      positions = skipIdentity(rewriter.views, positions);
      if (!isa<BlockArgument>(positions) || shapeOf(positions).size() != 2) {
        why = "its positions are not an input of the graph";
        return failure();
      }
      table = tables.matchCaches(cos, sin, positions, why);
    } else {
      table = tables.match(cos, sin, why);
    }
    if (!table) {
      return failure();
    }
    int64_t heads = node.attrInt("num_heads", 0);
    auto pairs = static_cast<int64_t>(table->frequencies.size());
    if (heads == 0 && shapeOf(x).size() == 3 && node.attrInt("rotary_embedding_dim") == 0) {
      // Without either attribute the whole head rotates, so its size is twice the number of pairs.
      heads = cast<RankedTensorType>(x.getType()).getShape().back() / (2 * pairs);
    }
    std::optional<RopeTarget> target = findTarget(rewriter, x, heads);
    if (!target) {
      why = "its input is not an activation of whole heads";
      return failure();
    }
    return emitRope(rewriter, *target, tables.emit(*table, node.op()->getLoc()),
                    node.attrInt("interleaved") != 0,
                    {node.op()->getResult(0), node.op()->getLoc()});
  }
};

} // namespace
