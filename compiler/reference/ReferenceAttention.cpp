// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What mixes rows: positions, caches and attention in both forms, and the choice of logit rows.
#include "compiler/reference/Frame.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluicec::reference {

using namespace mlir;

namespace {

/// What both attentions have as attributes, as numbers.
template <typename Real> struct AttentionShape {
  int64_t heads, kvHeads, head, valueHead, window, maskWindow;
  Real scale, softCap;

  template <typename Op>
  AttentionShape(Op op, int64_t head, int64_t valueHead)
      : heads(op.getHeads()), kvHeads(op.getKvHeads()), head(head), valueHead(valueHead),
        window(op.getWindow()), maskWindow(op.getMaskWindow()),
        scale(static_cast<Real>(op.getScale().convertToDouble())),
        softCap(static_cast<Real>(op.getSoftCap().convertToDouble())) {}

  /// The first entry that a row of that index reads, and the first that has weight.
  int64_t firstRead(int64_t index) const {
    return window > 0 ? std::max<int64_t>(0, index - window + 1) : 0;
  }
  int64_t firstSeen(int64_t index) const {
    int64_t masked = maskWindow > 0 ? index - maskWindow + 1 : 0;
    return std::max(masked, firstRead(index));
  }
};

/// One entry as a row sees it.
template <typename Real> struct Entry {
  const Real *keys, *values; // [kvHeads] heads, `keyStride` and `valueStride` apart
};

/// softmax(q k^T) v over `entries` for all heads of one row: query [H * D] -> out [H * Dv].
template <typename Real>
void attendRow(const AttentionShape<Real> &shape, const Real *query, ArrayRef<Entry<Real>> entries,
               std::pair<int64_t, int64_t> headStrides, const Tensor<Real> *sinks, Real *out) {
  std::vector<Real> scores(entries.size());
  for (int64_t h = 0; h < shape.heads; ++h) {
    int64_t g = h / (shape.heads / shape.kvHeads);
    Real largest =
        sinks ? sinks->reals[static_cast<size_t>(h)] : -std::numeric_limits<Real>::infinity();
    for (auto [score, entry] : llvm::zip(scores, entries)) {
      Real dot = 0;
      for (int64_t d = 0; d < shape.head; ++d) {
        dot = multiplyAdd(query[h * shape.head + d], entry.keys[g * headStrides.first + d], dot);
      }
      score = dot * shape.scale;
      if (shape.softCap > 0) {
        score = shape.softCap * std::tanh(score / shape.softCap);
      }
      largest = std::max(largest, score);
    }
    Real sum = sinks ? std::exp(sinks->reals[static_cast<size_t>(h)] - largest) : Real(0);
    Real *to = out + h * shape.valueHead;
    std::fill_n(to, shape.valueHead, Real(0));
    for (auto [score, entry] : llvm::zip(scores, entries)) {
      Real p = std::exp(score - largest);
      sum += p;
      for (int64_t d = 0; d < shape.valueHead; ++d) {
        to[d] = multiplyAdd(p, entry.values[g * headStrides.second + d], to[d]);
      }
    }
    if (entries.empty()) {
      continue; // sees nothing: 0
    }
    for (int64_t d = 0; d < shape.valueHead; ++d) {
      to[d] /= sum;
    }
  }
}

template <typename Real>
LogicalResult paddedPositions(lm::PaddedPositionsOp op, Frame<Real> &frame) {
  const Tensor<Real> &ids = frame.tensor(op.getIds()),
                     &mask = frame.tensor(op.getMask()); // [B, S], [B, P + S]
  Tensor<Real> out(ids.shape, true);
  int64_t tokens = ids.features(), length = mask.features();
  for (int64_t b = 0; b < ids.rows(); ++b) {
    int64_t real = 0;
    for (int64_t t = 0; t < length; ++t) {
      if (int64_t s = t - (length - tokens); s >= 0) {
        out.integers[static_cast<size_t>(b * tokens + s)] = real;
      }
      real += mask.integers[static_cast<size_t>(b * length + t)] != 0;
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult paddedAppend(lm::PaddedAppendOp op, Frame<Real> &frame) {
  const Tensor<Real> &past = frame.tensor(op.getPast()),
                     &rows = frame.tensor(op.getRows()); // [B, G, P, D], [B, S, G * D]
  int64_t batch = past.shape[0], heads = past.shape[1], length = past.shape[2],
          size = past.shape[3];
  int64_t tokens = rows.shape[1];
  if (rows.shape[0] != batch || rows.features() != heads * size) {
    return op.emitError() << "appends rows of " << rows.features() << " features to " << heads
                          << " heads of " << size;
  }
  Tensor<Real> out({batch, heads, length + tokens, size}, false);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t g = 0; g < heads; ++g) {
      Real *to = out.reals.data() + (b * heads + g) * (length + tokens) * size;
      to = std::copy_n(past.reals.data() + (b * heads + g) * length * size, length * size, to);
      for (int64_t s = 0; s < tokens; ++s) {
        to = std::copy_n(rows.row(b * tokens + s) + g * size, size, to);
      }
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real>
LogicalResult paddedAttention(lm::PaddedAttentionOp op, Frame<Real> &frame) {
  const Tensor<Real> &query = frame.tensor(op.getQuery()); // [B, S, H * D]
  const Tensor<Real> &keys = frame.tensor(op.getKeys()),
                     &values = frame.tensor(op.getValues());                       // [B, G, T, D]
  const Tensor<Real> *mask = op.getMask() ? &frame.tensor(op.getMask()) : nullptr; // [B, T]
  const Tensor<Real> *sinks = op.getSinks() ? &frame.tensor(op.getSinks()) : nullptr;
  AttentionShape<Real> shape(op, keys.shape[3], values.shape[3]);
  int64_t batch = query.shape[0], tokens = query.shape[1], length = keys.shape[2];
  if (keys.shape[0] != batch || values.shape[2] != length || length < tokens ||
      (mask && (mask->shape[0] != batch || mask->shape[1] != length))) {
    return op.emitError()
           << "has " << tokens << " new tokens, " << length << " keys and " << values.shape[2]
           << " values; expected a mask and a value for each key, and at least the new tokens";
  }
  Tensor<Real> out({batch, tokens, shape.heads * shape.valueHead}, false);
  std::vector<Entry<Real>> entries;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < tokens; ++s) {
      int64_t index = length - tokens + s;
      entries.clear();
      for (int64_t t = shape.firstSeen(index); t <= index; ++t) {
        if (!mask || mask->integers[static_cast<size_t>(b * length + t)] != 0) {
          entries.push_back(
              {keys.reals.data() + (b * shape.kvHeads * length + t) * shape.head,
               values.reals.data() + (b * shape.kvHeads * length + t) * shape.valueHead});
        }
      }
      frame.work.attentionEntries += index + 1 - shape.firstRead(index);
      int64_t r = b * tokens + s;
      attendRow<Real>(shape, query.row(r), entries, {length * shape.head, length * shape.valueHead},
                      sinks, out.row(r));
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

/// The cache behind a value, if that value is not used up.
LogicalResult checkVersion(Operation *op, const CacheValue &value) {
  if (value.version != value.cache->version) {
    return op->emitError() << "uses a cache value of before "
                           << value.cache->version - value.version
                           << " later appends; expected each to be used up by one append";
  }
  return success();
}

/// Fails unless the batch describes each row of `x` [.., F].
template <typename Real>
LogicalResult checkRows(Operation *op, const Tensor<Real> &x, const Batch &batch) {
  if (x.rows() != static_cast<int64_t>(batch.rowSequence.size())) {
    return op->emitError() << "has " << x.rows() << " rows, the batch " << batch.rowSequence.size();
  }
  return success();
}

template <typename Real> LogicalResult cacheAppend(lm::CacheAppendOp op, Frame<Real> &frame) {
  const Tensor<Real> &keys = frame.tensor(op.getKeys()), &values = frame.tensor(op.getValues());
  const Batch &batch = frame.batch(op.getBatch());
  CacheValue cache = frame.cache(op.getCache());
  if (failed(checkVersion(op, cache)) || failed(checkRows(op, keys, batch)) ||
      failed(checkRows(op, values, batch))) {
    return failure();
  }
  for (int64_t r = 0; r < keys.rows(); ++r) {
    int64_t sequence = batch.rowSequence[static_cast<size_t>(r)],
            index = batch.rowIndex[static_cast<size_t>(r)];
    if (sequence < 0) {
      continue;
    }
    std::vector<double> k(keys.row(r), keys.row(r) + keys.features()),
        v(values.row(r), values.row(r) + values.features());
    if (!cache.cache->write(sequence, op.getLayer(), index, k.data(), v.data())) {
      return op.emitError() << "has no block for entry " << index << " of sequence " << sequence;
    }
  }
  cache.version = ++cache.cache->version;
  frame.setCache(op.getResult(), cache);
  return success();
}

template <typename Real> LogicalResult pagedAttention(lm::AttentionOp op, Frame<Real> &frame) {
  const Tensor<Real> &query = frame.tensor(op.getQuery()); // [.., H * D]
  const Batch &batch = frame.batch(op.getBatch());
  const Tensor<Real> *sinks = op.getSinks() ? &frame.tensor(op.getSinks()) : nullptr;
  CacheValue value = frame.cache(op.getCache());
  if (failed(checkVersion(op, value)) || failed(checkRows(op, query, batch))) {
    return failure();
  }
  lm::CacheType type = value.cache->type();
  AttentionShape<Real> shape(op, type.getKeyHead(), type.getValueHead());
  int64_t entrySize = shape.kvHeads * (shape.head + shape.valueHead);
  SmallVector<int64_t, 4> outShape(query.shape);
  outShape.back() = shape.heads * shape.valueHead;
  Tensor<Real> out(outShape, false);
  for (int64_t r = 0; r < query.rows(); ++r) {
    int64_t sequence = batch.rowSequence[static_cast<size_t>(r)],
            index = batch.rowIndex[static_cast<size_t>(r)];
    if (sequence < 0) {
      continue; // padding sees nothing
    }
    int64_t first = shape.firstRead(index), count = index + 1 - first;
    std::vector<Real> copies(static_cast<size_t>(count * entrySize));
    std::vector<Entry<Real>> entries;
    for (int64_t t = first; t <= index; ++t) {
      const double *stored = value.cache->read(sequence, op.getLayer(), t);
      if (!stored) {
        return op.emitError() << "reads entry " << t << " of sequence " << sequence
                              << " for the row at " << index
                              << ", which has left the window or was never appended";
      }
      Real *copy = copies.data() + (t - first) * entrySize;
      std::copy_n(stored, entrySize, copy);
      if (t >= shape.firstSeen(index)) {
        entries.push_back({copy, copy + shape.kvHeads * shape.head});
      }
    }
    frame.work.attentionEntries += count;
    attendRow<Real>(shape, query.row(r), entries, {shape.head, shape.valueHead}, sinks, out.row(r));
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

template <typename Real> LogicalResult logitRows(lm::LogitRowsOp op, Frame<Real> &frame) {
  const Tensor<Real> &x = frame.tensor(op.getX());
  const Batch &batch = frame.batch(op.getBatch());
  SmallVector<int64_t, 4> shape(x.shape);
  shape[0] = static_cast<int64_t>(batch.logitRows.size());
  Tensor<Real> out(shape, x.isInteger);
  int64_t size = x.shape[0] == 0 ? 0 : x.numElements() / x.shape[0];
  for (auto [i, r] : llvm::enumerate(batch.logitRows)) {
    if (r < 0 || r >= x.shape[0]) {
      return op.emitError() << "wants row " << r << " of " << x.shape[0];
    }
    if (x.isInteger) {
      std::copy_n(x.integers.begin() + r * size, size,
                  out.integers.begin() + static_cast<int64_t>(i) * size);
    } else {
      std::copy_n(x.reals.begin() + r * size, size,
                  out.reals.begin() + static_cast<int64_t>(i) * size);
    }
  }
  frame.work.logitRows += shape[0];
  frame.set(op.getResult(), std::move(out));
  return success();
}

} // namespace

template <typename Real> Evaluated evaluateAttention(Operation *op, Frame<Real> &frame) {
  return llvm::TypeSwitch<Operation *, Evaluated>(op)
      .Case([&](lm::PaddedPositionsOp o) { return paddedPositions(o, frame); })
      .Case([&](lm::PaddedAppendOp o) { return paddedAppend(o, frame); })
      .Case([&](lm::PaddedAttentionOp o) { return paddedAttention(o, frame); })
      .Case([&](lm::CacheAppendOp o) { return cacheAppend(o, frame); })
      .Case([&](lm::AttentionOp o) { return pagedAttention(o, frame); })
      .Case([&](lm::LogitRowsOp o) { return logitRows(o, frame); })
      .Default([](Operation *) { return std::nullopt; });
}
template Evaluated evaluateAttention(Operation *, Frame<double> &);
template Evaluated evaluateAttention(Operation *, Frame<float> &);

} // namespace sluicec::reference
