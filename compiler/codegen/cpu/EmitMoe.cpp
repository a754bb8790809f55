// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of route, expert_plan and combine.
#include "compiler/codegen/cpu/Templates.h"
#include "compiler/codegen/cpu/VectorMath.h"

#include <limits>

using namespace mlir;

namespace sluicec::cpu {

namespace {

constexpr double kTaken = std::numeric_limits<int32_t>::min();

/// Emits the routing of one row.
class RowRouting {
public:
  RowRouting(kernel::RouteOp op, KernelFrame &f)
      : op(op), f(f), experts(op.getExperts()), topK(op.getTopK()), scores(f.scratch(padded() * 4)),
        keys(f.scratch(padded() * 4)), chosen(f.scratch(topK * 4)) {}

  void emit(Value row) {
    logits = f.at(f.f32(), f.buffer(op.getLogits()), f.mul(row, experts));
    fillScores();
    fillKeys();
    Value ids = f.at(f.i32(), f.buffer(op.getIds()), f.mul(row, topK));
    f.loop(0, topK, 1, [&](Value j) {
      Value id = largestKey();
      f.storeAt(f.toI32(id), ids, j);
      f.storeAt(f.loadAt(f.f32(), scores, id), chosen, j);
      f.storeAt(f.constant(f.i32(), kTaken), keys, id);
    });
    storeWeights(f.at(f.f32(), f.buffer(op.getWeights()), f.mul(row, topK)));
  }

private:
  kernel::RouteOp op;
  KernelFrame &f;
  int64_t experts, topK;
  Value scores; // [E padded] f32
  Value keys;   // [E padded] i32: order of score + correction; kTaken where chosen or beyond E
  Value chosen; // [k] f32: scores of the chosen
  Value logits; // [E] f32

  int64_t padded() const { return (experts + kLanes - 1) / kLanes * kLanes; }

  /// `v` with `fill` in the lanes beyond a tail.
  Value fillTail(Value v, int64_t lanes, double fill) {
    if (lanes == kLanes) {
      return v;
    }
    Value inside = f.compare(arith::CmpIPredicate::slt, f.iota(),
                             f.like(f.iota(), static_cast<double>(lanes)));
    return f.select(inside, v, f.like(v, fill));
  }

  /// Folds all logits 16 at a time: next(state, logits, offset).
  Value overLogits(Value state, double fill, function_ref<Value(Value, Value, Value)> next) {
    int64_t whole = experts / kLanes * kLanes;
    state = f.loop(f.index(0), f.index(whole), kLanes, {state}, [&](Value i, ValueRange s) {
      Value l = f.load(f.vec(f.f32()), f.at(f.f32(), logits, i));
      return SmallVector<Value>{next(s[0], l, i)};
    })[0];
    if (whole < experts) {
      Value i = f.index(whole);
      Value l = f.loadLanes(f.f32(), f.at(f.f32(), logits, i), experts - whole);
      state = next(state, fillTail(l, experts - whole, fill), i);
    }
    return state;
  }

  void storeScores(Value v, Value i) { f.store(v, f.at(f.f32(), scores, i), 64); }

  void fillScores() {
    constexpr double kLowest = -std::numeric_limits<double>::infinity();
    Value zero = f.zeros(f.vec(f.f32()));
    if (op.getScore() != lm::ScoreFunction::SoftmaxAll) {
      bool sigmoid = op.getScore() == lm::ScoreFunction::Sigmoid;
      overLogits(zero, 0.0, [&](Value s, Value l, Value i) {
        storeScores(sigmoid ? emitSigmoid(f, l) : l, i);
        return s;
      });
      return;
    }
    Value largest =
        f.splat(f.maxLanes(overLogits(f.like(zero, kLowest), kLowest,
                                      [&](Value s, Value l, Value) { return f.maxFloat(s, l); })));
    Value sum = f.splat(f.sumLanes(overLogits(zero, kLowest, [&](Value s, Value l, Value i) {
      Value e = emitExp(f, f.sub(l, largest));
      storeScores(e, i);
      return f.add(s, e);
    })));
    f.loop(0, padded(), kLanes, [&](Value i) {
      storeScores(f.div(f.load(f.vec(f.f32()), f.at(f.f32(), scores, i), 64), sum), i);
    });
  }

  /// Integers in the order of the scores: -0 equals 0, a NaN is below all numbers.
  void fillKeys() {
    Value correction = f.buffer(op.getCorrection());
    f.forChunks(experts, [&](Value i, int64_t lanes) {
      Value s = f.load(f.vec(f.f32()), f.at(f.f32(), scores, i), 64);
      if (correction) {
        s = f.add(s, f.loadLanes(f.f32(), f.at(f.f32(), correction, i), lanes));
      }
      s = f.add(s, f.like(s, 0.0));
      Value word = f.bitcast(s, f.i32());
      Value sign = arith::ShRSIOp::create(f, word, f.like(word, 31));
      Value key = arith::XOrIOp::create(f, word, f.both(sign, f.bits(word.getType(), 0x7fffffff)));
      Value isNan = f.compare(arith::CmpFPredicate::UNO, s, s);
      key = fillTail(f.select(isNan, f.like(key, kTaken + 1), key), lanes, kTaken);
      f.store(key, f.at(f.i32(), keys, i), 64);
    });
  }

