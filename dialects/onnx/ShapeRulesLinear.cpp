// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inference rules of matrix products, normalisations, attention and mixture-of-experts operators.
#include "dialects/onnx/ElementTypes.h"
#include "dialects/onnx/ShapeRules.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace sluicec::onnx;
using namespace sluicec::onnx::rules;

static SymbolicExpr number(int64_t value) { return SymbolicExpr::constant(value); }

// Error where two sizes are different numbers.
static LogicalResult requireSameSize(InferContext &c, const SymbolicExpr &found,
                                     const SymbolicExpr &expected, llvm::StringRef what) {
  std::optional<int64_t> a = found.asConstant();
  std::optional<int64_t> b = expected.asConstant();
  if (a && b && *a != *b) {
    return c.error() << what << " is " << *a << ", expected " << *b;
  }
  return success();
}

// a @ b with numpy broadcasting of the leading dimensions, after optional transposes of the last
// two.
static LogicalResult inferMatMul(InferContext &c, std::optional<SymbolicShape> a,
                                 std::optional<SymbolicShape> b, Type type) {
  if (!a || !b) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  if (a->empty() || b->empty()) {
    return c.error() << "operand " << (a->empty() ? 0 : 1) << " is a scalar, expected a matrix";
  }
  bool aVector = a->size() == 1;
  bool bVector = b->size() == 1;
  if (aVector) {
    a->insert(a->begin(), number(1));
  }
  if (bVector) {
    b->push_back(number(1));
  }
  SymbolicExpr innerA = a->back();
  SymbolicExpr innerB = (*b)[b->size() - 2];
  if (failed(requireSameSize(c, innerB, innerA, "the second last dimension of operand 1"))) {
    return failure();
  }
  auto batch = broadcastShapes(c, SymbolicShape(a->begin(), a->end() - 2),
                               SymbolicShape(b->begin(), b->end() - 2));
  if (failed(batch)) {
    return failure();
  }
  SymbolicShape shape = **batch;
  if (!aVector) {
    shape.push_back((*a)[a->size() - 2]);
  }
  if (!bVector) {
    shape.push_back(b->back());
  }
  c.setResult(0, type, shape);
  return success();
}

static void swapLastTwo(std::optional<SymbolicShape> &shape) {
  if (shape && shape->size() >= 2) {
    std::swap((*shape)[shape->size() - 1], (*shape)[shape->size() - 2]);
  }
}

LogicalResult rules::matMul(InferContext &c) {
  FailureOr<Type> type = sameElementType(c, 0, 1);
  return failed(type) ? failure() : inferMatMul(c, c.operand(0).shape, c.operand(1).shape, *type);
}

LogicalResult rules::fusedMatMul(InferContext &c) {
  FailureOr<Type> type = sameElementType(c, 0, 1);
  if (failed(type)) {
    return failure();
  }
  if (c.binder.attrInt("transBatchA") || c.binder.attrInt("transBatchB")) {
    return c.error()
           << "transBatchA and transBatchB are not supported; re-export without graph fusion";
  }
  std::optional<SymbolicShape> a = c.operand(0).shape;
  std::optional<SymbolicShape> b = c.operand(1).shape;
  if (c.binder.attrInt("transA")) {
    swapLastTwo(a);
  }
  if (c.binder.attrInt("transB")) {
    swapLastTwo(b);
  }
  return inferMatMul(c, a, b, *type);
}

LogicalResult rules::matMulInteger(InferContext &c) {
  return inferMatMul(c, c.operand(0).shape, c.operand(1).shape,
                     IntegerType::get(c.binder.op().getContext(), 32));
}

LogicalResult rules::gemm(InferContext &c) {
  FailureOr<Type> type = sameElementType(c, 0, 1);
  if (failed(type) || failed(requireRank(c, 0, 2)) || failed(requireRank(c, 1, 2)) ||
      (c.hasOperand(2) && failed(sameElementType(c, 0, 2)))) {
    return failure();
  }
  std::optional<SymbolicShape> a = c.operand(0).shape;
  std::optional<SymbolicShape> b = c.operand(1).shape;
  if (c.binder.attrInt("transA")) {
    swapLastTwo(a);
  }
  if (c.binder.attrInt("transB")) {
    swapLastTwo(b);
  }
  if (a && b &&
      failed(requireSameSize(c, (*b)[0], (*a)[1], "the contracted dimension of operand 1"))) {
    return failure();
  }
  SymbolicShape shape{a ? (*a)[0] : SymbolicExpr(), b ? (*b)[1] : SymbolicExpr()};
  if (c.hasOperand(2) && failed(broadcastShapes(c, shape, c.operand(2).shape))) {
    return failure();
  }
  c.setResult(0, *type, shape);
  return success();
}

