// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views: one rule per layout operator, and the questions that patterns ask.
#include "compiler/raise/TensorView.h"

#include "compiler/raise/NodeMatch.h"
#include "dialects/onnx/InferShapes.h"
#include "dialects/onnx/NodeBinder.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

using Pieces = SmallVector<ViewPiece, 2>;

SymbolicExpr one() { return SymbolicExpr::constant(1); }

bool isOne(const SymbolicExpr &size) { return size.isConstant(1); }

TensorView identityView(Value value) {
  TensorView view;
  view.base = value;
  SymbolicShape shape = shapeOf(value);
  for (auto [index, size] : llvm::enumerate(shape)) {
    Pieces pieces;
    if (!isOne(size)) {
      pieces.push_back({static_cast<int64_t>(index), one(), size});
    }
    view.dims.push_back(pieces);
  }
  view.offsets.assign(shape.size(), 0);
  return view;
}

/// Joins pieces that walk on where the one inside them ends.
void mergePieces(Pieces &pieces) {
  Pieces merged;
  for (const ViewPiece &piece : pieces) {
    if (isOne(piece.size)) {
      continue;
    }
    if (!merged.empty()) {
      ViewPiece &outer = merged.back();
      bool repeats = outer.isRepeat() && piece.isRepeat();
      bool contiguous =
          !outer.isRepeat() && outer.dim == piece.dim && outer.stride == piece.stride * piece.size;
      if (repeats || contiguous) {
        outer = {piece.dim, piece.stride, outer.size * piece.size};
        continue;
      }
    }
    merged.push_back(piece);
  }
  pieces = std::move(merged);
}

/// Groups the pieces anew so that the dimensions have the sizes `shape`, splitting pieces where
/// needed.
std::optional<TensorView> regroup(const TensorView &view, ArrayRef<SymbolicExpr> shape) {
  SmallVector<ViewPiece, 8> queue = view.pieces();
  std::reverse(queue.begin(), queue.end()); // the next piece is at the back
  TensorView result;
  result.base = view.base;
  result.offsets = view.offsets;
  result.scale = view.scale;
  for (const SymbolicExpr &size : shape) {
    Pieces pieces;
    SymbolicExpr rest = size; // what is still to be covered
    while (!isOne(rest)) {
      if (queue.empty() || rest.isUnknown()) {
        return std::nullopt;
      }
      ViewPiece piece = queue.pop_back_val();
      if (piece.size == rest) {
        pieces.push_back(piece);
        rest = one();
      } else if (SymbolicExpr more = rest.exactDiv(piece.size); !more.isUnknown()) {
        pieces.push_back(piece);
        rest = more;
      } else if (SymbolicExpr inner = piece.size.exactDiv(rest); !inner.isUnknown()) {
        pieces.push_back({piece.dim, piece.isRepeat() ? one() : piece.stride * inner, rest});
        queue.push_back({piece.dim, piece.stride, inner});
        rest = one();
      } else {
        return std::nullopt;
      }
    }
    mergePieces(pieces);
    result.dims.push_back(pieces);
  }
  if (!queue.empty()) {
    return std::nullopt;
  }
  return result;
}

std::optional<TensorView> transposed(TensorView view, const NodeBinder &node) {
  size_t rank = view.dims.size();
  SmallVector<int64_t> perm;
  if (auto given = node.attrInts("perm")) {
    perm.assign(given->begin(), given->end());
  } else {
    for (size_t i = rank; i > 0; --i) {
      perm.push_back(static_cast<int64_t>(i) - 1);
    }
  }
  if (perm.size() != rank) {
    return std::nullopt;
  }
  TensorView result = view;
  for (size_t i = 0; i < rank; ++i) {
    result.dims[i] = view.dims[static_cast<size_t>(perm[i])];
  }
  return result;
}

/// Repeats dimensions of size 1 up to `shape`; new dimensions come in front.
std::optional<TensorView> expanded(TensorView view, ArrayRef<SymbolicExpr> from,
                                   ArrayRef<SymbolicExpr> shape) {
  if (from.size() > shape.size() || from.size() != view.dims.size()) {
    return std::nullopt;
  }
  size_t added = shape.size() - from.size();
  TensorView result = view;
  result.dims.clear();
  for (auto [index, size] : llvm::enumerate(shape)) {
    if (index >= added && size == from[index - added]) {
      result.dims.push_back(view.dims[index - added]);
    } else if (index < added || isOne(from[index - added])) {
      result.dims.push_back({{-1, one(), size}});
      mergePieces(result.dims.back());
    } else {
      return std::nullopt;
    }
  }
  return result;
}

