// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rotary tables from expressions of their elements; see RopeMatch.h.
#include "compiler/raise/RopeMatch.h"

#include "compiler/support/WeightStore.h"
#include "dialects/onnx/InferShapes.h"

#include <cmath>

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;

/// All numbers of a constant or weight of rank 2, row-major.
static std::optional<std::vector<double>> readTable(Value table) {
  if (auto constant = dyn_cast_or_null<DenseElementsAttr>(onnx::constantValue(table))) {
    auto floats = onnx::floatElements(table);
    return floats ? std::optional(std::vector<double>(floats->begin(), floats->end()))
                  : std::nullopt;
  }
  auto &store = support::WeightStore::of(table.getContext());
  return store.readAsF64(onnx::weightName(table), support::WeightStore::kReadLimit);
}

/// How far a table of that type may be off: f32 by rounded angles (1e-5; more where long tables
/// lose angle bits), f16 and bf16 by half a unit of the type near 1.
static double tableTolerance(Value table, int64_t rows) {
  Type element = cast<RankedTensorType>(table.getType()).getElementType();
  if (element.isF16()) {
    return 6e-4;
  }
  if (element.isBF16()) {
    return 5e-3;
  }
  // An f32 angle near `rows` has an error of rows * 2^-24.
  return 1e-5 + static_cast<double>(rows) * 1.2e-7;
}

static std::optional<RopeTable> tableOfCaches(Value cosCache, Value sinCache, std::string &why) {
  auto type = cast<RankedTensorType>(cosCache.getType());
  auto cos = readTable(cosCache), sin = readTable(sinCache);
  if (!cos || !sin || type.getRank() != 2 || cosCache.getType() != sinCache.getType()) {
    why = "cos and sin tables can't be read as numbers of one shape";
    return std::nullopt;
  }
  int64_t rows = type.getDimSize(0);
  auto found = recoverFrequencies(*cos, *sin, rows, tableTolerance(cosCache, rows), why);
  if (!found) {
    return std::nullopt;
  }
  return RopeTable{{}, found->frequencies, found->scale, rows};
}

const RopeTable *RopeTables::matchCaches(Value cosCache, Value sinCache, Value positions,
                                         std::string &why) {
  for (auto &[key, table] : matched) {
    if (key == std::pair(cosCache, sinCache) && (!table || table->positions == positions)) {
      return table.get();
    }
  }
  std::optional<RopeTable> table = tableOfCaches(cosCache, sinCache, why);
  if (table) {
    table->positions = positions;
  }
  matched.emplace_back(std::pair(cosCache, sinCache),
                       table ? std::make_unique<RopeTable>(*table) : nullptr);
  return matched.back().second.get();
}

static bool isIntegerMatrix(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && isa<IntegerType>(type.getElementType());
}

Value sluicec::raise::tokenIds(func::FuncOp function) {
  for (Operation &op : function.getBody().front()) {
    if (auto embedding = dyn_cast<lm::EmbeddingOp>(op)) {
      return embedding.getIds();
    }
    onnx::NodeBinder node(&op); // before raise-embedding
    if (node.is("Gather") && node.attrInt("axis") == 0 && isa<BlockArgument>(node.operand(1)) &&
        isIntegerMatrix(node.operand(1)) && shapeOf(node.operand(0)).size() == 2) {
      return node.operand(1);
    }
  }
  return {};
}

/// The integer input that an element's position is: loaded at batch and token. Where the graph
/// counts tokens from its start or from the end of the past, as lm.padded_positions does for the
/// real ones, that.
static Value positionsOf(RaiseRewriter &rewriter, const SymbolicExpr &position,
                         const SymbolicExpr &batch, const SymbolicExpr &token) {
  bool counted = position == token;
  Value ids = tokenIds(rewriter.function), mask;
  for (BlockArgument argument : rewriter.function.getArguments()) {
    if (isIntegerMatrix(argument)) {
      if (position == loadAtom(argument, {batch, token})) {
        return argument;
      }
      mask = argument != ids ? Value(argument) : mask;
    }
    SymbolicShape shape = shapeOf(argument);
    counted = counted || (shape.size() == 4 && position == shape[2] + token);
  }
  return counted && ids && mask ? paddedPositions(rewriter, ids, mask, rewriter.function.getLoc())
                                : Value();
}

