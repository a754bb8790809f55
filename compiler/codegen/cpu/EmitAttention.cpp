// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of attention over the paged cache: a cell is a tile of rows by one key-value head.
//
// Bit rule 2 of design.md 4: the cache is walked in spans at absolute indices. A span gives, per
// query, its largest score m, l = sum of exp(score - m) and o = sum of exp(score - m) value; spans
// join left to right within a chunk, chunks left to right (Milakov & Gimelshein 2018, "Online
// normalizer calculation for softmax"). A span or chunk of which a row sees nothing is not joined,
// whether it was walked or not. Values of invisible entries are never read into a result: stale
// memory may hold anything.
//
// Rows of one sequence in a tile walk together, so that keys and values are read once for all of
// them. What is done for a row does not depend on which rows go with it.
#include "compiler/codegen/cpu/CacheBlock.h"
#include "compiler/codegen/cpu/Templates.h"
#include "compiler/codegen/cpu/VectorMath.h"

#include <limits>

using namespace mlir;

namespace sluicec::cpu {

namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

/// Running softmax of all queries of a cell (Q = rows of the tile * R), in scratch memory.
struct Partial {
  Value largest; // [Q] f32
  Value sum;     // [Q] f32
  Value values;  // [Q, value_head padded to 16] f32
};

/// Consecutive rows of one sequence, and the kv head. Query number u is row u / R, query head u % R
/// of that kv head.
struct Rows {
  Value first;    // number in the step
  Value count;    // of rows
  Value index;    // cache index of the first; the others follow
  Value tableRow; // [max_blocks] i32
  Value kvHead;
};

/// A half-open range of rows, queries or cache indices.
struct Range {
  Value from, to;
};

class Attention {
public:
  Attention(kernel::AttentionOp op, KernelFrame &f)
      : op(op), f(f),
        layout{cast<lm::CacheType>(op.getLayout()), op.getBlockTokens(), op.getLayer()},
        heads(op.getHeads() / layout.type.getKvHeads()), keyHead(layout.type.getKeyHead()),
        valueHead(layout.type.getValueHead()), span(op.getSpan()), tile(f.gridDim(0).getTile()),
        atOnce(f.target.vectorBits == 512 ? 4 : 2) {
    int64_t queries = tile * heads, perQuery = (queries + kLanes) * 4;
    weights = f.scratch(queries * span * 4);
    for (Value *v : {&spanLargest, &spanSum, &oldFactor, &newFactor}) {
      *v = f.scratch(perQuery);
    }
    for (Partial *p : {&chunk, &total}) {
      *p = {f.scratch(perQuery), f.scratch(perQuery), f.scratch(queries * paddedValue() * 4)};
    }
    cache = f.buffer(op.getCache());
    rowSeq = f.buffer(op.getRowSeq());
    maxBlocks = f.maxBlocks();
    extent = f.gridExtent(0);
  }

  /// Parts the tile's rows into sequences.
  void emitCell(Value cellNumber) {
    int64_t kvHeads = layout.type.getKvHeads();
    Value first = f.mul(f.div(cellNumber, kvHeads), tile);
    Value end = f.minInt(f.add(first, tile), extent);
    auto seqOf = [&](Value row) { return f.loadAt(f.i32(), rowSeq, row); };
    auto isInside = [&](ValueRange at) { return isBelow(at[0], end); };
    f.loopWhile({first}, isInside, [&](ValueRange at) {
      Value seq = seqOf(at[0]);
      auto isSame = [&](ValueRange next) {
        Value row = f.minInt(next[0], f.sub(end, 1));
        return f.both(isBelow(next[0], end), f.compare(arith::CmpIPredicate::eq, seqOf(row), seq));
      };
      Value next = f.loopWhile({f.add(at[0], 1)}, isSame, [&](ValueRange row) {
        return SmallVector<Value>{f.add(row[0], 1)};
      })[0];
      Rows rows;
      rows.first = at[0];
      rows.count = f.sub(next, at[0]);
      rows.index = f.toI64(f.loadAt(f.i32(), f.buffer(op.getRowIndex()), at[0]));
      rows.tableRow = f.at(f.i32(), f.buffer(op.getBlockTable()), f.mul(f.toI64(seq), maxBlocks));
      rows.kvHead = f.rem(cellNumber, kvHeads);
      attend(rows);
      return SmallVector<Value>{next};
    });
  }

private:
  kernel::AttentionOp op;
  KernelFrame &f;
  CacheBlock layout;
  int64_t heads; ///< R, query heads of a kv head
  int64_t keyHead, valueHead, span, tile;
  int64_t atOnce;             ///< queries whose sums are held in registers together
  Value weights;              // [Q, span] f32: scores, then exp(score - m)
  Value spanLargest, spanSum; // [Q] f32: m and l of the span (or chunk) to be joined
  Value oldFactor, newFactor; // [Q] f32: exp(M - M') and exp(m - M') of the last join
  Partial chunk, total;
  Value cache, rowSeq, maxBlocks, extent;