/// Repeats whole dimensions; the copies stand outside.
std::optional<TensorView> tiled(TensorView view, const NodeBinder &node) {
  auto repeats = node.constantInts(1);
  if (!repeats || repeats->size() != view.dims.size()) {
    return std::nullopt;
  }
  for (auto [pieces, count] : llvm::zip(view.dims, *repeats)) {
    pieces.insert(pieces.begin(), {-1, one(), SymbolicExpr::constant(count)});
    mergePieces(pieces);
  }
  return view;
}

/// Keeps `count` elements of dimension `axis` from `start` in steps of `step`.
bool restrict(TensorView &view, size_t axis, int64_t start, int64_t step, int64_t count) {
  Pieces &pieces = view.dims[axis];
  if (pieces.size() > 1 || (pieces.empty() && start != 0)) {
    return false;
  }
  if (pieces.empty()) {
    return count == 1;
  }
  ViewPiece &piece = pieces.front();
  if (!piece.isRepeat()) {
    std::optional<int64_t> stride = piece.stride.asConstant();
    if (!stride) {
      return false;
    }
    view.offsets[static_cast<size_t>(piece.dim)] += start * *stride;
    piece.stride = SymbolicExpr::constant(*stride * step);
  }
  piece.size = SymbolicExpr::constant(count);
  mergePieces(pieces);
  return true;
}

std::optional<TensorView> sliced(TensorView view, const NodeBinder &node,
                                 ArrayRef<SymbolicExpr> from, ArrayRef<SymbolicExpr> shape) {
  auto starts = node.constantInts(1), ends = node.constantInts(2);
  auto axes = node.operand(3) ? node.constantInts(3) : std::nullopt;
  auto steps = node.operand(4) ? node.constantInts(4) : std::nullopt;
  if (!starts || !ends || (node.operand(3) && !axes) || (node.operand(4) && !steps)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t axis = axes ? (*axes)[i] : static_cast<int64_t>(i);
    axis = axis < 0 ? axis + static_cast<int64_t>(from.size()) : axis;
    int64_t step = steps ? (*steps)[i] : 1, start = (*starts)[i];
    auto position = static_cast<size_t>(axis);
    if (position >= from.size() || step < 1) {
      return std::nullopt;
    }
    if (from[position] == shape[position] && start == 0 && step == 1) {
      continue;
    }
    std::optional<int64_t> size = from[position].asConstant(), count = shape[position].asConstant();
    if (!size || !count) {
      return std::nullopt;
    }
    start = std::clamp<int64_t>(start < 0 ? start + *size : start, 0, *size);
    if (*count < 1 || !restrict(view, position, start, step, *count)) {
      return std::nullopt;
    }
  }
  return view;
}

std::optional<TensorView> splitPart(TensorView view, const NodeBinder &node, Value value) {
  SymbolicShape from = shapeOf(node.operand(0));
  int64_t axis = node.attrInt("axis");
  auto position = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(from.size()) : axis);
  int64_t start = 0;
  for (unsigned i = 0, e = cast<OpResult>(value).getResultNumber(); i <= e; ++i) {
    SymbolicShape part = shapeOf(node.op()->getResult(i));
    std::optional<int64_t> count =
        position < part.size() ? part[position].asConstant() : std::nullopt;
    if (!count) {
      return std::nullopt;
    }
    if (i == e) {
      return restrict(view, position, start, 1, *count) ? std::optional(view) : std::nullopt;
    }
    start += *count;
  }
  return std::nullopt;
}

/// Gather of one constant index takes a dimension away.
std::optional<TensorView> picked(TensorView view, const NodeBinder &node) {
  std::optional<int64_t> index = node.constantInt(1);
  SymbolicShape from = shapeOf(node.operand(0));
  if (!index || !shapeOf(node.operand(1)).empty()) {
    return std::nullopt;
  }
  int64_t axis = node.attrInt("axis");
  auto position = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(from.size()) : axis);
  std::optional<int64_t> size = from[position].asConstant();
  if (*index < 0 && !size) {
    return std::nullopt;
  }
  int64_t start = *index < 0 ? *index + *size : *index;
  if (!restrict(view, position, start, 1, 1)) {
    return std::nullopt;
  }
  view.dims.erase(view.dims.begin() + static_cast<ptrdiff_t>(position));
  return view;
}

bool sameKind(Type a, Type b) {
  auto integral = [](Type t) { return isa<IntegerType>(t) && !t.isInteger(1); };
  return a == b || (isa<FloatType>(a) && isa<FloatType>(b)) || (integral(a) && integral(b));
}