const RopeTable *RopeTables::match(Value cos, Value sin, std::string &why) {
  // Layout before the elements: per layer exporters unsqueeze one pair of values anew.
  for (auto &[key, table] : matched) {
    if (key == std::pair(cos, sin)) {
      return table.get();
    }
  }
  auto remember = [&](std::optional<RopeTable> table) {
    matched.emplace_back(std::pair(cos, sin),
                         table ? std::make_unique<RopeTable>(*table) : nullptr);
    return matched.back().second.get();
  };
  SymbolicShape shape = shapeOf(cos);
  std::optional<int64_t> width = shape.empty() ? std::nullopt : shape.back().asConstant();
  if (!width || shape.size() < 3 || shapeOf(sin).size() != shape.size()) {
    why = "cos and sin have no constant number of features";
    return remember(std::nullopt);
  }
  // Dimensions of size 1 (heads) aside, the value is [batch, tokens, features]; batch may be left
  // out as 1.
  SmallVector<SymbolicExpr> index(shape.size(), SymbolicExpr::constant(0));
  index[0] = indexAtom(0);
  size_t token = shape.size() - 2;
  while (token > 1 && shape[token].isConstant(1)) {
    --token;
  }
  index[token] = indexAtom(1);
  RopeTable result;
  SymbolicExpr position;
  Value cosTable, sinTable;
  SmallVector<double> angles;
  for (int64_t feature = 0; feature < *width; ++feature) {
    index.back() = SymbolicExpr::constant(feature);
    ElementExpr c = rewriter.expressions.element(cos, index),
                s = rewriter.expressions.element(sin, index);
    if (c.kind != ElementExpr::Kind::Real || s.kind != ElementExpr::Kind::Real) {
      why = "cos and sin are not functions of positions alone";
      return remember(std::nullopt);
    }
    bool computed = c.real.kind == RealExpr::Kind::Cosine && s.real.kind == RealExpr::Kind::Sine &&
                    c.real.angle == s.real.angle;
    bool looked = c.real.kind == RealExpr::Kind::Table && s.real.kind == RealExpr::Kind::Table &&
                  c.real.column == s.real.column;
    if ((!computed && !looked) || c.real.factor != s.real.factor ||
        !(c.real.integer == s.real.integer) || (feature > 0 && !(c.real.integer == position))) {
      why = "cos and sin are not those of one angle";
      return remember(std::nullopt);
    }
    position = c.real.integer;
    result.scale = c.real.factor;
    if (looked) {
      cosTable = c.real.table;
      sinTable = s.real.table;
      angles.push_back(static_cast<double>(c.real.column));
    } else {
      angles.push_back(c.real.angle);
    }
  }
  result.positions = positionsOf(rewriter, position, indexAtom(0), indexAtom(1));
  if (!result.positions) {
    why = "positions '" + position.str() +
          "' are neither an input of the graph nor counted from its past";
    return remember(std::nullopt);
  }
  // The second half repeats the first.
  size_t half = angles.size() / 2;
  if (angles.size() % 2 == 0 && half > 0 &&
      ArrayRef(angles).take_front(half) == ArrayRef(angles).drop_front(half)) {
    angles.resize(half);
  }
  if (!cosTable) {
    result.frequencies = angles;
    return remember(result);
  }
  std::optional<RopeTable> stored = tableOfCaches(cosTable, sinTable, why);
  if (!stored) {
    return remember(std::nullopt);
  }
  result.scale *= stored->scale;
  result.length = stored->length;
  for (double column : angles) {
    result.frequencies.push_back(stored->frequencies[static_cast<size_t>(column)]);
  }
  return remember(result);
}

RopeAngles RopeTables::emit(const RopeTable &table, Location loc) {
  for (auto &[known, angles] : emitted) {
    if (known.positions == table.positions && known.frequencies == table.frequencies &&
        known.scale == table.scale) {
      return angles;
    }
  }
  OpBuilder &builder = rewriter.builder;
  OpBuilder::InsertionGuard guard(builder);
  auto pairs = static_cast<int64_t>(table.frequencies.size());
  if (isa<BlockArgument>(table.positions)) {
    rewriter.setInsertionPointAfterWeights();
  } else {
    builder.setInsertionPointAfterValue(table.positions);
  }
  RankedTensorType type = rewriter.typeLike(table.positions, {pairs}, 0);
  auto op = lm::RopeTableOp::create(builder, loc, TypeRange{type, type}, table.positions,
                                    builder.getDenseF64ArrayAttr(table.frequencies),
                                    builder.getF64FloatAttr(table.scale));
  if (table.length > 0) {
    op->setAttr("lm.table_length", builder.getI64IntegerAttr(table.length));
  }
  RopeAngles angles{op.getCos(), op.getSin()};
  emitted.push_back({table, angles});
  return angles;
}

Value sluicec::raise::paddedPositions(RaiseRewriter &rewriter, Value ids, Value mask,
                                      Location loc) {
  for (Operation &op : rewriter.function.getBody().front()) {
    if (auto positions = dyn_cast<lm::PaddedPositionsOp>(op);
        positions && positions.getMask() == mask) {
      return positions;
    }
  }
  OpBuilder &builder = rewriter.builder;
  OpBuilder::InsertionGuard guard(builder);
  rewriter.setInsertionPointAfterWeights();
  SymbolicShape shape = shapeOf(ids);
  return lm::PaddedPositionsOp::create(builder, loc, onnx::rankedType(shape, builder.getI64Type()),
                                       ids, mask);
}
