// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of attention over the paged cache, for one row and one key-value head per cell.
//
// Bit rule 2 of design.md 4: the cache is walked in spans at absolute indices. A span gives, per
// query head, its largest score m, l = sum of exp(score - m) and o = sum of exp(score - m) value;
// spans join left to right within a chunk, chunks left to right (Milakov & Gimelshein 2018, "Online
// normalizer calculation for softmax"). A span or chunk of which the row sees nothing is not
// joined, whether it was walked or not. Values of invisible entries are never read into a result:
// stale memory may hold anything.
#include "compiler/codegen/cpu/CacheBlock.h"
#include "compiler/codegen/cpu/Templates.h"
#include "compiler/codegen/cpu/VectorMath.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace sluicec::cpu {

namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

/// Running softmax of all query heads of a kv head, in scratch memory.
struct Partial {
  Value largest; // [R] f32
  Value sum;     // [R] f32
  Value values;  // [R, value_head padded to 16] f32
};

/// One row and kv head.
struct Cell {
  Value query;    // [R, key_head] f32
  Value tableRow; // [max_blocks] i32
  Value kvHead;
  Value low, high; // the row sees cache indices [low, high)
};

/// The part of a span that the row sees: cache indices [low, high), the span starting at `base`.
struct Span {
  Value base, low, high;
};

class Attention {
public:
  Attention(kernel::AttentionOp op, KernelFrame &f)
      : op(op), f(f),
        layout{cast<lm::CacheType>(op.getLayout()), op.getBlockTokens(), op.getLayer()},
        heads(op.getHeads() / layout.type.getKvHeads()), keyHead(layout.type.getKeyHead()),
        valueHead(layout.type.getValueHead()), span(op.getSpan()),
        headsAtOnce(f.target.vectorBits == 512 ? 4 : 2) {
    int64_t perHead = heads * 4;
    weights = f.scratch(heads * span * 4);
    oldFactor = f.scratch(perHead);
    newFactor = f.scratch(perHead);
    for (Partial *p : {&chunk, &total}) {
      *p = {f.scratch(perHead), f.scratch(perHead), f.scratch(heads * paddedValue() * 4)};
    }
    cache = f.buffer(op.getCache());
    maxBlocks = f.maxBlocks();
  }

  void emitCell(Value cellNumber) {
    int64_t kvHeads = layout.type.getKvHeads();
    Value row = f.div(cellNumber, kvHeads);
    Value seq = f.toI64(f.loadAt(f.i32(), f.buffer(op.getRowSeq()), row));
    Value position = f.toI64(f.loadAt(f.i32(), f.buffer(op.getRowIndex()), row));
    Cell cell;
    cell.kvHead = f.rem(cellNumber, kvHeads);
    Value firstHead = f.mul(f.add(f.mul(row, kvHeads), cell.kvHead), heads);
    cell.query = f.at(f.f32(), f.buffer(op.getQuery()), f.mul(firstHead, keyHead));
    cell.tableRow = f.at(f.i32(), f.buffer(op.getBlockTable()), f.mul(seq, maxBlocks));
    cell.high = f.add(position, 1);
    cell.low = f.index(0);
    if (int64_t window = visibleWindow()) {
      cell.low = f.maxInt(f.sub(cell.high, window), cell.low);
    }
    clear(total);
    walkChunks(cell);
    Value out = f.at(f.f32(), f.buffer(op.getOut()), f.mul(firstHead, valueHead));
    finish(cell, out);
  }

private:
  kernel::AttentionOp op;
  KernelFrame &f;
  CacheBlock layout;
  int64_t heads; ///< R, query heads of a kv head
  int64_t keyHead, valueHead, span, headsAtOnce;
  Value weights;              // [R, span] f32: scores, then exp(score - m)
  Value oldFactor, newFactor; // [R] f32: exp(M - m') and exp(m - m') of the last join
  Partial chunk, total;
  Value cache, maxBlocks;

  int64_t paddedValue() const { return (valueHead + kLanes - 1) / kLanes * kLanes; }
  int64_t strips() const { return span / kLanes; }

  int64_t visibleWindow() {
    int64_t skip = op.getWindow(), mask = op.getMaskWindow();
    return skip && mask ? std::min(skip, mask) : std::max(skip, mask);
  }

  Value visibleIn(Value low, Value high) { return f.compare(arith::CmpIPredicate::slt, low, high); }

  void clear(const Partial &p) {
    f.loop(0, heads, 1, [&](Value r) {
      f.storeAt(f.constant(f.f32(), kLowest), p.largest, r);
      f.storeAt(f.constant(f.f32(), 0), p.sum, r);
    });
    f.loop(0, heads * paddedValue(), kLanes,
           [&](Value i) { f.store(f.zeros(f.vec(f.f32())), f.at(f.f32(), p.values, i), 64); });
  }