  int64_t paddedValue() const { return (valueHead + kLanes - 1) / kLanes * kLanes; }
  int64_t strips() const { return span / kLanes; }

  int64_t visibleWindow() {
    int64_t skip = op.getWindow(), mask = op.getMaskWindow();
    return skip && mask ? std::min(skip, mask) : std::max(skip, mask);
  }

  Value isBelow(Value a, Value b) { return f.compare(arith::CmpIPredicate::slt, a, b); }

  // ---- Who sees what ----

  /// The first cache index that row `row` of `rows` sees, and the one behind the last.
  Value lowOf(const Rows &rows, Value row) {
    int64_t window = visibleWindow();
    return window ? f.maxInt(f.sub(highOf(rows, row), window), f.index(0)) : f.index(0);
  }
  Value highOf(const Rows &rows, Value row) { return f.add(f.add(rows.index, row), 1); }

  /// The rows that see any of these cache indices; they are consecutive.
  Range rowsThatSee(const Rows &rows, Range tokens) {
    Range seen{f.maxInt(f.sub(tokens.from, rows.index), f.index(0)), rows.count};
    if (int64_t window = visibleWindow()) {
      seen.to = f.minInt(seen.to, f.add(f.sub(tokens.to, rows.index), window - 1));
    }
    return seen;
  }

  Range queriesOf(Range rows) { return {f.mul(rows.from, heads), f.mul(rows.to, heads)}; }

  Value isNotEmpty(Range r) { return isBelow(r.from, r.to); }

  // ---- The walk ----

  void attend(const Rows &rows) {
    int64_t chunkTokens = op.getChunk();
    Range all{f.index(0), f.mul(rows.count, heads)};
    clear(total, all);
    // With `window` what lies before is not even looked at; `mask_window` walks it and sees
    // nothing.
    Value walkFrom = op.getWindow() > 0 ? lowOf(rows, f.index(0)) : f.index(0);
    Value walkTo = highOf(rows, f.sub(rows.count, 1));
    Value firstChunk = f.div(walkFrom, chunkTokens), endChunk = f.ceilDiv(walkTo, chunkTokens);
    f.loop(firstChunk, endChunk, 1, [&](Value number) {
      Range tokens;
      tokens.from = f.mul(number, chunkTokens);
      tokens.to = f.add(tokens.from, chunkTokens);
      Range seeing = queriesOf(rowsThatSee(rows, tokens));
      f.ifThen(isNotEmpty(seeing), [&] {
        clear(chunk, seeing);
        Value firstSpan = f.div(f.maxInt(tokens.from, walkFrom), span);
        Value endSpan = f.ceilDiv(f.minInt(tokens.to, walkTo), span);
        f.loop(firstSpan, endSpan, 1, [&](Value s) {
          Value base = f.mul(s, span);
          Range spanRows = rowsThatSee(rows, {base, f.add(base, span)});
          f.ifThen(isNotEmpty(spanRows), [&] { walkSpan(rows, base, spanRows); });
        });
        joinChunk(seeing);
      });
    });
    finish(rows, all);
  }

  void clear(const Partial &p, Range queries) {
    f.loop(queries.from, queries.to, 1, [&](Value u) {
      f.storeAt(f.constant(f.f32(), kLowest), p.largest, u);
      f.storeAt(f.constant(f.f32(), 0), p.sum, u);
      Value line = f.at(f.f32(), p.values, f.mul(u, paddedValue()));
      f.loop(0, paddedValue(), kLanes,
             [&](Value i) { f.store(f.zeros(f.vec(f.f32())), f.at(f.f32(), line, i), 64); });
    });
  }