/// The only number of a constant float tensor of one element.
std::optional<double> oneNumber(Value value) {
  auto elements = onnx::floatElements(value);
  return elements && elements->size() == 1 ? std::optional(elements->front()) : std::nullopt;
}

} // namespace

SymbolicShape sluicec::raise::shapeOf(Value value) {
  if (auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType()) {
    return onnx::factsOfType(type).shape.value_or(SymbolicShape());
  }
  return {};
}

bool TensorView::isIdentity() const {
  if (scale != 1.0 || dims.size() != offsets.size()) {
    return false;
  }
  TensorView same = identityView(base);
  return same.dims == dims && llvm::all_of(offsets, [](int64_t offset) { return offset == 0; });
}

SmallVector<ViewPiece, 8> TensorView::pieces() const {
  SmallVector<ViewPiece, 8> all;
  for (const auto &dim : dims) {
    all.append(dim.begin(), dim.end());
  }
  return all;
}

const TensorView &TensorViews::of(Value value) {
  if (auto found = known.find(value); found != known.end()) {
    return *found->second;
  }
  auto view = std::make_unique<TensorView>(derive(value).value_or(identityView(value)));
  return *(known[value] = std::move(view));
}

std::optional<TensorView> TensorViews::derive(Value value) {
  NodeBinder node(value);
  if (!node || !node.op().getDomain().empty() || node.numOperands() == 0 || !node.operand(0)) {
    return std::nullopt;
  }
  StringRef type = node.op().getOpType();
  auto rankedResult = dyn_cast<RankedTensorType>(value.getType());
  auto rankedOperand = dyn_cast<RankedTensorType>(node.operand(0).getType());
  if (!rankedResult || !rankedOperand) {
    return std::nullopt;
  }
  if (type == "Identity" ||
      (type == "Cast" && sameKind(rankedResult.getElementType(), rankedOperand.getElementType()))) {
    return of(node.operand(0));
  }
  if (type == "Reshape" || type == "Squeeze" || type == "Unsqueeze" || type == "Flatten") {
    if (!hasKnownAxes(node)) {
      return std::nullopt;
    }
    return regroup(of(node.operand(0)), shapeOf(value));
  }
  if (type == "Transpose") {
    return transposed(of(node.operand(0)), node);
  }
  if (type == "Expand") {
    return expanded(of(node.operand(0)), shapeOf(node.operand(0)), shapeOf(value));
  }
  if (type == "Tile") {
    return tiled(of(node.operand(0)), node);
  }
  if (type == "Slice") {
    return sliced(of(node.operand(0)), node, shapeOf(node.operand(0)), shapeOf(value));
  }
  if (type == "Split") {
    return splitPart(of(node.operand(0)), node, value);
  }
  if (type == "Gather") {
    return picked(of(node.operand(0)), node);
  }
  if (throughScale && (type == "Mul" || type == "Div")) {
    std::optional<double> right = oneNumber(node.operand(1));
    std::optional<double> left = type == "Mul" ? oneNumber(node.operand(0)) : std::nullopt;
    Value scaled = right ? node.operand(0) : node.operand(1);
    if ((left || right) && shapeOf(scaled).size() == static_cast<size_t>(rankedResult.getRank())) {
      TensorView view = of(scaled);
      view.scale *= type == "Div" ? 1.0 / *right : right ? *right : *left;
      return view;
    }
  }
  return std::nullopt;
}

std::optional<RowsView> TensorViews::rows(Value value) {
  const TensorView &view = of(value);
  SymbolicShape base = shapeOf(view.base);
  if (base.empty() || view.dims.empty() || view.scale != 1.0) {
    return std::nullopt;
  }
  size_t last = base.size() - 1;
  std::optional<int64_t> features = base[last].asConstant();
  if (!features) {
    return std::nullopt;
  }
  RowsView rows{view.base, 1, view.offsets[last], 1, 1, *features};
  SmallVector<ViewPiece, 8> pieces = view.pieces();
  // A trailing dimension of size 1 may follow the features ([N, F, 1]).
  if (!pieces.empty() && pieces.back().dim == static_cast<int64_t>(last)) {
    std::optional<int64_t> count = pieces.back().size.asConstant();
    std::optional<int64_t> stride = pieces.back().stride.asConstant();
    if (!count || !stride) {
      return std::nullopt;
    }
    rows.count = *count;
    rows.stride = *stride;
    pieces.pop_back();
  }
  if (!pieces.empty() && pieces.back().isRepeat()) {
    std::optional<int64_t> repeats = pieces.back().size.asConstant();
    if (!repeats) {
      return std::nullopt;
    }
    rows.repeats = *repeats;
    pieces.pop_back();
  }
  // The rest must be the leading dimensions, whole and in order.
  size_t next = 0;
  for (size_t dim = 0; dim < last; ++dim) {
    if (isOne(base[dim])) {
      continue;
    }
    if (next == pieces.size() ||
        !(pieces[next] == ViewPiece{static_cast<int64_t>(dim), one(), base[dim]})) {
      return std::nullopt;
    }
    ++next;
  }
  return next == pieces.size() ? std::optional(rows) : std::nullopt;
}