  /// The expert of the largest key, the lower id of equal ones; i64.
  Value largestKey() {
    Value noKey = f.constant(f.vec(f.i32()), kTaken);
    SmallVector<Value> best = f.loop(
        f.index(0), f.index(padded()), kLanes, {noKey, f.iota()}, [&](Value i, ValueRange b) {
          Value key = f.load(f.vec(f.i32()), f.at(f.i32(), keys, i), 64);
          Value id = f.add(f.splat(f.toI32(i)), f.iota());
          Value larger = f.compare(arith::CmpIPredicate::sgt, key, b[0]);
          return SmallVector<Value>{f.select(larger, key, b[0]), f.select(larger, id, b[1])};
        });
    Value largest = f.splat(f.foldLanes(best[0], [&](Value a, Value b) { return f.maxInt(a, b); }));
    Value isLargest = f.compare(arith::CmpIPredicate::eq, best[0], largest);
    Value ids = f.select(isLargest, best[1], f.like(best[1], std::numeric_limits<int32_t>::max()));
    return f.toI64(f.foldLanes(ids, [&](Value a, Value b) { return f.minInt(a, b); }));
  }

  void storeWeights(Value weights) {
    Value zero = f.zeros(f.f32()), one = f.constant(f.f32(), 1.0);
    auto score = [&](Value j) { return f.loadAt(f.f32(), chosen, j); };
    if (op.getScore() == lm::ScoreFunction::SoftmaxSelected) {
      Value lowest = f.constant(f.f32(), -std::numeric_limits<double>::infinity());
      Value largest = f.loop(f.index(0), f.index(topK), 1, {lowest}, [&](Value j, ValueRange m) {
        return SmallVector<Value>{f.maxFloat(m[0], score(j))};
      })[0];
      f.loop(0, topK, 1,
             [&](Value j) { f.storeAt(emitExp(f, f.sub(score(j), largest)), chosen, j); });
    }
    Value divisor = one;
    if (op.getNormalize() || op.getScore() == lm::ScoreFunction::SoftmaxSelected) {
      divisor = f.loop(f.index(0), f.index(topK), 1, {zero}, [&](Value j, ValueRange s) {
        return SmallVector<Value>{f.add(s[0], score(j))};
      })[0];
    }
    double scale = op.getScale().convertToDouble();
    f.loop(0, topK, 1, [&](Value j) {
      Value w = f.div(score(j), divisor);
      f.storeAt(scale == 1.0 ? w : f.mul(w, f.like(w, scale)), weights, j);
    });
  }
};

} // namespace

LogicalResult emitTemplate(kernel::RouteOp op, KernelFrame &f) {
  RowRouting routing(op, f);
  f.forCells([&](Value row) { routing.emit(row); });
  return success();
}

LogicalResult emitTemplate(kernel::ExpertPlanOp op, KernelFrame &f) {
  int64_t experts = op.getExperts();
  Value ids = f.buffer(op.getIds()), order = f.buffer(op.getOrder()),
        starts = f.buffer(op.getStarts());
  Value cursor = f.scratch(experts * 4); // [E] i32: where the next choice of an expert goes
  auto unit = cast<kernel::BufferType>(op.getIds().getType()).getUnit();
  Value choices = f.mul(f.count(unit), op.getTopK());
  auto increment = [&](Value base, Value i) {
    Value old = f.loadAt(f.i32(), base, i);
    f.storeAt(f.add(old, 1), base, i);
    return old;
  };
  auto expertOf = [&](Value choice) { return f.toI64(f.loadAt(f.i32(), ids, choice)); };
  f.forCells([&](Value) {
    f.loop(0, experts + 1, 1, [&](Value e) { f.storeAt(f.constant(f.i32(), 0), starts, e); });
    f.loop(f.index(0), choices, 1, [&](Value c) { increment(starts, f.add(expertOf(c), 1)); });
    f.loop(f.index(0), f.index(experts), 1, {f.constant(f.i32(), 0)}, [&](Value e, ValueRange sum) {
      f.storeAt(sum[0], cursor, e);
      Value next = f.add(sum[0], f.loadAt(f.i32(), starts, f.add(e, 1)));
      f.storeAt(next, starts, f.add(e, 1));
      return SmallVector<Value>{next};
    });
    f.loop(f.index(0), choices, 1, [&](Value c) {
      Value place = f.toI64(increment(cursor, expertOf(c)));
      f.storeAt(f.toI32(c), order, place);
    });
  });
  return success();
}

LogicalResult emitTemplate(kernel::CombineOp op, KernelFrame &f) {
  int64_t features = op.getFeatures(), topK = op.getTopK();
  Value y = f.buffer(op.getY()), weights = f.buffer(op.getWeights()), out = f.buffer(op.getOut());
  Value residual = f.buffer(op.getResidual());
  f.forCells([&](Value row) {
    Value firstChoice = f.mul(row, topK), start = f.mul(row, features);
    f.forChunks(features, [&](Value i, int64_t lanes) {
      // One chain over the choices in the router's order.
      SmallVector<Value> sum{f.zeros(f.vec(f.f32()))};
      sum = f.loop(f.index(0), f.index(topK), 1, sum, [&](Value j, ValueRange s) {
        Value choice = f.add(firstChoice, j);
        Value w = f.splat(f.loadAt(f.f32(), weights, choice));
        Value offset = f.add(f.mul(choice, features), i);
        Value v = f.loadLanes(f.f32(), f.at(f.f32(), y, offset), lanes);
        return SmallVector<Value>{f.fma(v, w, s[0])};
      });
      Value offset = f.add(start, i);
      if (residual) {
        sum[0] = f.add(sum[0], f.loadLanes(f.f32(), f.at(f.f32(), residual, offset), lanes));
      }
      f.storeLanes(sum[0], f.at(f.f32(), out, offset), lanes);
    });
  });
  return success();
}

} // namespace sluicec::cpu