// "bij,bjk->bik", without ellipsis; others leave the shape unknown.
LogicalResult rules::einsum(InferContext &c) {
  Type type = c.operand(0).elementType;
  std::string equation =
      c.binder.attr("equation") ? cast<StringAttr>(c.binder.attr("equation")).str() : "";
  llvm::erase(equation, ' ');
  auto [inputs, output] = llvm::StringRef(equation).split("->");
  llvm::SmallVector<llvm::StringRef> terms;
  inputs.split(terms, ',');
  if (equation.find("->") == std::string::npos || equation.find("...") != std::string::npos) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  if (terms.size() != c.operands.size()) {
    return c.error() << "equation '" << equation << "' has " << terms.size() << " terms for "
                     << c.operands.size() << " operands";
  }
  std::map<char, SymbolicExpr> sizes;
  for (auto [i, term] : llvm::enumerate(terms)) {
    const std::optional<SymbolicShape> &shape = c.operand(i).shape;
    if (!shape) {
      continue;
    }
    if (shape->size() != term.size()) {
      return c.error() << "operand " << i << " has rank " << shape->size() << ", '" << term
                       << "' needs " << term.size();
    }
    for (auto [letter, size] : llvm::zip_equal(term, *shape)) {
      auto [entry, isNew] = sizes.try_emplace(letter, size);
      if (!isNew && failed(requireSameSize(c, size, entry->second,
                                           "the size of '" + std::string(1, letter) + "'"))) {
        return failure();
      }
      entry->second = entry->second.isUnknown() ? size : entry->second;
    }
  }
  SymbolicShape shape;
  for (char letter : output) {
    shape.push_back(sizes[letter]);
  }
  c.setResult(0, type, shape);
  return success();
}

LogicalResult rules::matMulNBits(InferContext &c) {
  SymbolicExpr features = number(c.binder.attrInt("N", 0));
  std::optional<SymbolicShape> shape = c.operand(0).shape;
  if (shape && shape->empty()) {
    return c.error() << "operand 0 is a scalar, expected a matrix";
  }
  if (shape) {
    if (failed(requireSameSize(c, shape->back(), number(c.binder.attrInt("K", 0)),
                               "the last dimension of operand 0"))) {
      return failure();
    }
    shape->back() = features;
  }
  if (c.operand(1).shape && !c.operand(1).shape->empty() &&
      failed(requireSameSize(c, c.operand(1).shape->front(), features,
                             "the first dimension of operand 1"))) {
    return failure();
  }
  c.setResult(0, c.operand(0).elementType, shape);
  return success();
}

// Rows of a table whose quantized axis is packed, several elements a byte; the result has the
// scales' type.
LogicalResult rules::gatherBlockQuantized(InferContext &c) {
  const std::optional<SymbolicShape> &data = c.operand(0).shape;
  const std::optional<SymbolicShape> &indices = c.operand(1).shape;
  std::optional<SymbolicShape> shape;
  if (data && indices) {
    FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("gather_axis"), data->size());
    FailureOr<int64_t> packed = c.normalizeAxis(c.binder.attrInt("quantize_axis"), data->size());
    if (failed(axis) || failed(packed)) {
      return failure();
    }
    SymbolicShape unpacked = *data;
    Type stored = c.operand(0).elementType;
    if (stored && stored.isUnsignedInteger(8)) {
      unpacked[*packed] =
          unpacked[*packed] * number(8 / std::max<int64_t>(1, c.binder.attrInt("bits")));
    }
    shape = SymbolicShape(unpacked.begin(), unpacked.begin() + *axis);
    shape->append(indices->begin(), indices->end());
    shape->append(unpacked.begin() + *axis + 1, unpacked.end());
  }
  c.setResult(0, c.operand(2).elementType, shape);
  return success();
}

LogicalResult rules::rmsNorm(InferContext &c) {
  // X and scale may differ in type; the result has the scale's.
  c.setResult(0, c.operand(1).elementType, c.operand(0).shape);
  return success();
}