  // ---- The walk ----

  void walkChunks(const Cell &cell) {
    int64_t chunkTokens = op.getChunk();
    // With `window` what lies before is not even looked at; `mask_window` walks it and sees
    // nothing.
    Value walkFrom = op.getWindow() > 0 ? cell.low : f.index(0);
    f.loop(f.div(walkFrom, chunkTokens), f.ceilDiv(cell.high, chunkTokens), 1, [&](Value number) {
      Value begin = f.mul(number, chunkTokens), end = f.add(begin, chunkTokens);
      Value low = f.maxInt(cell.low, begin), high = f.minInt(cell.high, end);
      f.ifThen(visibleIn(low, high), [&] {
        clear(chunk);
        Value from = f.maxInt(begin, walkFrom);
        f.loop(f.div(from, span), f.ceilDiv(high, span), 1, [&](Value s) {
          Value base = f.mul(s, span);
          Span part{base, f.maxInt(low, base), f.minInt(high, f.add(base, span))};
          f.ifThen(visibleIn(part.low, part.high), [&] { walkSpan(cell, part); });
        });
        joinChunk();
      });
    });
  }

  void walkSpan(const Cell &cell, const Span &part) {
    forHeads([&](Value firstHead, int64_t count) {
      int64_t stripsAtOnce = f.target.vectorBits == 512 ? 4 : 2;
      while (strips() % stripsAtOnce != 0) {
        stripsAtOnce /= 2;
      }
      f.loop(0, strips(), stripsAtOnce,
             [&](Value strip) { scores(cell, part, {firstHead, count, strip, stripsAtOnce}); });
    });
    f.loop(0, heads, 1, [&](Value r) { softmax(r); });
    forHeads([&](Value firstHead, int64_t count) {
      int64_t whole = valueHead / kLanes, atOnce = std::min<int64_t>(whole, headsAtOnce);
      if (whole > 0) {
        int64_t even = whole / atOnce * atOnce;
        f.loop(0, even, atOnce,
               [&](Value v) { weighValues(cell, part, {firstHead, count, v, atOnce}, kLanes); });
        if (even < whole) {
          weighValues(cell, part, {firstHead, count, f.index(even), whole - even}, kLanes);
        }
      }
      if (valueHead % kLanes != 0) {
        weighValues(cell, part, {firstHead, count, f.index(whole), 1}, valueHead % kLanes);
      }
    });
  }

  /// All query heads, so many at a time that their sums fit the registers.
  void forHeads(function_ref<void(Value first, int64_t count)> body) {
    int64_t atOnce = std::min(heads, headsAtOnce), even = heads / atOnce * atOnce;
    f.loop(0, even, atOnce, [&](Value r) { body(r, atOnce); });
    if (even < heads) {
      body(f.index(even), heads - even);
    }
  }

  /// A tile of work: `headCount` query heads by `vectorCount` vectors of keys or values.
  struct Tile {
    Value firstHead;
    int64_t headCount;
    Value firstVector;
    int64_t vectorCount;
  };

  /// The block of 16 entries at cache index `token` of a span; those that the row does not see are
  /// not looked up in the table beyond its last block. -1 where dropped.
  Value blockOf(const Cell &cell, const Span &part, Value token) {
    Value known = f.maxInt(f.minInt(token, f.sub(part.high, 1)), part.low);
    return f.toI64(f.loadAt(f.i32(), cell.tableRow, f.div(known, layout.blockTokens)));
  }

  /// Keys of the 16 entries at `token` in a block that exists.
  Value keysOf(const Cell &cell, Value block) {
    return layout.keys(f, cache, f.maxInt(block, f.index(0)), cell.kvHead);
  }

  // ---- Scores ----