std::optional<HeadsView> TensorViews::heads(Value value) {
  const TensorView &view = of(value);
  SymbolicShape base = shapeOf(view.base), shape = shapeOf(value);
  if (base.size() != 3 || view.dims.size() != 4) {
    return std::nullopt;
  }
  TensorView same = identityView(view.base);
  for (bool tokensFirst : {false, true}) {
    size_t tokens = tokensFirst ? 1 : 2, heads = tokensFirst ? 2 : 1;
    if (!(view.dims[0] == same.dims[0] && view.dims[tokens] == same.dims[1])) {
      continue;
    }
    std::optional<int64_t> count = shape[heads].asConstant(), size = shape[3].asConstant(),
                           features = base[2].asConstant();
    if (!count || !size || !features) {
      return std::nullopt;
    }
    auto strideOf = [](const Pieces &pieces, int64_t steps) -> std::optional<int64_t> {
      if (pieces.size() != 1 || pieces[0].dim != 2 || !pieces[0].size.isConstant(steps)) {
        return std::nullopt;
      }
      return pieces[0].stride.asConstant();
    };
    std::optional<int64_t> inner = *size == 1 ? 1 : strideOf(view.dims[3], *size);
    std::optional<int64_t> outer = *count == 1 ? *size : strideOf(view.dims[heads], *count);
    bool empty = (*count != 1 || view.dims[heads].empty()) && (*size != 1 || view.dims[3].empty());
    if (empty && inner == 1 && outer && *outer >= *size) {
      return HeadsView{view.base,       *count,    *size,       *outer,
                       view.offsets[2], *features, tokensFirst, view.scale};
    }
  }
  return std::nullopt;
}

std::optional<CacheView> TensorViews::cache(Value value) {
  const TensorView &view = of(value);
  SymbolicShape base = shapeOf(view.base), shape = shapeOf(value);
  if (view.dims.size() != 4 || (base.size() != 4 && base.size() != 3)) {
    return std::nullopt;
  }
  TensorView same = identityView(view.base);
  CacheView cache;
  cache.base = view.base;
  cache.scale = view.scale;
  cache.flat = base.size() == 3;
  // The heads' dimension shows each head `repeats` times.
  Pieces heads = view.dims[1];
  if (!heads.empty() && heads.back().isRepeat()) {
    std::optional<int64_t> repeats = heads.back().size.asConstant();
    if (!repeats) {
      return std::nullopt;
    }
    cache.repeats = *repeats;
    heads.pop_back();
  }
  const Pieces &tokens = same.dims[cache.flat ? 1 : 2];
  if (!(view.dims[0] == same.dims[0]) || (!(view.dims[2] == tokens) && !(view.dims[3] == tokens))) {
    return std::nullopt;
  }
  cache.transposed = view.dims[3] == tokens;
  const Pieces &features = view.dims[cache.transposed ? 2 : 3];
  std::optional<int64_t> size = shape[cache.transposed ? 2 : 3].asConstant(),
                         all = shape[1].asConstant();
  if (!size || !all) {
    return std::nullopt;
  }
  cache.size = *size;
  cache.heads = *all / cache.repeats;
  if (!cache.flat) {
    bool whole = heads == same.dims[1] && features == same.dims[3] &&
                 llvm::all_of(view.offsets, [](int64_t offset) { return offset == 0; });
    return whole ? std::optional(cache) : std::nullopt;
  }
  auto walks = [](const Pieces &pieces, int64_t stride, int64_t steps) {
    return steps == 1 ? pieces.empty()
                      : pieces.size() == 1 && pieces[0].dim == 2 &&
                            pieces[0].stride.isConstant(stride) && pieces[0].size.isConstant(steps);
  };
  cache.offset = view.offsets[2];
  bool whole = walks(heads, cache.size, cache.heads) && walks(features, 1, cache.size) &&
               view.offsets[0] == 0 && view.offsets[1] == 0;
  return whole ? std::optional(cache) : std::nullopt;
}
