// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Experts on choices sorted by expert: gathers into that order, one product per expert on its range
// of rows, and a gather back. Only the products mind the order, so the others are raised as if
// nothing had been sorted.
#include "compiler/raise/ExpertRaiser.h"
#include "compiler/raise/NodeMatch.h"
#include "dialects/onnx/InferShapes.h"

#include <cmath>

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

FailureOr<bool> ExpertRaiser::raiseSort(NodeBinder node) {
  auto type = node.is("TopK") ? node.operandType(0) : RankedTensorType();
  if (!type || type.getRank() != 1 || !isa<IntegerType>(type.getElementType()) ||
      node.attrInt("largest") != 0) {
    return false;
  }
  Value ids = idsOf(node.operand(0));
  SymbolicExpr all = shapeOf(node.operand(0))[0];
  if (!ids || !(shapeOf(node.op()->getResult(1))[0] == all)) {
    return false;
  }
  std::string name = std::to_string(sortings.size());
  Sorting sorting{ids, SymbolicExpr::atom("order" + name + "[%0]"), node.op()->getResult(0),
                  node.op()->getResult(1)};
  rewriter.expressions.define(node.op()->getResult(1), "order" + name);
  sortings.push_back(sorting);
  return true;
}

/// The element at %0 of an integer tensor [n] or [n, 1].
static SymbolicExpr elementAt(RaiseRewriter &rewriter, Value value) {
  SmallVector<SymbolicExpr> index(shapeOf(value).size(), SymbolicExpr::constant(0));
  if (index.empty() || index.size() > 2) {
    return {};
  }
  index[0] = indexAtom(0);
  ElementExpr element = rewriter.expressions.element(value, index);
  return element.kind == ElementExpr::Kind::Integer ? element.integer : SymbolicExpr();
}

/// True where `index` undoes `order`: 0, 1, … scattered to the places that `order` names.
static bool isInverse(RaiseRewriter &rewriter, Value index, Value order) {
  NodeBinder scatter(rewriter.views.of(index).base);
  return scatter.is("ScatterND") && scatter.attrString("reduction") == "none" &&
         rewriter.views.of(scatter.operand(1)).base == order &&
         elementAt(rewriter, scatter.operand(2)) == indexAtom(0);
}

FailureOr<bool> ExpertRaiser::raiseSortedGather(NodeBinder node) {
  bool gather = node.is("Gather") && node.attrInt("axis") == 0;
  bool gatherND = node.is("GatherND") && node.attrInt("batch_dims") == 0;
  if (sortings.empty() || (!gather && !gatherND)) {
    return false;
  }
  Value data = node.operand(0), index = node.operand(1), old = node.op()->getResult(0);
  for (const Sorting &sorting : sortings) {
    int64_t choices = *shapeOf(sorting.ids).back().asConstant();
    SymbolicExpr place = elementAt(rewriter, index);
    if (place == sorting.order || isInverse(rewriter, index, sorting.permutation)) {
      Value same = rewriter.reshapeLike(data, old);
      if (!same) {
        return false;
      }
      rewriter.replace(old, same);
      return true;
    }
    if (place == SymbolicExpr::floorDiv(sorting.order, choices)) {
      // Row i of the result is the row of choice i: each row k times.
      auto type = cast<RankedTensorType>(data.getType());
      SymbolicShape shape = shapeOf(data);
      if (type.getRank() != 2) {
        return false;
      }
      OpBuilder &builder = rewriter.builder;
      Location loc = node.op()->getLoc();
      auto integers = [&](ArrayRef<int64_t> values) -> Value {
        auto vector =
            RankedTensorType::get({static_cast<int64_t>(values.size())}, builder.getI64Type());
        return onnx::ConstantOp::create(builder, loc, DenseElementsAttr::get(vector, values));
      };
      Type element = type.getElementType();
      SymbolicExpr one = SymbolicExpr::constant(1), count = SymbolicExpr::constant(choices);
      Value rows = rewriter.createNode(loc, "Unsqueeze", {data, integers({1})},
                                       onnx::rankedType({shape[0], one, shape[1]}, element));
      rows = rewriter.createNode(loc, "Expand", {rows, integers({1, choices, 1})},
                                 onnx::rankedType({shape[0], count, shape[1]}, element));
      rewriter.replace(old, rewriter.reshapeLike(rows, old));
      return true;
    }
  }
  return false;
}

/// What a chain of elementwise nodes on one tensor makes of element `x` of `source`, in the f32
/// arithmetic of the graph.
static std::optional<double> follow(Value value, Value source, double x) {
  if (value == source) {
    return x;
  }
  NodeBinder node(value);
  if (!node || !node.op().getDomain().empty()) {
    return std::nullopt;
  }
  StringRef type = node.op().getOpType();
  bool layout = type == "Reshape" || type == "Squeeze" || type == "Unsqueeze" || type == "Identity";
  bool known = layout || type == "Cast" || type == "Clip" || type == "Floor" || type == "Div" ||
               type == "Mul";
  std::optional<double> inner = known ? follow(node.operand(0), source, x) : std::nullopt;
  if (!inner || layout) {
    return inner;
  }
  if (type == "Cast") {
    bool integral = isa<IntegerType>(node.resultType(0).getElementType());
    return integral ? std::trunc(*inner) : static_cast<double>(static_cast<float>(*inner));
  }
  if (type == "Floor") {
    return std::floor(*inner);
  }
  std::optional<double> first = constantNumber(node.operand(1)),
                        second = constantNumber(node.operand(2));
  if (type == "Clip") {
    bool bounded = (first || !node.operand(1)) && (second || !node.operand(2));
    double low = std::max(*inner, first.value_or(*inner));
    return bounded ? std::optional(std::min(low, second.value_or(low))) : std::nullopt;
  }
  if (!first) {
    return std::nullopt;
  }
  auto left = static_cast<float>(*inner), right = static_cast<float>(*first);
  return static_cast<double>(type == "Div" ? left / right : left * right);
}