  void walkSpan(const Rows &rows, Value base, Range spanRows) {
    Range queries = queriesOf(spanRows);
    forQueries(queries, [&](Value u, int64_t count) {
      int64_t stripsAtOnce = atOnce;
      while (strips() % stripsAtOnce != 0) {
        stripsAtOnce /= 2;
      }
      f.loop(0, strips(), stripsAtOnce,
             [&](Value strip) { scores(rows, {base, spanRows}, {u, count, strip, stripsAtOnce}); });
    });
    f.loop(queries.from, queries.to, 1, [&](Value u) { softmax(u); });
    joinSums(chunk, queries);
    // Where all rows see the whole span they take it together; else each takes what it sees.
    Value last = f.sub(spanRows.to, 1), spanEnd = f.add(base, span);
    Value isWhole =
        f.both(f.compare(arith::CmpIPredicate::sle, lowOf(rows, last), base),
               f.compare(arith::CmpIPredicate::sge, highOf(rows, spanRows.from), spanEnd));
    Value turns = f.select(isWhole, f.index(1), f.sub(spanRows.to, spanRows.from));
    f.loop(f.index(0), turns, 1, [&](Value turn) {
      Range part;
      part.from = f.add(spanRows.from, turn);
      part.to = f.select(isWhole, spanRows.to, f.add(part.from, 1));
      Range tokens{f.maxInt(lowOf(rows, f.sub(part.to, 1)), base),
                   f.minInt(highOf(rows, part.from), spanEnd)};
      forQueries(queriesOf(part), [&](Value u, int64_t count) {
        forValueVectors([&](Value v, int64_t vectors, int64_t lanes) {
          weighValues(rows, {base, tokens}, {u, count, v, vectors}, lanes);
        });
      });
    });
  }

  /// All queries of a range, so many at a time that their sums fit the registers.
  void forQueries(Range queries, function_ref<void(Value first, int64_t count)> body) {
    Value rest = f.rem(f.sub(queries.to, queries.from), atOnce);
    Value done = f.sub(queries.to, rest);
    f.loop(queries.from, done, atOnce, [&](Value u) { body(u, atOnce); });
    for (int64_t count = atOnce / 2; count >= 1; count /= 2) {
      // A range has a multiple of R queries.
      if (heads % (2 * count) == 0) {
        continue;
      }
      Value has = f.both(rest, f.index(count));
      f.ifThen(f.compare(arith::CmpIPredicate::ne, has, f.index(0)), [&] { body(done, count); });
      done = f.add(done, has);
    }
  }

  /// All vectors of a value head: body(first, count, lanes of the last).
  void forValueVectors(function_ref<void(Value first, int64_t count, int64_t lanes)> body) {
    int64_t whole = valueHead / kLanes, together = std::min(whole, atOnce);
    if (whole > 0) {
      int64_t even = whole / together * together;
      f.loop(0, even, together, [&](Value v) { body(v, together, kLanes); });
      if (even < whole) {
        body(f.index(even), whole - even, kLanes);
      }
    }
    if (valueHead % kLanes != 0) {
      body(f.index(whole), 1, valueHead % kLanes);
    }
  }

  /// A tile of work: `queryCount` queries by `vectorCount` vectors of keys or values.
  struct Tile {
    Value firstQuery;
    int64_t queryCount;
    Value firstVector;
    int64_t vectorCount;
  };

  /// Keys of the 16 entries at cache index `token`, and whether their block exists. `seen` are
  /// entries that are seen: outside of them the table may end, or name no block, and any block will
  /// do.
  std::pair<Value, Value> stripAt(const Rows &rows, Value token, Range seen) {
    Value known = f.maxInt(f.minInt(token, f.sub(seen.to, 1)), seen.from);
    Value entry = f.div(known, layout.blockTokens);
    Value block = f.toI64(f.loadAt(f.i32(), rows.tableRow, entry));
    Value exists = f.compare(arith::CmpIPredicate::sge, block, f.index(0));
    return {layout.keys(f, cache, f.maxInt(block, f.index(0)), rows.kvHead), exists};
  }

  // ---- Scores ----

  struct ScoredSpan {
    Value base;
    Range rows;
  };

