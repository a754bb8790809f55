// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of rms_norm and layer_norm.
//
// A sum over features has one order on every target: four vectors of 16 lanes take 64 features in
// turn, what is left goes 16 at a time to the first; then (0 + 1) + (2 + 3), then lanes 16 -> 8 ->
// 4 -> 2 -> 1.
#include "compiler/codegen/cpu/Templates.h"

using namespace mlir;

namespace sluicec::cpu {

namespace {

/// `term(sum, offset, lanes)` adds 16 features to `sum`. Lanes beyond a tail must add 0.
using Term = function_ref<Value(Value sum, Value offset, int64_t lanes)>;

Value sumFeatures(KernelFrame &f, int64_t features, Term term) {
  constexpr int64_t kChains = 4, kStep = kChains * kLanes;
  Value zero = f.zeros(f.vec(f.f32()));
  SmallVector<Value> sums(kChains, zero);
  int64_t wide = features / kStep * kStep;
  if (wide > 0) {
    sums = f.loop(f.index(0), f.index(wide), kStep, sums, [&](Value i, ValueRange carried) {
      SmallVector<Value> next;
      for (int64_t c = 0; c < kChains; ++c) {
        next.push_back(term(carried[c], f.add(i, c * kLanes), kLanes));
      }
      return next;
    });
  }
  for (int64_t i = wide; i < features; i += kLanes) {
    sums[0] = term(sums[0], f.index(i), std::min(kLanes, features - i));
  }
  return f.sumLanes(f.add(f.add(sums[0], sums[1]), f.add(sums[2], sums[3])));
}

/// 1 / sqrt(sum / n + epsilon), in every lane.
Value inverseRoot(KernelFrame &f, Value sum, int64_t n, double epsilon) {
  Value mean = f.div(sum, f.like(sum, static_cast<double>(n)));
  Value root = f.sqrt(f.add(mean, f.like(mean, epsilon)));
  return f.splat(f.div(f.like(root, 1.0), root));
}

} // namespace

LogicalResult emitTemplate(kernel::RmsNormOp op, KernelFrame &f) {
  int64_t group = op.getFeatures() / op.getGroups();
  double epsilon = op.getEpsilon().convertToDouble();
  Value x = f.buffer(op.getX()), weight = f.buffer(op.getWeight()), out = f.buffer(op.getOut());
  Value residual = f.buffer(op.getResidual()), sum = f.buffer(op.getSum());
  auto normGroup = [&](Value start) {
    auto input = [&](Value i, int64_t lanes) {
      Value offset = f.add(start, i);
      Value v = f.loadLanes(f.f32(), f.at(f.f32(), x, offset), lanes);
      if (residual) {
        v = f.add(v, f.loadLanes(f.f32(), f.at(f.f32(), residual, offset), lanes));
      }
      return v;
    };
    Value squares = sumFeatures(f, group, [&](Value total, Value i, int64_t lanes) {
      Value v = input(i, lanes);
      return f.fma(v, v, total);
    });
    Value scale = inverseRoot(f, squares, group, epsilon);
    f.forChunks(group, [&](Value i, int64_t lanes) {
      Value v = input(i, lanes), offset = f.add(start, i);
      Value w = f.loadLanes(f.f32(), f.at(f.f32(), weight, i), lanes);
      if (sum) {
        f.storeLanes(v, f.at(f.f32(), sum, offset), lanes);
      }
      f.storeLanes(f.mul(f.mul(v, scale), w), f.at(f.f32(), out, offset), lanes);
    });
  };
  f.forCells([&](Value row) {
    if (op.getGroups() == 1) {
      normGroup(f.mul(row, group));
      return;
    }
    f.loop(0, op.getGroups(), 1,
           [&](Value g) { normGroup(f.mul(f.add(f.mul(row, op.getGroups()), g), group)); });
  });
  return success();
}

LogicalResult emitTemplate(kernel::LayerNormOp op, KernelFrame &f) {
  int64_t features = op.getFeatures();
  double epsilon = op.getEpsilon().convertToDouble();
  Value x = f.buffer(op.getX()), weight = f.buffer(op.getWeight()), bias = f.buffer(op.getBias());
  Value out = f.buffer(op.getOut());
  f.forCells([&](Value row) {
    Value start = f.mul(row, features);
    auto input = [&](Value i, int64_t lanes) {
      return f.loadLanes(f.f32(), f.at(f.f32(), x, f.add(start, i)), lanes);
    };
    Value total = sumFeatures(f, features, [&](Value sum, Value i, int64_t lanes) {
      return f.add(sum, input(i, lanes));
    });
    Value mean = f.splat(f.div(total, f.like(total, static_cast<double>(features))));
    // Deviations from the mean, squared: no cancellation of two large sums.
    Value squares = sumFeatures(f, features, [&](Value sum, Value i, int64_t lanes) {
      Value d = f.sub(input(i, lanes), mean);
      if (lanes < kLanes) {
        Value inside = f.compare(arith::CmpIPredicate::slt, f.iota(),
                                 f.like(f.iota(), static_cast<double>(lanes)));
        d = f.select(inside, d, f.like(d, 0.0));
      }
      return f.fma(d, d, sum);
    });
    Value scale = inverseRoot(f, squares, features, epsilon);
    f.forChunks(features, [&](Value i, int64_t lanes) {
      Value w = f.loadLanes(f.f32(), f.at(f.f32(), weight, i), lanes);
      Value v = f.mul(f.mul(f.sub(input(i, lanes), mean), scale), w);
      if (bias) {
        v = f.add(v, f.loadLanes(f.f32(), f.at(f.f32(), bias, i), lanes));
      }
      f.storeLanes(v, f.at(f.f32(), out, f.add(start, i)), lanes);
    });
  });
  return success();
}

} // namespace sluicec::cpu
