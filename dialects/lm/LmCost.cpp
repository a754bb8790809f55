// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of each lm operation (CostOpInterface): FLOPs and weight bytes, the basis of the report
// and of test FLOP counts.
#include "dialects/lm/LmDialect.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace sluicec::lm {

static RankedTensorType tensorOf(Value v) { return cast<RankedTensorType>(v.getType()); }

static double bytesOf(Value v) {
  if (!v) {
    return 0;
  }
  auto t = tensorOf(v);
  return static_cast<double>(t.getNumElements()) * t.getElementTypeBitWidth() / 8;
}

/// Share of `experts` that `rows` rows with k choices each touch, choices taken as independent and
/// uniform.
static double touchedShare(int64_t rows, int64_t k, int64_t experts) {
  return 1.0 - std::pow(1.0 - static_cast<double>(k) / static_cast<double>(experts),
                        static_cast<double>(rows));
}

static double perRow(int64_t rows, Value v, double each) {
  return static_cast<double>(rows) * static_cast<double>(featuresOf(v)) * each;
}

double EmbeddingOp::flops(int64_t, int64_t) { return 0; }
double EmbeddingOp::weightBytes(int64_t rows) {
  auto t = tensorOf(getTable());
  return static_cast<double>(std::min(rows, t.getDimSize(0))) * t.getDimSize(1) *
         t.getElementTypeBitWidth() / 8;
}

double LinearOp::flops(int64_t rows, int64_t) {
  return 2.0 * rows * tensorOf(getWeight()).getNumElements() +
         (getBias() ? perRow(rows, getResult(), 1) : 0) +
         (getResidual() ? perRow(rows, getResult(), 1) : 0);
}
double LinearOp::weightBytes(int64_t) { return bytesOf(getWeight()) + bytesOf(getBias()); }

double RmsNormOp::flops(int64_t rows, int64_t) {
  return perRow(rows, getX(), getResidual() ? 5 : 4);
}
double RmsNormOp::weightBytes(int64_t) { return bytesOf(getWeight()); }
double LayerNormOp::flops(int64_t rows, int64_t) { return perRow(rows, getX(), 7); }
double LayerNormOp::weightBytes(int64_t) { return bytesOf(getWeight()) + bytesOf(getBias()); }
double RopeTableOp::flops(int64_t rows, int64_t) { return perRow(rows, getCos(), 40); }
double RopeTableOp::weightBytes(int64_t) { return 0; }
double RopeOp::flops(int64_t rows, int64_t) {
  return 6.0 * rows * getHeads() * featuresOf(getCos());
}
double RopeOp::weightBytes(int64_t) { return 0; }
double RepeatHeadsOp::flops(int64_t, int64_t) { return 0; }
double RepeatHeadsOp::weightBytes(int64_t) { return 0; }
double GatedActivationOp::flops(int64_t rows, int64_t) { return perRow(rows, getGate(), 6); }
double GatedActivationOp::weightBytes(int64_t) { return 0; }

double GatedLinearOp::flops(int64_t rows, int64_t) {
  return 2.0 * rows * tensorOf(getWeight()).getNumElements() + perRow(rows, getResult(), 6);
}
double GatedLinearOp::weightBytes(int64_t) { return bytesOf(getWeight()) + bytesOf(getBias()); }

double RouteOp::flops(int64_t rows, int64_t) { return perRow(rows, getLogits(), 4.0 + getTopK()); }
double RouteOp::weightBytes(int64_t) { return bytesOf(getCorrection()); }

double GroupedLinearOp::flops(int64_t rows, int64_t) {
  auto w = tensorOf(getWeight());
  return 2.0 * rows * featuresOf(getIds()) * w.getDimSize(1) * w.getDimSize(2);
}
double GroupedLinearOp::weightBytes(int64_t rows) {
  return (bytesOf(getWeight()) + bytesOf(getBias())) *
         touchedShare(rows, featuresOf(getIds()), tensorOf(getWeight()).getDimSize(0));
}

double CombineOp::flops(int64_t rows, int64_t) {
  return 2.0 * rows * featuresOf(getWeights()) * featuresOf(getY());
}
double CombineOp::weightBytes(int64_t) { return 0; }

double ExpertsOp::flops(int64_t rows, int64_t) {
  auto gu = tensorOf(getGateUp()), down = tensorOf(getDown());
  double each =
      2.0 * (gu.getDimSize(1) * gu.getDimSize(2) + down.getDimSize(1) * down.getDimSize(2)) +
      6.0 * down.getDimSize(2) + 2.0 * down.getDimSize(1);
  return each * rows * featuresOf(getIds());
}
double ExpertsOp::weightBytes(int64_t rows) {
  return (bytesOf(getGateUp()) + bytesOf(getDown()) + bytesOf(getGateUpBias()) +
          bytesOf(getDownBias())) *
         touchedShare(rows, featuresOf(getIds()), tensorOf(getGateUp()).getDimSize(0));
}

/// Two products of `seen` entries per head: q k^T over `head` features, p v over `valueHead`.
static double attentionFlops(int64_t rows, int64_t kvLength, int64_t window, int64_t heads,
                             int64_t featuresBoth) {
  double seen = static_cast<double>(window > 0 ? std::min(window, kvLength) : kvLength);
  return 2.0 * rows * heads * seen * featuresBoth;
}

double PaddedAttentionOp::flops(int64_t rows, int64_t kvLength) {
  return attentionFlops(rows, kvLength, getWindow(), getHeads(),
                        tensorOf(getKeys()).getDimSize(3) + tensorOf(getValues()).getDimSize(3));
}
double PaddedAttentionOp::weightBytes(int64_t) { return bytesOf(getSinks()); }
double AttentionOp::flops(int64_t rows, int64_t kvLength) {
  auto cache = getCache().getType();
  return attentionFlops(rows, kvLength, getWindow(), getHeads(),
                        cache.getKeyHead() + cache.getValueHead());
}
double AttentionOp::weightBytes(int64_t) { return bytesOf(getSinks()); }

} // namespace sluicec::lm
