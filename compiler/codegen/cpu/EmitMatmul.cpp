// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of matmul and grouped_matmul: rows times one weight panel at a time.
//
// Bit rule 1 of design.md 4: an output element is sum over k ascending of one f32 FMA each,
// starting from +0, whatever the number of rows, the tile, the target. So vectors run across output
// columns, K may be cut into chunks only by storing the accumulators and loading them again, and
// the micro-kernels for 1, 2, 4 and 6 rows are one loop.
#include "compiler/codegen/cpu/Templates.h"
#include "compiler/codegen/cpu/VectorMath.h"

using namespace mlir;

namespace sluicec::cpu {

namespace {

/// k steps that one pass over a tile's rows takes: an f32 panel of 64 columns stays in the
/// first-level cache.
constexpr int64_t kChunk = 128;
/// At most so many rows are bound by memory: weights are read as they lie, and fetched just ahead
/// of the k loop. With more, a chunk of 16-bit weights is extended to f32 once instead of per row
/// group, and the next chunk is fetched meanwhile.
constexpr int64_t kFewRows = 12;
/// How far ahead of the k loop the weights of few rows are fetched.
constexpr int64_t kAheadBytes = 2048;

/// What a panel product needs to know; `n` are output columns, of which a panel gives `outWidth`.
struct PanelShape {
  int64_t n = 0, k = 0, width = 0;
  Type weightType; ///< f32, f16, bf16
  lm::GatedActivationAttr gated;

  int64_t outWidth() const { return gated ? width / 2 : width; }
  int64_t panels() const { return (n + outWidth() - 1) / outWidth(); }
};

/// Where a tile's rows lie. `x` gives the address of row i of the tile, `out` its output row's
/// number.
struct TileRows {
  Value count; ///< 1 .. tile, i64
  llvm::function_ref<Value(Value i)> x;
  llvm::function_ref<Value(Value i)> out;
};

/// Addresses of f32 tensors added at the end: bias [n] or [2n], residual [rows, n]. May be null.
struct Epilogue {
  Value bias, residual, out;
};

class PanelProduct {
public:
  PanelProduct(KernelFrame &f, PanelShape shape, int64_t tile)
      : f(f), shape(shape), sums(f.scratch(tile * shape.width * 4)) {
    if (!shape.weightType.isF32() && tile > kFewRows) {
      extended = f.scratch(kChunk * shape.width * 4);
    }
  }

  /// Rows x one panel [k, width] at `panel`, whose number among the panels is `panelIndex`.
  void emit(Value panel, Value panelIndex, const TileRows &rows, const Epilogue &epilogue) {
    clearSums(rows.count);
    Value isSingle = f.compare(arith::CmpIPredicate::eq, rows.count, f.index(1));
    auto branch = scf::IfOp::create(f, isSingle, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(f);
      f.setInsertionPointToStart(branch.thenBlock());
      Slice all{panel, f.index(0), f.index(shape.k), shape.weightType, Value(), Value()};
      rowGroup(1, f.index(0), all, rows);
      f.setInsertionPointToStart(branch.elseBlock());
      manyRows(panel, rows);
    }
    finish(panelIndex, rows, epilogue);
  }

private:
  /// Weights of k in [begin, begin + length), the first at `weights`.
  struct Slice {
    Value weights, begin, length;
    Type type;
    Value next; ///< the chunk behind this one, to be fetched by all row groups together; null with
                ///< few rows
    Value nextStep; ///< bytes of it per k step of a row group
  };

  KernelFrame &f;
  PanelShape shape;
  Value sums;     // [tile, width] f32
  Value extended; // [kChunk, width] f32, or null

  Value sumAt(Value row, int64_t column) {
    return f.at(f.f32(), sums, f.add(f.mul(row, shape.width), column));
  }

  void clearSums(Value rows) {
    Value zero = f.zeros(f.vec(f.f32()));
    f.loop(f.index(0), f.mul(rows, shape.width), kLanes,
           [&](Value i) { f.store(zero, f.at(f.f32(), sums, i), 64); });
  }

