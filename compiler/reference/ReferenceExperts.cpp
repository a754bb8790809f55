// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The router and its experts.
#include "compiler/reference/Frame.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluicec::reference {

using namespace mlir;

namespace {

template <typename Real> void softmax(MutableArrayRef<Real> values) {
  Real largest = *std::max_element(values.begin(), values.end()), sum = 0;
  for (Real &v : values) {
    v = std::exp(v - largest);
    sum += v;
  }
  for (Real &v : values) {
    v /= sum;
  }
}

/// Weights and ids of one row's chosen experts.
template <typename Real>
void routeRow(lm::RouteOp op, ArrayRef<Real> logits, const Tensor<Real> *correction, Real *weights,
              int64_t *ids) {
  std::vector<Real> scores(logits.begin(), logits.end());
  if (op.getScore() == lm::ScoreFunction::SoftmaxAll) {
    softmax<Real>(scores);
  } else if (op.getScore() == lm::ScoreFunction::Sigmoid) {
    for (Real &s : scores) {
      s = 1 / (1 + std::exp(-s));
    }
  }
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  auto rank = [&](int64_t e) {
    auto i = static_cast<size_t>(e);
    return scores[i] + (correction ? correction->reals[i] : Real(0));
  };
  // Stable: of equal scores the lower id comes first.
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return rank(a) > rank(b); });
  auto k = static_cast<size_t>(op.getTopK());
  for (size_t j = 0; j < k; ++j) {
    ids[j] = order[j];
    weights[j] = scores[static_cast<size_t>(order[j])];
  }
  MutableArrayRef<Real> chosen(weights, k);
  if (op.getScore() == lm::ScoreFunction::SoftmaxSelected) {
    softmax<Real>(chosen);
  }
  if (op.getNormalize()) {
    Real sum = 0;
    for (Real w : chosen) {
      sum += w;
    }
    for (Real &w : chosen) {
      w /= sum;
    }
  }
  for (Real &w : chosen) {
    w *= static_cast<Real>(op.getScale().convertToDouble());
  }
}

template <typename Real> LogicalResult route(lm::RouteOp op, Frame<Real> &frame) {
  const Tensor<Real> &logits = frame.tensor(op.getLogits());
  const Tensor<Real> *correction = op.getCorrection() ? &frame.tensor(op.getCorrection()) : nullptr;
  SmallVector<int64_t, 4> shape(logits.shape);
  shape.back() = op.getTopK();
  Tensor<Real> weights(shape, false), ids(shape, true);
  for (int64_t r = 0; r < logits.rows(); ++r) {
    routeRow<Real>(op, {logits.row(r), static_cast<size_t>(logits.features())}, correction,
                   weights.row(r), ids.integers.data() + r * op.getTopK());
  }
  frame.set(op.getWeights(), std::move(weights));
  frame.set(op.getIds(), std::move(ids));
  return success();
}

/// out[n] = x * weight[e, n]^T (+ bias[e, n]), weight [E, N, K].
template <typename Real>
void expertRow(const Real *x, int64_t expert, const Tensor<Real> &weight, const Tensor<Real> *bias,
               Real *out, Work &work) {
  int64_t n = weight.shape[1], k = weight.shape[2];
  for (int64_t j = 0; j < n; ++j) {
    const Real *w = weight.reals.data() + (expert * n + j) * k;
    Real acc = 0;
    for (int64_t i = 0; i < k; ++i) {
      acc = multiplyAdd(x[i], w[i], acc);
    }
    out[j] = bias ? acc + bias->reals[static_cast<size_t>(expert * n + j)] : acc;
  }
  work.multiplyAdds += n * k;
}

template <typename Real>
LogicalResult checkExpert(Operation *op, int64_t expert, const Tensor<Real> &weight) {
  if (expert < 0 || expert >= weight.shape[0]) {
    return op->emitError() << "is asked for expert " << expert << " of " << weight.shape[0];
  }
  return success();
}

