// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of the templates that move or combine whole rows: embedding, repeat_heads,
// gated_activation, logit_rows, row_index.
#include "compiler/codegen/cpu/Templates.h"
#include "compiler/codegen/cpu/VectorMath.h"

using namespace mlir;

namespace sluicec::cpu {

LogicalResult emitTemplate(kernel::EmbeddingOp op, KernelFrame &f) {
  int64_t features = op.getFeatures();
  Type element = KernelFrame::elementOf(op.getTable());
  Value ids = f.buffer(op.getIds()), table = f.buffer(op.getTable()), out = f.buffer(op.getOut());
  f.forCells([&](Value row) {
    Value id = f.toI64(f.loadAt(f.i32(), ids, row));
    Value from = f.at(element, table, f.mul(id, features));
    Value to = f.at(f.f32(), out, f.mul(row, features));
    f.forChunks(features, [&](Value i, int64_t lanes) {
      Value v = f.extend(f.loadLanes(element, f.at(element, from, i), lanes));
      f.storeLanes(v, f.at(f.f32(), to, i), lanes);
    });
  });
  return success();
}

LogicalResult emitTemplate(kernel::RepeatHeadsOp op, KernelFrame &f) {
  int64_t head = op.getHead(), repeats = op.getRepeats();
  Value x = f.buffer(op.getX()), out = f.buffer(op.getOut());
  f.forCells([&](Value row) {
    f.loop(0, op.getHeads(), 1, [&](Value h) {
      Value source = f.add(f.mul(row, op.getHeads()), h);
      Value from = f.at(f.f32(), x, f.mul(source, head));
      f.loop(0, repeats, 1, [&](Value r) {
        Value to = f.at(f.f32(), out, f.mul(f.add(f.mul(source, repeats), r), head));
        f.forChunks(head, [&](Value i, int64_t lanes) {
          f.storeLanes(f.loadLanes(f.f32(), f.at(f.f32(), from, i), lanes), f.at(f.f32(), to, i),
                       lanes);
        });
      });
    });
  });
  return success();
}

LogicalResult emitTemplate(kernel::GatedActivationOp op, KernelFrame &f) {
  int64_t features = op.getFeatures();
  Value gate = f.buffer(op.getGate()), up = f.buffer(op.getUp()), out = f.buffer(op.getOut());
  f.forCells([&](Value row) {
    Value start = f.mul(row, features);
    f.forChunks(features, [&](Value i, int64_t lanes) {
      Value offset = f.add(start, i);
      Value g = f.loadLanes(f.f32(), f.at(f.f32(), gate, offset), lanes);
      Value u = f.loadLanes(f.f32(), f.at(f.f32(), up, offset), lanes);
      f.storeLanes(emitGated(f, op.getActivation(), g, u), f.at(f.f32(), out, offset), lanes);
    });
  });
  return success();
}

LogicalResult emitTemplate(kernel::LogitRowsOp op, KernelFrame &f) {
  int64_t features = op.getFeatures();
  Value x = f.buffer(op.getX()), rows = f.buffer(op.getRows()), out = f.buffer(op.getOut());
  f.forCells([&](Value row) {
    Value source = f.toI64(f.loadAt(f.i32(), rows, row));
    Value from = f.at(f.f32(), x, f.mul(source, features));
    Value to = f.at(f.f32(), out, f.mul(row, features));
    f.forChunks(features, [&](Value i, int64_t lanes) {
      f.storeLanes(f.loadLanes(f.f32(), f.at(f.f32(), from, i), lanes), f.at(f.f32(), to, i),
                   lanes);
    });
  });
  return success();
}

LogicalResult emitTemplate(kernel::RowIndexOp op, KernelFrame &f) {
  Value seqStart = f.buffer(op.getSeqStart()), kvLength = f.buffer(op.getKvLength());
  Value rowSeq = f.buffer(op.getRowSeq()), rowIndex = f.buffer(op.getRowIndex());
  f.forCells([&](Value seq) {
    Value first = f.toI64(f.loadAt(f.i32(), seqStart, seq));
    Value last = f.toI64(f.loadAt(f.i32(), seqStart, f.add(seq, 1)));
    Value length = f.toI64(f.loadAt(f.i32(), kvLength, seq));
    // Row r has cache index kv_length - rows + (r - seq_start), design.md 4.
    Value shift = f.sub(length, last);
    f.loop(first, last, 1, [&](Value row) {
      f.storeAt(f.toI32(seq), rowSeq, row);
      f.storeAt(f.toI32(f.add(row, shift)), rowIndex, row);
    });
  });
  return success();
}

} // namespace sluicec::cpu