LogicalResult rules::layerNorm(InferContext &c) {
  std::optional<SymbolicShape> statistics = c.operand(0).shape;
  if (statistics) {
    FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("axis"), statistics->size());
    if (failed(axis)) {
      return failure();
    }
    std::fill(statistics->begin() + *axis, statistics->end(), number(1));
    const std::optional<SymbolicShape> &scale = c.operand(1).shape;
    if (scale && !scale->empty() &&
        failed(requireSameSize(c, scale->back(), c.operand(0).shape->back(),
                               "the last dimension of the scale"))) {
      return failure();
    }
  }
  c.setResult(0, c.operand(0).elementType, c.operand(0).shape);
  c.setResult(1, Float32Type::get(c.binder.op().getContext()), statistics);
  c.setResult(2, Float32Type::get(c.binder.op().getContext()), statistics);
  return success();
}

// Results: normalised, mean, inverse deviation, sum of input, skip and bias.
LogicalResult rules::skipLayerNorm(InferContext &c) {
  FailureOr<Type> type = sameElementType(c, 0, 1);
  auto sum = broadcastShapes(c, c.operand(0).shape, c.operand(1).shape);
  if (failed(type) || failed(sum)) {
    return failure();
  }
  std::optional<SymbolicShape> statistics = *sum;
  const std::optional<SymbolicShape> &scale = c.operand(2).shape;
  if (statistics && !statistics->empty()) {
    if (scale && !scale->empty() &&
        failed(requireSameSize(c, scale->back(), statistics->back(), "the size of the scale"))) {
      return failure();
    }
    statistics->back() = number(1);
  }
  Type single = Float32Type::get(c.binder.op().getContext());
  c.setResult(0, *type, *sum);
  c.setResult(1, single, statistics);
  c.setResult(2, single, statistics);
  c.setResult(3, *type, *sum);
  return success();
}

namespace {
// A query, key or value of an attention operator as [batch, heads, rows, head size], given so or as
// [batch, rows, heads * head size].
std::optional<SymbolicShape> headsShape(const TensorFacts &facts, std::optional<int64_t> heads) {
  if (!facts.shape || (facts.shape->size() == 3 && !heads)) {
    return std::nullopt;
  }
  const SymbolicShape &shape = *facts.shape;
  if (shape.size() == 4) {
    return shape;
  }
  if (shape.size() != 3) {
    return std::nullopt;
  }
  return SymbolicShape{shape[0], number(*heads), shape[1], shape[2].exactDiv(number(*heads))};
}

std::optional<int64_t> positiveAttr(InferContext &c, llvm::StringRef name) {
  int64_t value = c.binder.attrInt(name, 0);
  return value > 0 ? std::optional(value) : std::nullopt;
}
} // namespace

// Operands: Q K V mask past_key past_value nonpad_kv_seqlen; results: Y present_key present_value
// qk.
LogicalResult rules::attention(InferContext &c) {
  FailureOr<Type> type = sameElementType(c, 0, 1);
  if (failed(type)) {
    return failure();
  }
  Type valueType = c.operand(2).elementType;
  auto q = headsShape(c.operand(0), positiveAttr(c, "q_num_heads"));
  auto k = headsShape(c.operand(1), positiveAttr(c, "kv_num_heads"));
  auto v = headsShape(c.operand(2), positiveAttr(c, "kv_num_heads"));
  bool flat = c.operand(0).shape && c.operand(0).shape->size() == 3;
  if (flat && !q) {
    return c.error() << "operands have rank 3 but q_num_heads is missing";
  }
  if (!q || !k || !v) {
    for (size_t i = 0; i < c.results.size(); ++i) {
      c.setResult(i, i == 2 ? valueType : *type, std::nullopt);
    }
    return success();
  }
  if (failed(requireSameSize(c, (*k)[3], (*q)[3], "the head size of K"))) {
    return failure();
  }
  SymbolicExpr total = (*k)[2];
  if (c.operand(4).shape && c.operand(4).shape->size() == 4) {
    total = total + (*c.operand(4).shape)[2];
  }
  SymbolicExpr rows = (*q)[2];
  SymbolicShape result{(*q)[0], (*q)[1], rows, (*v)[3]};
  if (flat) {
    result = {(*q)[0], rows, (*q)[1] * (*v)[3]};
  }
  c.setResult(0, *type, result);
  c.setResult(1, *type, SymbolicShape{(*k)[0], (*k)[1], total, (*k)[3]});
  c.setResult(2, valueType, SymbolicShape{(*v)[0], (*v)[1], total, (*v)[3]});
  c.setResult(3, *type, SymbolicShape{(*q)[0], (*q)[1], rows, total});
  return success();
}