  void manyRows(Value panel, const TileRows &rows) {
    f.loop(0, shape.k, kChunk, [&](Value begin) {
      Value length = f.minInt(f.index(kChunk), f.sub(f.index(shape.k), begin));
      Value chunk = f.at(shape.weightType, panel, f.mul(begin, shape.width));
      Value isLong = f.compare(arith::CmpIPredicate::sgt, rows.count, f.index(kFewRows));
      auto branch = scf::IfOp::create(f, isLong, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(f);
      f.setInsertionPointToStart(branch.thenBlock());
      Slice slice{chunk, begin, length, shape.weightType, Value(), Value()};
      slice.next = f.at(shape.weightType, chunk, kChunk * shape.width);
      Value groups = f.ceilDiv(rows.count, 6);
      slice.nextStep = f.div(f.index(shape.width * f.bytesOf(shape.weightType)), groups);
      if (extended) {
        extendChunk(chunk, length);
        slice.weights = extended;
        slice.type = f.f32();
      }
      rowGroups(slice, rows);
      f.setInsertionPointToStart(branch.elseBlock());
      rowGroups({chunk, begin, length, shape.weightType, Value(), Value()}, rows);
    });
  }

  void extendChunk(Value chunk, Value length) {
    f.loop(f.index(0), f.mul(length, shape.width), shape.width, [&](Value i) {
      for (int64_t v = 0; v < shape.width; v += kLanes) {
        Value offset = f.add(i, v);
        Value w = f.load(f.vec(shape.weightType), f.at(shape.weightType, chunk, offset), 32);
        f.store(f.extend(w), f.at(f.f32(), extended, offset), 64);
      }
    });
  }

  /// All rows of the tile: sixes, then what is left as 4 + 2 + 1.
  void rowGroups(const Slice &slice, const TileRows &rows) {
    Value rest = f.rem(rows.count, 6);
    Value done = f.sub(rows.count, rest);
    f.loop(f.index(0), done, 6, [&](Value row) { rowGroup(6, row, slice, rows); });
    for (int64_t group : {4, 2, 1}) {
      Value has = f.both(rest, f.index(group));
      f.ifThen(f.compare(arith::CmpIPredicate::ne, has, f.index(0)),
               [&] { rowGroup(group, done, slice, rows); });
      done = f.add(done, has);
    }
  }

  /// Columns that a micro-kernel of `group` rows takes at once, so that its sums and weights fit
  /// the registers.
  int64_t columnsAtOnce(int64_t group) const {
    int64_t wanted = f.target.vectorBits == 512 || group == 1 ? 64 : group == 2 ? 32 : kLanes;
    while (shape.width % wanted != 0) {
      wanted /= 2;
    }
    return wanted;
  }

  /// sums[row .. row + group) += x * slice. One chain per output element.
  void rowGroup(int64_t group, Value row, const Slice &slice, const TileRows &rows) {
    SmallVector<Value> x;
    for (int64_t r = 0; r < group; ++r) {
      x.push_back(f.at(f.f32(), rows.x(f.add(row, r)), slice.begin));
    }
    int64_t columns = columnsAtOnce(group);
    if (columns == shape.width) {
      microKernel(x, row, f.index(0), slice);
    } else {
      f.loop(0, shape.width, columns, [&](Value column) { microKernel(x, row, column, slice); });
    }
  }

  void microKernel(ArrayRef<Value> x, Value row, Value column, const Slice &slice) {
    int64_t group = static_cast<int64_t>(x.size()), vectors = columnsAtOnce(group) / kLanes;
    SmallVector<Value> addresses, carried;
    for (int64_t r = 0; r < group; ++r) {
      for (int64_t v = 0; v < vectors; ++v) {
        addresses.push_back(f.at(f.f32(), sumAt(f.add(row, r), v * kLanes), column));
        carried.push_back(f.load(f.vec(f.f32()), addresses.back(), 64));
      }
    }
    Value first = f.at(slice.type, slice.weights, column);
    int64_t alignment = f.bytesOf(slice.type) * kLanes;
    // Each row group fetches its part of the next chunk.
    Value fetch = slice.next ? f.at(f.getI8Type(), slice.next,
                                    f.mul(f.mul(f.div(row, 6), kChunk), slice.nextStep))
                             : Value();
    carried = f.loop(f.index(0), slice.length, 1, carried, [&](Value k, ValueRange sum) {
      Value line = f.at(slice.type, first, f.mul(k, shape.width));
      if (fetch) {
        f.prefetch(f.at(f.getI8Type(), fetch, f.mul(k, slice.nextStep)), /*level=*/2);
      } else {
        fetchAhead(line, columnsAtOnce(group) * f.bytesOf(slice.type));
      }
      SmallVector<Value> weights, next;
      for (int64_t v = 0; v < vectors; ++v) {
        weights.push_back(
            f.extend(f.load(f.vec(slice.type), f.at(slice.type, line, v * kLanes), alignment)));
      }
      for (int64_t r = 0; r < group; ++r) {
        Value factor = f.splat(f.loadAt(f.f32(), x[r], k));
        for (int64_t v = 0; v < vectors; ++v) {
          next.push_back(f.fma(factor, weights[v], sum[r * vectors + v]));
        }
      }
      return next;
    });
    for (auto [value, address] : llvm::zip(carried, addresses)) {
      f.store(value, address, 64);
    }
  }

  void fetchAhead(Value line, int64_t bytes) {
    for (int64_t offset = 0; offset < bytes; offset += 64) {
      f.prefetch(f.at(f.getI8Type(), line, kAheadBytes + offset), /*level=*/1);
    }
  }

  /// Bias, gate, residual; stores columns below n.
  void finish(Value panelIndex, const TileRows &rows, const Epilogue &epilogue) {
    Value firstColumn = f.mul(panelIndex, shape.outWidth());
    f.loop(f.index(0), rows.count, 1, [&](Value row) {
      Value outRow = f.mul(rows.out(row), shape.n);
      for (int64_t c = 0; c < shape.outWidth(); c += kLanes) {
        finishVector(row, outRow, c, f.add(firstColumn, c), epilogue);
      }
    });
  }

  void finishVector(Value row, Value outRow, int64_t c, Value column, const Epilogue &epilogue) {
    bool masked = shape.n % shape.outWidth() != 0;
    Value mask;
    if (masked) {
      Value left = f.toI32(f.minInt(f.sub(f.index(shape.n), column), f.index(kLanes)));
      mask = f.compare(arith::CmpIPredicate::slt, f.iota(), f.splat(left));
    }
    auto read = [&](Value base, Value offset) {
      Value address = f.at(f.f32(), base, offset);
      return masked ? f.loadMasked(f.f32(), address, mask) : f.loadLanes(f.f32(), address);
    };
    Value v = f.load(f.vec(f.f32()), sumAt(row, c), 64);
    if (epilogue.bias) {
      v = f.add(v, read(epilogue.bias, column));
    }
    if (shape.gated) {
      Value up = f.load(f.vec(f.f32()), sumAt(row, c + shape.outWidth()), 64);
      if (epilogue.bias) {
        up = f.add(up, read(epilogue.bias, f.add(column, shape.n)));
      }
      v = emitGated(f, shape.gated, v, up);
    }
    Value offset = f.add(outRow, column);
    if (epilogue.residual) {
      v = f.add(v, read(epilogue.residual, offset));
    }
    Value address = f.at(f.f32(), epilogue.out, offset);
    masked ? f.storeMasked(v, address, mask) : f.storeLanes(v, address);
  }
};

template <typename Op> FailureOr<PanelShape> panelShape(Op op, KernelFrame &f) {
  PanelShape shape{op.getN(), op.getK(), op.getLayout().getWidth(),
                   KernelFrame::elementOf(op.getWeight()), op.getGatedAttr()};
  int64_t multiple = shape.gated ? 2 * kLanes : kLanes;
  if (shape.width % multiple != 0) {
    return op.emitOpError() << "has panels of width " << shape.width << ", expected a multiple of "
                            << multiple << " for CPU code";
  }
  if (!shape.weightType.isF32() && !shape.weightType.isF16() && !shape.weightType.isBF16()) {
    return op.emitOpError() << "has a weight of " << shape.weightType
                            << ", expected f32, f16 or bf16 for CPU code";
  }
  if (f.kernel.getGrid().size() != 2) {
    return op.emitOpError("expected a grid of row tiles and panels for CPU code");
  }
  return shape;
}

} // namespace

LogicalResult emitTemplate(kernel::MatmulOp op, KernelFrame &f) {
  FailureOr<PanelShape> shape = panelShape(op, f);
  if (failed(shape)) {
    return failure();
  }
  int64_t tile = f.gridDim(0).getTile(), panelElements = shape->k * shape->width;
  PanelProduct product(f, *shape, tile);
  Value x = f.buffer(op.getX()), weight = f.buffer(op.getWeight()), extent = f.gridExtent(0);
  Epilogue epilogue{f.buffer(op.getBias()), f.buffer(op.getResidual()), f.buffer(op.getOut())};
  f.forCells([&](Value cell) {
    Value panel = f.rem(cell, shape->panels());
    Value first = f.mul(f.div(cell, shape->panels()), tile);
    auto xRow = [&](Value i) { return f.at(f.f32(), x, f.mul(f.add(first, i), shape->k)); };
    auto outRow = [&](Value i) { return f.add(first, i); };
    TileRows rows{f.minInt(f.index(tile), f.sub(extent, first)), xRow, outRow};
    product.emit(f.at(shape->weightType, weight, f.mul(panel, panelElements)), panel, rows,
                 epilogue);
  });
  return success();
}

namespace {

/// Walks the row tiles of grouped_matmul: tile number -> (expert, its first choice in `order`).
struct ExpertTiles {
  KernelFrame &f;
  Value starts; ///< [E + 1] i32
  int64_t experts, tile;