  /// weights[query, strip] = score or -inf: d ascending, one FMA each.
  void scores(const Rows &rows, const ScoredSpan &part, const Tile &work) {
    Type element = layout.type.getElement();
    SmallVector<Value> keys, exist, tokens, queries;
    Range seen{lowOf(rows, part.rows.from), highOf(rows, f.sub(part.rows.to, 1))};
    for (int64_t s = 0; s < work.vectorCount; ++s) {
      tokens.push_back(f.add(part.base, f.mul(f.add(work.firstVector, s), kLanes)));
      auto [strip, exists] = stripAt(rows, tokens.back(), seen);
      keys.push_back(f.at(element, strip, f.rem(tokens.back(), layout.blockTokens)));
      exist.push_back(f.splat(exists));
    }
    for (int64_t r = 0; r < work.queryCount; ++r) {
      queries.push_back(queryAt(rows, f.buffer(op.getQuery()), f.add(work.firstQuery, r), keyHead));
    }
    SmallVector<Value> sums(work.queryCount * work.vectorCount, f.zeros(f.vec(f.f32())));
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
    for (int64_t r = 0; r < work.queryCount; ++r) {
      Value u = f.add(work.firstQuery, r), row = f.div(u, heads);
      Range own{lowOf(rows, row), highOf(rows, row)};
      for (int64_t s = 0; s < work.vectorCount; ++s) {
        Value score = scaled(sums[r * work.vectorCount + s]);
        Value visible = f.both(lanesInside(tokens[s], own), exist[s]);
        score = f.select(visible, score, f.like(score, kLowest));
        Value strip = f.add(work.firstVector, s);
        Value offset = f.add(f.mul(u, span), f.mul(strip, kLanes));
        f.store(score, f.at(f.f32(), weights, offset), 64);
      }
    }
  }

  /// Address of query u's part of a tensor [T, H * head].
  Value queryAt(const Rows &rows, Value tensor, Value u, int64_t head) {
    Value row = f.add(rows.first, f.div(u, heads));
    Value group = f.add(f.mul(row, layout.type.getKvHeads()), rows.kvHead);
    Value number = f.add(f.mul(group, heads), f.rem(u, heads));
    return f.at(f.f32(), tensor, f.mul(number, head));
  }

  Value scaled(Value score) {
    double cap = op.getSoftCap().convertToDouble();
    score = f.mul(score, f.like(score, op.getScale().convertToDouble()));
    if (cap > 0) {
      score = f.mul(emitTanh(f, f.div(score, f.like(score, cap))), f.like(score, cap));
    }
    return score;
  }

  /// Which of the 16 entries at `token` lie in a range.
  Value lanesInside(Value token, Range range) {
    Value low = f.splat(f.toI32(f.sub(range.from, token)));
    Value high = f.splat(f.toI32(f.sub(range.to, token)));
    Value lanes = f.iota();
    return f.both(f.compare(arith::CmpIPredicate::sge, lanes, low),
                  f.compare(arith::CmpIPredicate::slt, lanes, high));
  }

  // ---- Softmax ----

  /// exp(score - m) of one query's span, with m and l.
  void softmax(Value u) {
    Value line = f.at(f.f32(), weights, f.mul(u, span));
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
    f.storeAt(m, spanLargest, u);
    f.storeAt(f.sumLanes(sum), spanSum, u);
  }

  /// 0 for -inf, so that -inf - m is -inf and not NaN.
  Value finiteOrZero(Value m) {
    Value isLowest = f.compare(arith::CmpFPredicate::OEQ, m, f.like(m, kLowest));
    return f.select(isLowest, f.like(m, 0), m);
  }

  /// Takes spanLargest and spanSum in: M' = max(M, m), L' = L exp(M - M') + l exp(m - M'); both
  /// factors stay for the values. 16 queries at a time.
  void joinSums(const Partial &into, Range queries) {
    f.loop(queries.from, queries.to, kLanes, [&](Value u) {
      Value left = f.toI32(f.minInt(f.sub(queries.to, u), f.index(kLanes)));
      Value mask = f.compare(arith::CmpIPredicate::slt, f.iota(), f.splat(left));
      auto read = [&](Value array) { return f.loadMasked(f.f32(), f.at(f.f32(), array, u), mask); };
      auto write = [&](Value v, Value array) { f.storeMasked(v, f.at(f.f32(), array, u), mask); };
      Value oldM = read(into.largest), m = read(spanLargest);
      Value newM = f.maxFloat(oldM, m), shift = finiteOrZero(newM);
      Value a = emitExp(f, f.sub(oldM, shift)), b = emitExp(f, f.sub(m, shift));
      write(newM, into.largest);
      write(f.fma(read(spanSum), b, f.mul(read(into.sum), a)), into.sum);
      write(a, oldFactor);
      write(b, newFactor);
    });
  }

  // ---- Values ----

  struct WeighedSpan {
    Value base;
    Range tokens; ///< that are visible to all queries of the tile
  };