// Operands: query key value past_key past_value seqlens_k total_sequence_length …; without key and
// value the query is packed QKV.
LogicalResult rules::groupQueryAttention(InferContext &c) {
  int64_t heads = c.binder.attrInt("num_heads", 0);
  int64_t kvHeads = c.binder.attrInt("kv_num_heads", 0);
  if (heads <= 0 || kvHeads <= 0 || heads % kvHeads != 0) {
    return c.error() << "num_heads (" << heads << ") is not a multiple of kv_num_heads (" << kvHeads
                     << ")";
  }
  if (failed(requireRank(c, 0, 3))) {
    return failure();
  }
  Type type = c.operand(0).elementType;
  Type cacheType = c.hasOperand(3) ? c.operand(3).elementType : type;
  SymbolicExpr batch, rows, headSize;
  if (const std::optional<SymbolicShape> &query = c.operand(0).shape) {
    bool packed = !c.hasOperand(1);
    batch = (*query)[0];
    rows = (*query)[1];
    headSize = (*query)[2].exactDiv(number(packed ? heads + 2 * kvHeads : heads));
  }
  SymbolicExpr past;
  if (c.operand(3).shape && c.operand(3).shape->size() == 4) {
    past = (*c.operand(3).shape)[2];
    headSize = headSize.isUnknown() ? (*c.operand(3).shape)[3] : headSize;
  }
  SymbolicExpr total = c.hasOperand(3) ? past + rows : rows;
  const auto &stated = c.operand(6).values;
  if (c.binder.attrInt("sliding_window_cache")) {
    total = past;
  } else if (stated && stated->size() == 1 && !stated->front().isUnknown()) {
    total = stated->front();
  }
  SymbolicShape present{batch, number(kvHeads), total, headSize};
  c.setResult(0, type, SymbolicShape{batch, rows, headSize * number(heads)});
  c.setResult(1, cacheType, present);
  c.setResult(2, cacheType, present);
  c.setResult(3, type, SymbolicShape{batch, number(heads), rows, total});
  return success();
}

// Operands: query key value bias key_padding_mask attention_bias past_key past_value …
LogicalResult rules::multiHeadAttention(InferContext &c) {
  int64_t heads = c.binder.attrInt("num_heads", 0);
  if (heads <= 0) {
    return c.error() << "num_heads is " << heads << ", expected a positive number";
  }
  Type type = c.operand(0).elementType;
  const std::optional<SymbolicShape> &query = c.operand(0).shape;
  if (!query || query->size() != 3 || !c.operand(1).shape) {
    for (size_t i = 0; i < c.results.size(); ++i) {
      c.setResult(i, type, std::nullopt);
    }
    return success();
  }
  SymbolicExpr batch = (*query)[0];
  SymbolicExpr rows = (*query)[1];
  SymbolicExpr headSize = (*query)[2].exactDiv(number(heads));
  const SymbolicShape &key = *c.operand(1).shape;
  SymbolicExpr keys = key.size() == 4                      ? key[2]
                      : key.size() == 3 || key.size() == 5 ? key[1]
                                                           : SymbolicExpr();
  const std::optional<SymbolicShape> &value = c.operand(2).shape;
  SymbolicExpr valueSize = value && value->size() == 3   ? value->back().exactDiv(number(heads))
                           : value && value->size() == 4 ? value->back()
                                                         : headSize;
  SymbolicExpr total = keys;
  if (c.operand(6).shape && c.operand(6).shape->size() == 4) {
    total = total + (*c.operand(6).shape)[2];
  }
  c.setResult(0, type, SymbolicShape{batch, rows, valueSize * number(heads)});
  c.setResult(1, type, SymbolicShape{batch, number(heads), total, headSize});
  c.setResult(2, type, SymbolicShape{batch, number(heads), total, valueSize});
  c.setResult(3, type, SymbolicShape{batch, number(heads), rows, total});
  return success();
}

// Operand `weights` is [experts, …]; the router's last dimension counts experts.
static LogicalResult inferExperts(InferContext &c, size_t weights) {
  FailureOr<Type> type = sameElementType(c, 0, 1);
  if (failed(type) || failed(requireRank(c, weights, 3)) || failed(requireRank(c, 1, 2))) {
    return failure();
  }
  const std::optional<SymbolicShape> &router = c.operand(1).shape;
  const std::optional<SymbolicShape> &experts = c.operand(weights).shape;
  if (router && experts &&
      failed(
          requireSameSize(c, router->back(), experts->front(), "the router's number of experts"))) {
    return failure();
  }
  c.setResult(0, *type, c.operand(0).shape);
  return success();
}

LogicalResult rules::moe(InferContext &c) { return inferExperts(c, 2); }
LogicalResult rules::qmoe(InferContext &c) { return inferExperts(c, 2); }
