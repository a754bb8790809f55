// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of rope_table and rope (Su et al. 2021, "RoFormer").
#include "compiler/codegen/cpu/Templates.h"
#include "compiler/codegen/cpu/VectorMath.h"

#include <vector>

using namespace mlir;

namespace sluicec::cpu {

LogicalResult emitTemplate(kernel::RopeTableOp op, KernelFrame &f) {
  int64_t pairs = static_cast<int64_t>(op.getFrequencies().size());
  // Padded to whole vectors, so that it can be read 16 at a time.
  std::vector<float> values((pairs + kLanes - 1) / kLanes * kLanes, 0.0f);
  llvm::transform(op.getFrequencies(), values.begin(),
                  [](double frequency) { return static_cast<float>(frequency); });
  Value frequencies = f.constantArray((f.kernel.getSymName() + "_frequencies").str(), values);
  double scale = op.getScale().convertToDouble();
  Value positions = f.buffer(op.getPositions());
  Value cosines = f.buffer(op.getCos()), sines = f.buffer(op.getSin());
  f.forCells([&](Value row) {
    Value position = f.loadAt(f.i32(), positions, row);
    Value real = f.splat(arith::SIToFPOp::create(f, f.f32(), position));
    f.forChunks(pairs, [&](Value j, int64_t lanes) {
      Value angle = f.mul(real, f.load(f.vec(f.f32()), f.at(f.f32(), frequencies, j)));
      auto [cosine, sine] = emitCosSin(f, angle);
      if (scale != 1.0) {
        cosine = f.mul(cosine, f.like(cosine, scale));
        sine = f.mul(sine, f.like(sine, scale));
      }
      Value offset = f.add(f.mul(row, pairs), j);
      f.storeLanes(cosine, f.at(f.f32(), cosines, offset), lanes);
      f.storeLanes(sine, f.at(f.f32(), sines, offset), lanes);
    });
  });
  return success();
}

namespace {

/// Rotates one head at `from` into `to`; both may be the same memory.
class HeadRotation {
public:
  HeadRotation(kernel::RopeOp op, KernelFrame &f) : op(op), f(f) {}

  void emit(Value from, Value to, Value cosines, Value sines) {
    int64_t pairs = op.getPairs();
    f.forChunks(pairs, [&](Value j, int64_t lanes) {
      Value c = f.loadLanes(f.f32(), f.at(f.f32(), cosines, j), lanes);
      Value s = f.loadLanes(f.f32(), f.at(f.f32(), sines, j), lanes);
      op.getInterleaved() ? interleaved(from, to, j, lanes, {c, s})
                          : halves(from, to, j, lanes, {c, s});
    });
    int64_t rest = op.getHead() - 2 * pairs;
    if (rest > 0) {
      f.forChunks(rest, [&](Value i, int64_t lanes) {
        Value offset = f.add(i, 2 * pairs);
        f.storeLanes(f.loadLanes(f.f32(), f.at(f.f32(), from, offset), lanes),
                     f.at(f.f32(), to, offset), lanes);
      });
    }
  }

private:
  kernel::RopeOp op;
  KernelFrame &f;

  std::pair<Value, Value> rotate(Value a, Value b, std::pair<Value, Value> cs) {
    auto [c, s] = cs;
    return {f.sub(f.mul(a, c), f.mul(b, s)), f.add(f.mul(b, c), f.mul(a, s))};
  }

  /// Pairs (j, j + J).
  void halves(Value from, Value to, Value j, int64_t lanes, std::pair<Value, Value> cs) {
    Value second = f.add(j, op.getPairs());
    Value a = f.loadLanes(f.f32(), f.at(f.f32(), from, j), lanes);
    Value b = f.loadLanes(f.f32(), f.at(f.f32(), from, second), lanes);
    auto [x, y] = rotate(a, b, cs);
    f.storeLanes(x, f.at(f.f32(), to, j), lanes);
    f.storeLanes(y, f.at(f.f32(), to, second), lanes);
  }

  /// Pairs (2j, 2j + 1): 32 features are parted into evens and odds, and joined again.
  void interleaved(Value from, Value to, Value j, int64_t lanes, std::pair<Value, Value> cs) {
    int64_t lowLanes = std::min(kLanes, 2 * lanes), highLanes = 2 * lanes - lowLanes;
    Value start = f.mul(j, 2), middle = f.add(start, kLanes);
    Value low = f.loadLanes(f.f32(), f.at(f.f32(), from, start), lowLanes);
    Value high = highLanes ? f.loadLanes(f.f32(), f.at(f.f32(), from, middle), highLanes) : low;
    SmallVector<int64_t> evens, odds, lows, highs;
    for (int64_t i = 0; i < kLanes; ++i) {
      evens.push_back(2 * i);
      odds.push_back(2 * i + 1);
      lows.push_back(i % 2 * kLanes + i / 2);
      highs.push_back(i % 2 * kLanes + kLanes / 2 + i / 2);
    }
    auto [x, y] = rotate(f.shuffle(low, high, evens), f.shuffle(low, high, odds), cs);
    f.storeLanes(f.shuffle(x, y, lows), f.at(f.f32(), to, start), lowLanes);
    if (highLanes) {
      f.storeLanes(f.shuffle(x, y, highs), f.at(f.f32(), to, middle), highLanes);
    }
  }
};

} // namespace

LogicalResult emitTemplate(kernel::RopeOp op, KernelFrame &f) {
  Value x = f.buffer(op.getX()), out = f.buffer(op.getOut());
  Value cosines = f.buffer(op.getCos()), sines = f.buffer(op.getSin());
  HeadRotation rotation(op, f);
  f.forCells([&](Value row) {
    Value angles = f.mul(row, op.getPairs());
    Value c = f.at(f.f32(), cosines, angles), s = f.at(f.f32(), sines, angles);
    f.loop(0, op.getHeads(), 1, [&](Value h) {
      Value start = f.mul(f.add(f.mul(row, op.getHeads()), h), op.getHead());
      rotation.emit(f.at(f.f32(), x, start), f.at(f.f32(), out, start), c, s);
    });
  });
  return success();
}

} // namespace sluicec::cpu
