// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Token-wise lm operations without experts: embedding, linears, norms, rope, activation, probes.
#include "compiler/reference/Frame.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

namespace sluicec::reference {

using namespace mlir;

template <> double multiplyAdd(double a, double b, double acc) { return acc + a * b; }
template <> float multiplyAdd(float a, float b, float acc) { return std::fma(a, b, acc); }

template <typename Real>
Real gatedActivation(lm::GatedActivationAttr activation, Real gate, Real up) {
  auto limit = static_cast<Real>(activation.getLimit().getValueAsDouble());
  auto alpha = static_cast<Real>(activation.getAlpha().getValueAsDouble());
  auto beta = static_cast<Real>(activation.getBeta().getValueAsDouble());
  Real g = std::min(gate, limit), u = std::clamp(up, -limit, limit), value = 0;
  switch (activation.getKind()) {
  case lm::ActivationKind::Silu:
    value = g / (1 + std::exp(-alpha * g));
    break;
  case lm::ActivationKind::GeluTanh: // Hendrycks & Gimpel 2016, the tanh form; 0.79788... is sqrt(2
                                     // / pi)
    value = g / 2 * (1 + std::tanh(Real(0.79788456080286536) * (g + Real(0.044715) * g * g * g)));
    break;
  case lm::ActivationKind::GeluErf:
    value = g / 2 * (1 + std::erf(g * Real(0.70710678118654752)));
    break;
  case lm::ActivationKind::Relu:
    value = std::max(g, Real(0));
    break;
  }
  return value * (u + beta);
}
template double gatedActivation(lm::GatedActivationAttr, double, double);
template float gatedActivation(lm::GatedActivationAttr, float, float);

namespace {

/// A tensor with the leading sizes of `like` and `features` in each row.
template <typename Real> Tensor<Real> rowsLike(const Tensor<Real> &like, int64_t features) {
  SmallVector<int64_t, 4> shape(like.shape);
  shape.back() = features;
  return Tensor<Real>(shape, false);
}

/// sum += addend; fails where their sizes differ.
template <typename Real>
LogicalResult addTo(Operation *op, Tensor<Real> &sum, const Tensor<Real> &addend) {
  if (sum.reals.size() != addend.reals.size()) {
    return op->emitError() << "adds " << addend.reals.size() << " elements to " << sum.reals.size();
  }
  for (auto [s, v] : llvm::zip(sum.reals, addend.reals)) {
    s += v;
  }
  return success();
}

/// out[n] = x * weight[n]^T (+ bias[n]), weight [N, K].
template <typename Real>
void linearRow(const Real *x, const Tensor<Real> &weight, const Tensor<Real> *bias, Real *out,
               Work &work) {
  int64_t n = weight.shape[0], k = weight.shape[1];
  for (int64_t j = 0; j < n; ++j) {
    const Real *w = weight.row(j);
    Real acc = 0;
    for (int64_t i = 0; i < k; ++i) {
      acc = multiplyAdd(x[i], w[i], acc);
    }
    out[j] = bias ? acc + bias->reals[static_cast<size_t>(j)] : acc;
  }
  work.multiplyAdds += n * k;
}

template <typename Real> LogicalResult embedding(lm::EmbeddingOp op, Frame<Real> &frame) {
  const Tensor<Real> &table = frame.tensor(op.getTable()), &ids = frame.tensor(op.getIds());
  SmallVector<int64_t, 4> shape(ids.shape);
  shape.push_back(table.features());
  Tensor<Real> out(shape, false);
  for (auto [i, id] : llvm::enumerate(ids.integers)) {
    if (id < 0 || id >= table.shape[0]) {
      return op.emitError() << "is asked for row " << id << " of " << table.shape[0];
    }
    std::copy_n(table.row(id), table.features(), out.row(static_cast<int64_t>(i)));
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult linear(lm::LinearOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX()), &weight = frame.tensor(op.getWeight());
  const Tensor<Real> *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  Tensor<Real> out = rowsLike(x, weight.shape[0]);
  for (int64_t r = 0; r < x.rows(); ++r) {
    linearRow(x.row(r), weight, bias, out.row(r), frame.work);
  }
  if (op.getResidual() && failed(addTo(op, out, frame.tensor(op.getResidual())))) {
    return failure();
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult gatedLinear(lm::GatedLinearOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX()), &weight = frame.tensor(op.getWeight());
  const Tensor<Real> *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  int64_t inner = weight.shape[0] / 2;
  Tensor<Real> out = rowsLike(x, inner);
  std::vector<Real> both(static_cast<size_t>(2 * inner)); // gate, then up
  for (int64_t r = 0; r < x.rows(); ++r) {
    linearRow(x.row(r), weight, bias, both.data(), frame.work);
    for (int64_t i = 0; i < inner; ++i) {
      out.row(r)[i] = gatedActivation(op.getActivation(), both[static_cast<size_t>(i)],
                                      both[static_cast<size_t>(inner + i)]);
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult rmsNorm(lm::RmsNormOp op, Frame<Real> &frame) {
  Tensor<Real> sum = frame.tensor(op.getX());
  const Tensor<Real> &weight = frame.tensor(op.getWeight());
  if (op.getResidual() && failed(addTo(op, sum, frame.tensor(op.getResidual())))) {
    return failure();
  }
  int64_t size = weight.features(); // of one group
  auto epsilon = static_cast<Real>(op.getEpsilon().convertToDouble());
  Tensor<Real> out = sum;
  for (int64_t first = 0; first < sum.numElements(); first += size) {
    const Real *x = sum.reals.data() + first;
    Real squares = 0;
    for (int64_t i = 0; i < size; ++i) {
      squares = multiplyAdd(x[i], x[i], squares);
    }
    Real inverse = 1 / std::sqrt(squares / static_cast<Real>(size) + epsilon);
    for (int64_t i = 0; i < size; ++i) {
      out.reals[static_cast<size_t>(first + i)] =
          x[i] * inverse * weight.reals[static_cast<size_t>(i)];
    }
  }
  frame.set(op.getResult(), std::move(out));
  if (op.getSum()) {
    frame.set(op.getSum(), std::move(sum));
  }
  return success();
}

template <typename Real> LogicalResult layerNorm(lm::LayerNormOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX()), &weight = frame.tensor(op.getWeight());
  const Tensor<Real> *bias = op.getBias() ? &frame.tensor(op.getBias()) : nullptr;
  auto epsilon = static_cast<Real>(op.getEpsilon().convertToDouble());
  auto size = static_cast<Real>(x.features());
  Tensor<Real> out = x;
  for (int64_t r = 0; r < x.rows(); ++r) {
    Real mean = 0, variance = 0;
    for (int64_t i = 0; i < x.features(); ++i) {
      mean += x.row(r)[i];
    }
    mean /= size;
    for (int64_t i = 0; i < x.features(); ++i) {
      Real d = x.row(r)[i] - mean;
      variance = multiplyAdd(d, d, variance);
    }
    Real inverse = 1 / std::sqrt(variance / size + epsilon);
    for (int64_t i = 0; i < x.features(); ++i) {
      auto f = static_cast<size_t>(i);
      out.row(r)[i] =
          (x.row(r)[i] - mean) * inverse * weight.reals[f] + (bias ? bias->reals[f] : Real(0));
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult ropeTable(lm::RopeTableOp op, Frame<Real> &frame) {
  const Tensor<Real> &positions = frame.tensor(op.getPositions());
  ArrayRef<double> frequencies = op.getFrequencies();
  double scale = op.getScale().convertToDouble();
  SmallVector<int64_t, 4> shape(positions.shape);
  shape.push_back(static_cast<int64_t>(frequencies.size()));
  Tensor<Real> cos(shape, false), sin(shape, false);
  size_t next = 0;
  for (int64_t position : positions.integers) {
    for (double frequency : frequencies) {
      // The product is rounded to f32 in either precision: exporters compute it so, and far
      // positions feel it.
      float angle = static_cast<float>(position) * static_cast<float>(frequency);
      cos.reals[next] = static_cast<Real>(std::cos(static_cast<double>(angle)) * scale);
      sin.reals[next++] = static_cast<Real>(std::sin(static_cast<double>(angle)) * scale);
    }
  }
  frame.set(op.getCos(), std::move(cos));
  frame.set(op.getSin(), std::move(sin));
  return success();
}

template <typename Real> LogicalResult rope(lm::RopeOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX()), &cos = frame.tensor(op.getCos()),
                     &sin = frame.tensor(op.getSin());
  int64_t heads = op.getHeads(), pairs = cos.features(), size = x.features() / heads;
  int64_t rowsPerAngle =
      x.rows() / std::max<int64_t>(1, cos.rows()); // [.., heads, D] has several rows per token
  Tensor<Real> out = x;
  for (int64_t r = 0; r < x.rows(); ++r) {
    const Real *c = cos.row(r / rowsPerAngle), *s = sin.row(r / rowsPerAngle);
    for (int64_t h = 0; h < heads; ++h) {
      const Real *in = x.row(r) + h * size;
      Real *to = out.row(r) + h * size;
      for (int64_t j = 0; j < pairs; ++j) {
        int64_t a = op.getInterleaved() ? 2 * j : j,
                b = op.getInterleaved() ? 2 * j + 1 : j + pairs;
        to[a] = in[a] * c[j] - in[b] * s[j];
        to[b] = in[b] * c[j] + in[a] * s[j];
      }
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult repeatHeads(lm::RepeatHeadsOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX());
  // On a padded cache [B, G, T, D] a head is T * D elements, else D.
  int64_t dim = x.rank() == 4 ? 1 : x.rank() - 1, heads = op.getHeads(), repeats = op.getRepeats();
  SmallVector<int64_t, 4> shape(x.shape);
  shape[static_cast<size_t>(dim)] *= repeats;
  int64_t outer = countElements(ArrayRef<int64_t>(x.shape).take_front(static_cast<size_t>(dim)));
  int64_t head = outer * heads == 0 ? 0 : x.numElements() / outer / heads;
  Tensor<Real> out(shape, false);
  auto to = out.reals.begin();
  for (int64_t i = 0; i < outer * heads; ++i) {
    for (int64_t r = 0; r < repeats; ++r) {
      to = std::copy_n(x.reals.begin() + i * head, head, to);
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult activation(lm::GatedActivationOp op, Frame<Real> &frame) {
  const Tensor<Real> &up = frame.tensor(op.getUp());
  Tensor<Real> out = frame.tensor(op.getGate());
  for (auto [o, u] : llvm::zip(out.reals, up.reals)) {
    o = gatedActivation(op.getActivation(), o, u);
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult probe(lm::ProbeOp op, Frame<Real> &frame) {
  if (frame.onProbe) {
    frame.onProbe(op.getName(), op.getLayer(), frame.tensor(op.getValue()));
  }
  return success();
}

} // namespace

template <typename Real> Evaluated evaluateTokenWise(Operation *op, Frame<Real> &frame) {
  return llvm::TypeSwitch<Operation *, Evaluated>(op)
      .Case([&](lm::EmbeddingOp o) { return embedding(o, frame); })
      .Case([&](lm::LinearOp o) { return linear(o, frame); })
      .Case([&](lm::GatedLinearOp o) { return gatedLinear(o, frame); })
      .Case([&](lm::RmsNormOp o) { return rmsNorm(o, frame); })
      .Case([&](lm::LayerNormOp o) { return layerNorm(o, frame); })
      .Case([&](lm::RopeTableOp o) { return ropeTable(o, frame); })
      .Case([&](lm::RopeOp o) { return rope(o, frame); })
      .Case([&](lm::RepeatHeadsOp o) { return repeatHeads(o, frame); })
      .Case([&](lm::GatedActivationOp o) { return activation(o, frame); })
      .Case([&](lm::ProbeOp o) { return probe(o, frame); })
      .Default([](Operation *) { return std::nullopt; });
}
template Evaluated evaluateTokenWise(Operation *, Frame<double> &);
template Evaluated evaluateTokenWise(Operation *, Frame<float> &);

} // namespace sluicec::reference