template <typename Real> LogicalResult groupedLinear(lm::GroupedLinearOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX()), &ids = frame.tensor(op.getIds()),
                     &weight = frame.tensor(op.getWeight());
  const Tensor<Real> *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  SmallVector<int64_t, 4> shape(ids.shape);
  shape.push_back(weight.shape[1]);
  Tensor<Real> out(shape, false);
  int64_t perRow = x.rank() == ids.rank() ? ids.features() : 1; // choices that read one row of x
  for (auto [i, expert] : llvm::enumerate(ids.integers)) {
    if (failed(checkExpert(op, expert, weight))) {
      return failure();
    }
    auto choice = static_cast<int64_t>(i);
    expertRow(x.row(choice / perRow), expert, weight, bias, out.row(choice), frame.work);
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult combine(lm::CombineOp op, Frame<Real> &frame) {
  const Tensor<Real> &y = frame.tensor(op.getY()), &weights = frame.tensor(op.getWeights());
  SmallVector<int64_t, 4> shape(weights.shape);
  shape.back() = y.features();
  Tensor<Real> out(shape, false);
  int64_t k = weights.features();
  for (int64_t r = 0; r < weights.rows(); ++r) {
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t f = 0; f < y.features(); ++f) {
        out.row(r)[f] = multiplyAdd(y.row(r * k + j)[f], weights.row(r)[j], out.row(r)[f]);
      }
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult experts(lm::ExpertsOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX()), &weights = frame.tensor(op.getWeights()),
                     &ids = frame.tensor(op.getIds());
  const Tensor<Real> &gateUp = frame.tensor(op.getGateUp()), &down = frame.tensor(op.getDown());
  const Tensor<Real> *gateUpBias = op.getGateUpBias() ? &frame.tensor(op.getGateUpBias()) : nullptr;
  const Tensor<Real> *downBias = op.getDownBias() ? &frame.tensor(op.getDownBias()) : nullptr;
  int64_t inner = gateUp.shape[1] / 2, features = down.shape[1], k = ids.features();
  SmallVector<int64_t, 4> shape(x.shape);
  shape.back() = features;
  Tensor<Real> out(shape, false);
  std::vector<Real> both(static_cast<size_t>(2 * inner)), gated(static_cast<size_t>(inner)),
      y(static_cast<size_t>(features));
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t j = 0; j < k; ++j) {
      int64_t expert = ids.integers[static_cast<size_t>(r * k + j)];
      if (failed(checkExpert(op, expert, gateUp))) {
        return failure();
      }
      expertRow(x.row(r), expert, gateUp, gateUpBias, both.data(), frame.work);
      for (size_t i = 0; i < gated.size(); ++i) {
        gated[i] = gatedActivation(op.getActivation(), both[i], both[gated.size() + i]);
      }
      expertRow(gated.data(), expert, down, downBias, y.data(), frame.work);
      for (int64_t f = 0; f < features; ++f) {
        out.row(r)[f] = multiplyAdd(y[static_cast<size_t>(f)], weights.row(r)[j], out.row(r)[f]);
      }
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

} // namespace

template <typename Real> Evaluated evaluateExperts(Operation *op, Frame<Real> &frame) {
  return llvm::TypeSwitch<Operation *, Evaluated>(op)
      .Case([&](lm::RouteOp o) { return route(o, frame); })
      .Case([&](lm::GroupedLinearOp o) { return groupedLinear(o, frame); })
      .Case([&](lm::CombineOp o) { return combine(o, frame); })
      .Case([&](lm::ExpertsOp o) { return experts(o, frame); })
      .Default([](Operation *) { return std::nullopt; });
}
template Evaluated evaluateExperts(Operation *, Frame<double> &);
template Evaluated evaluateExperts(Operation *, Frame<float> &);

} // namespace sluicec::reference
