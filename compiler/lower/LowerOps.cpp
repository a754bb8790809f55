// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// lm operations with one kernel each: embedding, linears, norms, rope, router, cache, attention.
#include "compiler/lower/KernelChoices.h"
#include "compiler/lower/StepLowering.h"

using namespace mlir;

namespace sluicec::lower {

using namespace kernel;

static int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// Rows x panels of a linear with n outputs.
static SmallVector<GridDimAttr> matmulGrid(ProgramBuilder &builder, Value out, int64_t n,
                                           bool gated) {
  Unit rows = cast<BufferType>(out.getType()).getUnit();
  return {builder.gridDim(rows, 1, 0, kLinearRowTile),
          builder.gridDim(Unit::Fixed, 0, ceilDiv(n, gated ? kPanelWidth / 2 : kPanelWidth), 1)};
}

LogicalResult StepLowering::lower(lm::EmbeddingOp op) {
  Value ids = bufferOf(op, op.getIds());
  Value out = ids ? resultBuffer(op.getResult(), ids) : Value();
  if (!out) {
    return failure();
  }
  Value table = builder.plainWeight(op.getTable(), /*keepType=*/true);
  int64_t features = lm::featuresOf(op.getTable());
  builder.launch(op.getLoc(), "embedding", {builder.rowGrid(out)}, {ids, table, out},
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::EmbeddingOp::create(b, op.getLoc(), a[0], a[1], a[2], features);
                 });
  return success();
}

namespace {
struct Matmul {
  Value x, weight, bias, residual, out;
  int64_t n, k;
  lm::GatedActivationAttr gated;
};
} // namespace

static void launchMatmul(ProgramBuilder &builder, Location loc, const Matmul &m) {
  BufferList list;
  list.add(m.x);
  list.add(m.weight);
  int bias = list.add(m.bias), residual = list.add(m.residual), out = list.add(m.out);
  bool gated = m.gated != nullptr;
  builder.launch(loc, gated ? "gated_matmul" : "matmul", matmulGrid(builder, m.out, m.n, gated),
                 list.all(), [&](OpBuilder &b, ValueRange a) {
                   MatmulOp::create(b, loc, a[0], a[1], BufferList::at(a, bias),
                                    BufferList::at(a, residual), a[out], m.n, m.k,
                                    builder.panelLayout(gated), m.gated);
                 });
}

LogicalResult StepLowering::lower(lm::LinearOp op) {
  Value x = bufferOf(op, op.getX());
  Value residual = op.getResidual() && x ? bufferOf(op, op.getResidual()) : Value();
  if (!x || (op.getResidual() && !residual)) {
    return failure();
  }
  FailureOr<Value> weight = builder.panelWeight(op.getWeight(), builder.panelLayout(false));
  Value out = resultBuffer(op.getResult(), x);
  if (failed(weight) || !out) {
    return failure();
  }
  launchMatmul(builder, op.getLoc(),
               {x,
                *weight,
                vectorOf(op.getBias()),
                residual,
                out,
                lm::featuresOf(op.getResult()),
                lm::featuresOf(op.getX()),
                {}});
  return success();
}

LogicalResult StepLowering::lower(lm::GatedLinearOp op) {
  Value x = bufferOf(op, op.getX());
  if (!x) {
    return failure();
  }
  FailureOr<Value> weight = builder.panelWeight(op.getWeight(), builder.panelLayout(true));
  Value out = resultBuffer(op.getResult(), x);
  if (failed(weight) || !out) {
    return failure();
  }
  launchMatmul(builder, op.getLoc(),
               {x,
                *weight,
                vectorOf(op.getBias()),
                {},
                out,
                lm::featuresOf(op.getResult()),
                lm::featuresOf(op.getX()),
                op.getActivation()});
  return success();
}

LogicalResult StepLowering::lower(lm::RmsNormOp op) {
  Value x = bufferOf(op, op.getX());
  Value residual = op.getResidual() && x ? bufferOf(op, op.getResidual()) : Value();
  if (!x || (op.getResidual() && !residual)) {
    return failure();
  }
  Value out = resultBuffer(op.getResult(), x);
  Value sum = op.getSum() && out ? resultBuffer(op.getSum(), x) : Value();
  if (!out || (op.getSum() && !sum)) {
    return failure();
  }
  // Of more dimensions the last is normed: each of the others is a group of its own.
  int64_t features = *rowElements(op.getX());
  int64_t parts = op.getGroups() * (features / lm::featuresOf(op.getX()));
  BufferList list;
  list.add(x);
  list.add(vectorOf(op.getWeight()));
  int residualSlot = list.add(residual), outSlot = list.add(out), sumSlot = list.add(sum);
  builder.launch(
      op.getLoc(), "rms_norm", {builder.rowGrid(out)}, list.all(), [&](OpBuilder &b, ValueRange a) {
        kernel::RmsNormOp::create(b, op.getLoc(), a[0], a[1], BufferList::at(a, residualSlot),
                                  a[outSlot], BufferList::at(a, sumSlot), features, parts,
                                  op.getEpsilon());
      });
  return success();
}