  /// chunk.values = chunk.values * oldFactor + (sum over entries, ascending, of weight * value) *
  /// newFactor.
  void weighValues(const Rows &rows, const WeighedSpan &part, const Tile &work, int64_t lanes) {
    Type element = layout.type.getElement();
    Value column = f.mul(work.firstVector, kLanes);
    SmallVector<Value> lines;
    for (int64_t r = 0; r < work.queryCount; ++r) {
      Value u = f.add(work.firstQuery, r);
      lines.push_back(f.at(f.f32(), weights, f.mul(u, span)));
    }
    Value firstStrip = f.div(f.sub(part.tokens.from, part.base), kLanes);
    Value endStrip = f.ceilDiv(f.sub(part.tokens.to, part.base), kLanes);
    SmallVector<Value> sums(work.queryCount * work.vectorCount, f.zeros(f.vec(f.f32())));
    sums = f.loop(firstStrip, endStrip, 1, sums, [&](Value strip, ValueRange carried) {
      Value inSpan = f.mul(strip, kLanes), token = f.add(part.base, inSpan);
      auto [keys, exists] = stripAt(rows, token, part.tokens);
      Value inBlock = f.mul(f.rem(token, layout.blockTokens), valueHead);
      Value values = f.at(element, layout.values(f, keys), f.add(inBlock, column));
      Value from = f.maxInt(f.sub(part.tokens.from, token), f.index(0));
      Value to = f.minInt(f.sub(part.tokens.to, token), f.index(kLanes));
      to = f.select(exists, to, from);
      return f.loop(from, to, 1, carried, [&](Value t, ValueRange sum) {
        SmallVector<Value> vectors, next;
        Value line = f.at(element, values, f.mul(t, valueHead));
        for (int64_t v = 0; v < work.vectorCount; ++v) {
          vectors.push_back(f.extend(f.loadLanes(element, f.at(element, line, v * kLanes), lanes)));
        }
        for (Value weightsOfQuery : lines) {
          Value w = f.splat(f.loadAt(f.f32(), weightsOfQuery, f.add(inSpan, t)));
          for (Value v : vectors) {
            next.push_back(f.fma(w, v, sum[next.size()]));
          }
        }
        return next;
      });
    });
    for (int64_t r = 0; r < work.queryCount; ++r) {
      Value u = f.add(work.firstQuery, r);
      for (int64_t v = 0; v < work.vectorCount; ++v) {
        Value offset = f.add(f.mul(u, paddedValue()), f.add(column, v * kLanes));
        joinValues(chunk, u, offset, sums[r * work.vectorCount + v]);
      }
    }
  }

  void joinValues(const Partial &into, Value u, Value offset, Value added) {
    Value address = f.at(f.f32(), into.values, offset);
    Value a = f.splat(f.loadAt(f.f32(), oldFactor, u));
    Value b = f.splat(f.loadAt(f.f32(), newFactor, u));
    f.store(f.fma(added, b, f.mul(f.load(f.vec(f.f32()), address, 64), a)), address, 64);
  }

  void joinChunk(Range queries) {
    f.loop(queries.from, queries.to, 1, [&](Value u) {
      f.storeAt(f.loadAt(f.f32(), chunk.largest, u), spanLargest, u);
      f.storeAt(f.loadAt(f.f32(), chunk.sum, u), spanSum, u);
    });
    joinSums(total, queries);
    f.loop(queries.from, queries.to, 1, [&](Value u) {
      f.loop(0, paddedValue(), kLanes, [&](Value i) {
        Value offset = f.add(f.mul(u, paddedValue()), i);
        Value added = f.load(f.vec(f.f32()), f.at(f.f32(), chunk.values, offset), 64);
        joinValues(total, u, offset, added);
      });
    });
  }

  /// Takes the sinks in, divides by L, stores. A row that sees nothing gives 0.
  void finish(const Rows &rows, Range queries) {
    Value sinks = f.buffer(op.getSinks()), out = f.buffer(op.getOut());
    Value one = f.constant(f.f32(), 1);
    if (sinks) {
      // A sink is one more entry of weight 1 at its own score, without a value.
      f.loop(queries.from, queries.to, 1, [&](Value u) {
        Value head = f.add(f.mul(rows.kvHead, heads), f.rem(u, heads));
        f.storeAt(f.loadAt(f.f32(), sinks, head), spanLargest, u);
        f.storeAt(one, spanSum, u);
      });
      joinSums(total, queries);
    }
    f.loop(queries.from, queries.to, 1, [&](Value u) {
      Value factor = sinks ? f.loadAt(f.f32(), oldFactor, u) : one;
      Value l = f.loadAt(f.f32(), total.sum, u);
      Value isEmpty = f.compare(arith::CmpFPredicate::OEQ, l, f.like(l, 0));
      factor = f.splat(f.select(isEmpty, f.like(l, 0), f.div(factor, l)));
      Value from = f.at(f.f32(), total.values, f.mul(u, paddedValue()));
      Value to = queryAt(rows, out, u, valueHead);
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