  /// weights[head, strip] = score or -inf, for all strips of a span: d ascending, one FMA each.
  void scores(const Cell &cell, const Span &part, const Tile &tile) {
    Type element = layout.type.getElement();
    SmallVector<Value> keys, visible, queries;
    for (int64_t s = 0; s < tile.vectorCount; ++s) {
      Value token = f.add(part.base, f.mul(f.add(tile.firstVector, s), kLanes));
      Value block = blockOf(cell, part, token);
      keys.push_back(f.at(element, keysOf(cell, block), f.rem(token, layout.blockTokens)));
      visible.push_back(visibleLanes(part, token, block));
    }
    for (int64_t r = 0; r < tile.headCount; ++r) {
      Value head = f.add(tile.firstHead, r);
      queries.push_back(f.at(f.f32(), cell.query, f.mul(head, keyHead)));
    }
    SmallVector<Value> sums(tile.headCount * tile.vectorCount, f.zeros(f.vec(f.f32())));
    sums = f.loop(f.index(0), f.index(keyHead), 1, sums, [&](Value d, ValueRange sum) {
      SmallVector<Value> vectors, next;
      for (Value k : keys) {
        Value address = f.at(element, k, f.mul(d, layout.blockTokens));
        vectors.push_back(f.extend(f.load(f.vec(element), address, f.bytesOf(element) * kLanes)));
      }
      for (Value q : queries) {
        Value factor = f.splat(f.loadAt(f.f32(), q, d));
        for (Value k : vectors) {
          next.push_back(f.fma(factor, k, sum[next.size()]));
        }
      }
      return next;
    });
    for (int64_t r = 0; r < tile.headCount; ++r) {
      for (int64_t s = 0; s < tile.vectorCount; ++s) {
        Value score = scaled(sums[r * tile.vectorCount + s]);
        score = f.select(visible[s], score, f.like(score, kLowest));
        Value head = f.add(tile.firstHead, r), strip = f.add(tile.firstVector, s);
        Value offset = f.add(f.mul(head, span), f.mul(strip, kLanes));
        f.store(score, f.at(f.f32(), weights, offset), 64);
      }
    }
  }

  Value scaled(Value score) {
    double cap = op.getSoftCap().convertToDouble();
    score = f.mul(score, f.like(score, op.getScale().convertToDouble()));
    if (cap > 0) {
      score = f.mul(emitTanh(f, f.div(score, f.like(score, cap))), f.like(score, cap));
    }
    return score;
  }

  /// Which of the 16 entries at `token` the row sees; none of a dropped block.
  Value visibleLanes(const Span &part, Value token, Value block) {
    Value lanes = f.iota();
    Value low = f.splat(f.toI32(f.sub(part.low, token)));
    Value high = f.splat(f.toI32(f.sub(part.high, token)));
    Value inside = f.both(f.compare(arith::CmpIPredicate::sge, lanes, low),
                          f.compare(arith::CmpIPredicate::slt, lanes, high));
    Value present = f.compare(arith::CmpIPredicate::sge, block, f.index(0));
    return f.both(inside, f.splat(present));
  }

  // ---- Softmax ----

  /// exp(score - m) of one head's span, joined with the chunk: M, L and the factors for the values.
  void softmax(Value r) {
    Value line = f.at(f.f32(), weights, f.mul(r, span));
    auto strip = [&](int64_t s) { return f.at(f.f32(), line, s * kLanes); };
    Value largest = f.constant(f.vec(f.f32()), kLowest);
    for (int64_t s = 0; s < strips(); ++s) {
      largest = f.maxFloat(largest, f.load(f.vec(f.f32()), strip(s), 64));
    }
    Value m = f.maxLanes(largest), shift = f.splat(finiteOrZero(m));
    Value sum = f.zeros(f.vec(f.f32()));
    for (int64_t s = 0; s < strips(); ++s) {
      Value e = emitExp(f, f.sub(f.load(f.vec(f.f32()), strip(s), 64), shift));
      f.store(e, strip(s), 64);
      sum = f.add(sum, e);
    }
    joinSums(chunk, r, m, f.sumLanes(sum));
  }

  /// 0 for -inf, so that -inf - m is -inf and not NaN.
  Value finiteOrZero(Value m) {
    Value isLowest = f.compare(arith::CmpFPredicate::OEQ, m, f.like(m, kLowest));
    return f.select(isLowest, f.like(m, 0), m);
  }

  /// M' = max(M, m), L' = L exp(M - M') + l exp(m - M'); both factors stay for the values.
  void joinSums(const Partial &into, Value r, Value m, Value l) {
    Value oldM = f.loadAt(f.f32(), into.largest, r), oldL = f.loadAt(f.f32(), into.sum, r);
    Value newM = f.maxFloat(oldM, m), shift = finiteOrZero(newM);
    Value a = emitExp(f, f.sub(oldM, shift)), b = emitExp(f, f.sub(m, shift));
    f.storeAt(newM, into.largest, r);
    f.storeAt(f.fma(l, b, f.mul(oldL, a)), into.sum, r);
    f.storeAt(a, oldFactor, r);
    f.storeAt(b, newFactor, r);
  }

  // ---- Values ----