LogicalResult StepLowering::lower(lm::LayerNormOp op) {
  Value x = bufferOf(op, op.getX());
  Value out = x ? resultBuffer(op.getResult(), x) : Value();
  if (!out) {
    return failure();
  }
  if (cast<RankedTensorType>(op.getX().getType()).getRank() != 2) {
    return op.emitError() << "norms " << op.getX().getType() << ", expected [tokens, features]";
  }
  BufferList list;
  list.add(x);
  list.add(vectorOf(op.getWeight()));
  int bias = list.add(vectorOf(op.getBias())), outSlot = list.add(out);
  builder.launch(op.getLoc(), "layer_norm", {builder.rowGrid(out)}, list.all(),
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::LayerNormOp::create(b, op.getLoc(), a[0], a[1], BufferList::at(a, bias),
                                               a[outSlot], lm::featuresOf(op.getX()),
                                               op.getEpsilon());
                 });
  return success();
}

LogicalResult StepLowering::lower(lm::RopeTableOp op) {
  Value positions = bufferOf(op, op.getPositions());
  Value cos = positions ? resultBuffer(op.getCos(), positions) : Value();
  Value sin = cos ? resultBuffer(op.getSin(), positions) : Value();
  if (!sin) {
    return failure();
  }
  builder.launch(op.getLoc(), "rope_table", {builder.rowGrid(cos)}, {positions, cos, sin},
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::RopeTableOp::create(b, op.getLoc(), a[0], a[1], a[2],
                                               op.getFrequencies(), op.getScale());
                 });
  return success();
}

LogicalResult StepLowering::lower(lm::RopeOp op) {
  Value x = bufferOf(op, op.getX());
  Value cos = x ? bufferOf(op, op.getCos()) : Value();
  Value sin = cos ? bufferOf(op, op.getSin()) : Value();
  Value out = sin ? resultBuffer(op.getResult(), x) : Value();
  if (!out) {
    return failure();
  }
  // [T, heads, D] and [T, heads * D] are the same rows.
  int64_t heads = op.getHeads() * (*rowElements(op.getX()) / lm::featuresOf(op.getX()));
  int64_t head = *rowElements(op.getX()) / heads;
  builder.launch(op.getLoc(), "rope", {builder.rowGrid(out)}, {x, cos, sin, out},
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::RopeOp::create(b, op.getLoc(), a[0], a[1], a[2], a[3], heads, head,
                                          lm::featuresOf(op.getCos()), op.getInterleaved());
                 });
  return success();
}

LogicalResult StepLowering::lower(lm::RepeatHeadsOp op) {
  Value x = bufferOf(op, op.getX());
  Value out = x ? resultBuffer(op.getResult(), x) : Value();
  if (!out) {
    return failure();
  }
  int64_t head = *rowElements(op.getX()) / op.getHeads();
  builder.launch(op.getLoc(), "repeat_heads", {builder.rowGrid(out)}, {x, out},
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::RepeatHeadsOp::create(b, op.getLoc(), a[0], a[1], op.getHeads(), head,
                                                 op.getRepeats());
                 });
  return success();
}

LogicalResult StepLowering::lower(lm::GatedActivationOp op) {
  Value gate = bufferOf(op, op.getGate());
  Value up = gate ? bufferOf(op, op.getUp()) : Value();
  Value out = up ? resultBuffer(op.getResult(), gate) : Value();
  if (!out) {
    return failure();
  }
  int64_t features = *rowElements(op.getResult());
  builder.launch(op.getLoc(), "gated_activation", {builder.rowGrid(out)}, {gate, up, out},
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::GatedActivationOp::create(b, op.getLoc(), a[0], a[1], a[2], features,
                                                     op.getActivation());
                 });
  return success();
}

LogicalResult StepLowering::lower(lm::RouteOp op) {
  Value logits = bufferOf(op, op.getLogits());
  Value weights = logits ? resultBuffer(op.getWeights(), logits) : Value();
  Value ids = weights ? resultBuffer(op.getIds(), logits) : Value();
  if (!ids) {
    return failure();
  }
  BufferList list;
  list.add(logits);
  int correction = list.add(vectorOf(op.getCorrection()));
  int weightsSlot = list.add(weights), idsSlot = list.add(ids);
  builder.launch(
      op.getLoc(), "route", {builder.rowGrid(ids)}, list.all(), [&](OpBuilder &b, ValueRange a) {
        kernel::RouteOp::create(b, op.getLoc(), a[0], BufferList::at(a, correction), a[weightsSlot],
                                a[idsSlot], lm::featuresOf(op.getLogits()), op.getTopK(),
                                op.getScore(), op.getNormalize(), op.getScale());
      });
  return success();
}