/// The integer value whose running sum over a histogram of sorted expert ids ends expert `expert`'s
/// range.
bool ExpertRaiser::isRangeEnd(Value value, int64_t expert, const Sorting &sorting) {
  const TensorView &view = rewriter.views.of(value);
  NodeBinder sum(view.base);
  if (!sum.is("CumSum") || view.offsets.size() != 1 || view.offsets[0] != expert ||
      !view.pieces().empty() || sum.attrInt("exclusive") != 0 || sum.attrInt("reverse") != 0) {
    return false;
  }
  NodeBinder histogram(rewriter.views.of(sum.operand(0)).base);
  if (histogram.is("Cast")) {
    histogram = NodeBinder(histogram.operand(0));
  }
  if (!histogram.is("ScatterElements") || histogram.attrString("reduction") != "add" ||
      !isZeros(histogram.operand(0))) {
    return false;
  }
  // The bin of an expert's id must be that id, in whatever way it is computed.
  int64_t experts = *shapeOf(histogram.operand(0))[0].asConstant();
  for (int64_t id = 0; id < experts; ++id) {
    if (follow(histogram.operand(1), sorting.sorted, static_cast<double>(id)) !=
        static_cast<double>(id)) {
      return false;
    }
  }
  NodeBinder ones(histogram.operand(2));
  return ones.is("Expand") && constantNumber(ones.operand(0)) == 1.0;
}

/// The [E, K, N] weight whose entry `expert` is `value` as [K, N], and whether the base has [N, K]
/// instead.
static std::optional<std::pair<Value, bool>> entryOf(RaiseRewriter &rewriter, Value value,
                                                     int64_t expert) {
  const TensorView &view = rewriter.views.of(value);
  if (shapeOf(view.base).size() != 3 || view.dims.size() != 2 || view.dims[0].size() != 1 ||
      view.dims[1].size() != 1 || view.offsets[0] != expert || view.offsets[1] != 0 ||
      view.offsets[2] != 0 || !rewriter.weight(view.base)) {
    return std::nullopt;
  }
  int64_t rows = view.dims[0][0].dim, columns = view.dims[1][0].dim;
  bool whole = (rows == 1 && columns == 2) || (rows == 2 && columns == 1);
  return whole ? std::optional(std::pair(view.base, rows == 2)) : std::nullopt;
}

FailureOr<bool> ExpertRaiser::raiseSortedMatMuls(NodeBinder node) {
  if (sortings.empty() || !node.is("Concat") || node.attrInt("axis") != 0) {
    return false;
  }
  Value rows, base, end;
  bool transposed = false;
  const Sorting *sorting = nullptr;
  for (size_t i = 0; i < node.numOperands(); ++i) {
    auto expert = static_cast<int64_t>(i);
    NodeBinder product(node.operand(i));
    NodeBinder gather(product.is("MatMul") ? product.operand(0) : Value());
    NodeBinder range(gather.is("Gather") && gather.attrInt("axis") == 0 ? gather.operand(1)
                                                                        : Value());
    if (!range.is("Range") || constantNumber(range.operand(2)) != 1.0) {
      return false;
    }
    auto entry = entryOf(rewriter, product.operand(1), expert);
    bool follows = i == 0 ? constantNumber(range.operand(0)) == 0.0 : range.operand(0) == end;
    if (!entry || !follows) {
      return false;
    }
    for (const Sorting &candidate : sortings) {
      if (!sorting && isRangeEnd(range.operand(1), expert, candidate)) {
        sorting = &candidate;
      }
    }
    if (!sorting || !isRangeEnd(range.operand(1), expert, *sorting)) {
      return false;
    }
    if (i > 0 &&
        (rows != gather.operand(0) || base != entry->first || transposed != entry->second)) {
      return node.error() << "expert " << i
                          << " takes its rows or its weight from elsewhere than expert 0";
    }
    rows = gather.operand(0);
    base = entry->first;
    transposed = entry->second;
    end = range.operand(1);
  }
  Value weight = rewriter.weight(base);
  auto experts = cast<RankedTensorType>(weight.getType()).getDimSize(0);
  if (static_cast<int64_t>(node.numOperands()) != experts) {
    return node.error() << "computes " << node.numOperands() << " of " << experts << " experts";
  }
  weight = transposed ? weight : rewriter.transposeWeight(weight, {0, 2, 1});
  auto view = rewriter.views.rows(rows);
  int64_t choices = *shapeOf(sorting->ids).back().asConstant();
  bool perToken = view && view->repeats == choices && shapeOf(view->base).size() == 3;
  bool perChoice = view && view->repeats == 1 && shapeOf(view->base).size() == 4;
  if (!perToken && !perChoice) {
    return node.error()
           << "multiplies sorted choices with rows that aren't those of the sorted tokens";
  }
  Value old = node.op()->getResult(0);
  Value result = rewriter.reshapeLike(
      groupedLinear(rewriter.rowsOf(*view), sorting->ids, weight, Value(), node.op()->getLoc()),
      old);
  if (!result) {
    return false;
  }
  rewriter.replace(old, result);
  return true;
}