  Value start(Value expert) { return f.toI64(f.loadAt(f.i32(), starts, expert)); }
  Value rowsOf(Value expert) { return f.sub(start(f.add(expert, 1)), start(expert)); }
  Value tilesOf(Value expert) { return f.ceilDiv(rowsOf(expert), tile); }

  /// Of all experts together.
  Value total() {
    Value none = f.index(0);
    return f.loop(none, f.index(experts), 1, {none}, [&](Value e, ValueRange sum) {
      return SmallVector<Value>{f.add(sum[0], tilesOf(e))};
    })[0];
  }

  /// Goes on from (expert, number of tiles before it) to the expert that holds tile `number` of
  /// total().
  SmallVector<Value> find(ValueRange from, Value number) {
    auto goesOn = [&](ValueRange at) -> Value {
      return f.compare(arith::CmpIPredicate::sle, f.add(at[1], tilesOf(at[0])), number);
    };
    return f.loopWhile(from, goesOn, [&](ValueRange at) {
      return SmallVector<Value>{f.add(at[0], 1), f.add(at[1], tilesOf(at[0]))};
    });
  }
};

} // namespace

LogicalResult emitTemplate(kernel::GroupedMatmulOp op, KernelFrame &f) {
  FailureOr<PanelShape> shape = panelShape(op, f);
  if (failed(shape)) {
    return failure();
  }
  int64_t tile = f.gridDim(0).getTile(), panels = shape->panels();
  int64_t panelElements = shape->k * shape->width,
          biasPerExpert = shape->n * (shape->gated ? 2 : 1);
  PanelProduct product(f, *shape, tile);
  Value x = f.buffer(op.getX()), weight = f.buffer(op.getWeight()), order = f.buffer(op.getOrder());
  Value bias = f.buffer(op.getBias()), out = f.buffer(op.getOut());
  ExpertTiles tiles{f, f.buffer(op.getStarts()), op.getExperts(), tile};
  // The grid has as many cells as there may be tiles of panels; only the experts' rows tell how
  // many there are. Those are shared out evenly: cells [begin, end) of n do [begin, end) * work /
  // n. So no thread is left with empty cells.
  Value cells = f.mul(f.ceilDiv(f.gridExtent(0), tile), panels),
        work = f.mul(tiles.total(), panels);
  Value workBegin = f.div(f.mul(f.cellBegin(), work), cells);
  Value workEnd = f.div(f.mul(f.cellEnd(), work), cells);
  // Row tiles outside, panels inside: an expert is looked for once per row tile.
  Value firstTile = f.div(workBegin, panels), endTile = f.ceilDiv(workEnd, panels);
  SmallVector<Value> walk{f.index(0), f.index(0)};
  f.loop(firstTile, endTile, 1, walk, [&](Value number, ValueRange from) {
    SmallVector<Value> found = tiles.find(from, number);
    Value expert = found[0], base = f.mul(number, panels);
    Value begin = f.maxInt(f.sub(workBegin, base), f.index(0));
    Value end = f.minInt(f.sub(workEnd, base), f.index(panels));
    Value first = f.mul(f.sub(number, found[1]), tile);
    Value choices = f.at(f.i32(), order, f.add(tiles.start(expert), first));
    auto choice = [&](Value i) { return f.toI64(f.loadAt(f.i32(), choices, i)); };
    auto xRow = [&](Value i) {
      Value row = op.getPerChoice() ? choice(i) : f.div(choice(i), op.getTopK());
      return f.at(f.f32(), x, f.mul(row, shape->k));
    };
    TileRows rows{f.minInt(f.index(tile), f.sub(tiles.rowsOf(expert), first)), xRow, choice};
    Epilogue epilogue{bias ? f.at(f.f32(), bias, f.mul(expert, biasPerExpert)) : Value(), Value(),
                      out};
    f.loop(begin, end, 1, [&](Value panel) {
      Value at = f.mul(f.add(f.mul(expert, panels), panel), panelElements);
      product.emit(f.at(shape->weightType, weight, at), panel, rows, epilogue);
    });
    return found;
  });
  return success();
}

} // namespace sluicec::cpu