LogicalResult StepLowering::lower(lm::ProbeOp op) {
  Value buffer = bufferOf(op, op.getValue());
  if (!buffer) {
    return failure();
  }
  builder.probe(op.getLoc(), buffer, op.getName(), op.getLayer());
  return success();
}

void StepLowering::ensureRowIndex(Location loc) {
  if (rowIndex) {
    return;
  }
  BufferType rows = builder.bufferType(Unit::Tokens, 1, 0, builder.i32());
  rowSeq = builder.workspace(loc, rows);
  rowIndex = builder.workspace(loc, rows);
  Value seqStart = builder.input(InputKind::SeqStart);
  builder.launch(
      loc, "row_index", {builder.gridDim(Unit::Seqs, 1, 0, 1)},
      {seqStart, builder.input(InputKind::KvLength), rowSeq, rowIndex},
      [&](OpBuilder &b, ValueRange a) { RowIndexOp::create(b, loc, a[0], a[1], a[2], a[3]); });
}

LogicalResult StepLowering::lower(lm::CacheAppendOp op) {
  int64_t group = cacheGroups.lookup(op.getCache());
  Value keys = bufferOf(op, op.getKeys());
  Value values = keys ? bufferOf(op, op.getValues()) : Value();
  if (!values) {
    return failure();
  }
  // In place: whoever still reads the cache from before this append would see the new rows.
  auto later = llvm::find_if(op.getCache().getUsers(), [&](Operation *user) {
    return user != op && !user->isBeforeInBlock(op);
  });
  if (later != op.getCache().getUsers().end()) {
    return (*later)->emitError("reads the cache from before an append; expected each cache value "
                               "to be appended to or returned once, after all its readers");
  }
  cacheGroups[op.getResult()] = group;
  ensureRowIndex(op.getLoc());
  const Group &g = groups[group];
  builder.launch(op.getLoc(), "cache_append", {builder.rowGrid(keys)},
                 {keys, values, rowSeq, rowIndex, g.table, g.pool},
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::CacheAppendOp::create(b, op.getLoc(), a[0], a[1], a[2], a[3], a[4], a[5],
                                                 g.layout, kvBlockTokens, op.getLayer());
                 });
  return success();
}

LogicalResult StepLowering::lower(lm::AttentionOp op) {
  const Group &g = groups[cacheGroups.lookup(op.getCache())];
  Value query = bufferOf(op, op.getQuery());
  Value out = query ? resultBuffer(op.getResult(), query) : Value();
  if (!out) {
    return failure();
  }
  ensureRowIndex(op.getLoc());
  BufferList list;
  for (Value v : {query, rowSeq, rowIndex, g.table, g.pool}) {
    list.add(v);
  }
  int sinks = list.add(vectorOf(op.getSinks())), outSlot = list.add(out);
  SmallVector<GridDimAttr> grid{builder.gridDim(Unit::Tokens, 1, 0, kAttentionRowTile),
                                builder.gridDim(Unit::Fixed, 0, op.getKvHeads(), 1)};
  builder.launch(op.getLoc(), "attention", grid, list.all(), [&](OpBuilder &b, ValueRange a) {
    kernel::AttentionOp::create(
        b, op.getLoc(), a[0], a[1], a[2], a[3], a[4], BufferList::at(a, sinks), a[outSlot],
        g.layout, kvBlockTokens, op.getLayer(), op.getHeads(), op.getScale(), op.getWindow(),
        op.getMaskWindow(), op.getSoftCap(), kAttentionSpan, kAttentionChunk);
  });
  return success();
}

LogicalResult StepLowering::lower(lm::LogitRowsOp op) {
  Value x = bufferOf(op, op.getX());
  Value out = x ? resultBuffer(op.getResult(), Unit::LogitRows) : Value();
  if (!out) {
    return failure();
  }
  builder.launch(op.getLoc(), "logit_rows", {builder.rowGrid(out)},
                 {x, builder.input(InputKind::LogitRows), out}, [&](OpBuilder &b, ValueRange a) {
                   kernel::LogitRowsOp::create(b, op.getLoc(), a[0], a[1], a[2],
                                               lm::featuresOf(op.getX()));
                 });
  return success();
}

} // namespace sluicec::lower