  /// chunk.values = chunk.values * oldFactor + (sum over visible entries, ascending, of weight *
  /// value) * newFactor.
  void weighValues(const Cell &cell, const Span &part, const Tile &tile, int64_t lanes) {
    Type element = layout.type.getElement();
    Value column = f.mul(tile.firstVector, kLanes);
    SmallVector<Value> sums(tile.headCount * tile.vectorCount, f.zeros(f.vec(f.f32())));
    Value firstStrip = f.div(f.sub(part.low, part.base), kLanes);
    Value endStrip = f.ceilDiv(f.sub(part.high, part.base), kLanes);
    sums = f.loop(firstStrip, endStrip, 1, sums, [&](Value strip, ValueRange carried) {
      Value token = f.add(part.base, f.mul(strip, kLanes));
      Value block = blockOf(cell, part, token);
      Value values = layout.values(f, keysOf(cell, block));
      values = f.at(element, values, f.mul(f.rem(token, layout.blockTokens), valueHead));
      Value from = f.maxInt(f.sub(part.low, token), f.index(0));
      Value to = f.minInt(f.sub(part.high, token), f.index(kLanes));
      to = f.select(f.compare(arith::CmpIPredicate::sge, block, f.index(0)), to, from);
      Value first = f.at(f.f32(), weights, f.mul(strip, kLanes));
      return f.loop(from, to, 1, carried, [&](Value t, ValueRange sum) {
        SmallVector<Value> vectors, next;
        Value line = f.at(element, values, f.add(f.mul(t, valueHead), column));
        for (int64_t v = 0; v < tile.vectorCount; ++v) {
          vectors.push_back(f.extend(f.loadLanes(element, f.at(element, line, v * kLanes), lanes)));
        }
        for (int64_t r = 0; r < tile.headCount; ++r) {
          Value offset = f.add(f.mul(f.add(tile.firstHead, r), span), t);
          Value w = f.splat(f.loadAt(f.f32(), first, offset));
          for (Value v : vectors) {
            next.push_back(f.fma(w, v, sum[next.size()]));
          }
        }
        return next;
      });
    });
    for (int64_t r = 0; r < tile.headCount; ++r) {
      Value head = f.add(tile.firstHead, r);
      for (int64_t v = 0; v < tile.vectorCount; ++v) {
        Value offset = f.add(f.mul(head, paddedValue()), f.add(column, v * kLanes));
        joinValues(chunk, head, offset, sums[r * tile.vectorCount + v]);
      }
    }
  }

  void joinValues(const Partial &into, Value head, Value offset, Value added) {
    Value address = f.at(f.f32(), into.values, offset);
    Value a = f.splat(f.loadAt(f.f32(), oldFactor, head));
    Value b = f.splat(f.loadAt(f.f32(), newFactor, head));
    f.store(f.fma(added, b, f.mul(f.load(f.vec(f.f32()), address, 64), a)), address, 64);
  }

  void joinChunk() {
    f.loop(0, heads, 1, [&](Value r) {
      joinSums(total, r, f.loadAt(f.f32(), chunk.largest, r), f.loadAt(f.f32(), chunk.sum, r));
      f.loop(0, paddedValue(), kLanes, [&](Value i) {
        Value offset = f.add(f.mul(r, paddedValue()), i);
        joinValues(total, r, offset,
                   f.load(f.vec(f.f32()), f.at(f.f32(), chunk.values, offset), 64));
      });
    });
  }

  /// Takes the sinks in, divides by L, stores. A row that sees nothing gives 0.
  void finish(const Cell &cell, Value out) {
    Value sinks = f.buffer(op.getSinks());
    f.loop(0, heads, 1, [&](Value r) {
      Value factor = f.constant(f.f32(), 1);
      if (sinks) {
        Value head = f.add(f.mul(cell.kvHead, heads), r);
        joinSums(total, r, f.loadAt(f.f32(), sinks, head), factor);
        factor = f.loadAt(f.f32(), oldFactor, r);
      }
      Value l = f.loadAt(f.f32(), total.sum, r);
      Value isEmpty = f.compare(arith::CmpFPredicate::OEQ, l, f.like(l, 0));
      factor = f.splat(f.select(isEmpty, f.like(l, 0), f.div(factor, l)));
      Value from = f.at(f.f32(), total.values, f.mul(r, paddedValue()));
      Value to = f.at(f.f32(), out, f.mul(r, valueHead));
      f.forChunks(valueHead, [&](Value i, int64_t lanes) {
        Value v = f.load(f.vec(f.f32()), f.at(f.f32(), from, i), 64);
        f.storeLanes(f.mul(v, factor), f.at(f.f32(), to, i), lanes);
      });
    });
  }
};

} // namespace

LogicalResult emitTemplate(kernel::AttentionOp op, KernelFrame &f) {
  if (op.getBlockTokens() % kLanes != 0 || op.getSpan() % kLanes != 0) {
    return op.emitOpError() << "has blocks of " << op.getBlockTokens() << " tokens and spans of "
                            << op.getSpan() << ", expected multiples of " << kLanes
                            << " for CPU code (option kv-block-tokens)";
  }
  Attention attention(op, f);
  f.forCells([&](Value cell) { attention.emitCell(cell); });
  return success();
}

} // namespace sluicec::cpu
