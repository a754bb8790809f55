// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Experts computed for the rows that NonZero finds in a one-hot of the choices, and scattered back
// into the sum.
#include "compiler/raise/ExpertRaiser.h"
#include "compiler/raise/NodeMatch.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

/// The source of a chain of nodes of the given types.
Value skipNodes(Value value, ArrayRef<StringRef> types) {
  for (NodeBinder node(value);
       node && node.op().getDomain().empty() && llvm::is_contained(types, node.op().getOpType());
       node = NodeBinder(value)) {
    value = node.operand(0);
  }
  return value;
}

/// One coordinate of the places where expert `expert` was chosen: choice (0) or row (1).
struct ChosenPlaces {
  Value nonZero; // the NonZero's result, the same for both coordinates
  int64_t coordinate = 0;
  int64_t expert = 0;
  Value ids; // as the one-hot sees them: [rows, k]
};

/// Reads Split(Transpose(NonZero(one_hot(ids)^T[expert]))).
std::optional<ChosenPlaces> readPlaces(Value value) {
  value = skipNodes(value, {"Squeeze", "Unsqueeze", "Reshape", "Expand"});
  NodeBinder split(value);
  if (!split.is("Split") && !split.is("Gather") && !split.is("Slice")) {
    return std::nullopt;
  }
  ChosenPlaces places;
  if (split.is("Split")) {
    places.coordinate = cast<OpResult>(value).getResultNumber();
  } else if (std::optional<int64_t> index = split.constantInt(1)) {
    places.coordinate = *index;
  } else {
    return std::nullopt;
  }
  NodeBinder nonZero(skipNodes(split.operand(0), {"Transpose"}));
  if (!nonZero.is("NonZero")) {
    return std::nullopt;
  }
  places.nonZero = nonZero.op()->getResult(0);
  NodeBinder pick(skipNodes(nonZero.operand(0), {"Cast", "Squeeze", "Identity"}));
  std::optional<int64_t> expert =
      pick.is("Gather") && pick.attrInt("axis") == 0 ? pick.constantInt(1) : std::nullopt;
  NodeBinder turned(expert ? pick.operand(0) : Value());
  auto perm = turned.is("Transpose") ? turned.attrInts("perm") : std::nullopt;
  NodeBinder oneHot(perm && ArrayRef<int64_t>{2, 1, 0} == *perm ? turned.operand(0) : Value());
  auto levels = oneHot.is("OneHot") ? oneHot.constantInts(2) : std::nullopt;
  int64_t axis = oneHot.is("OneHot") ? oneHot.attrInt("axis") : 0;
  if (!levels || *levels != SmallVector<int64_t>{0, 1} || (axis != -1 && axis != 2)) {
    return std::nullopt;
  }
  places.expert = *expert;
  places.ids = oneHot.operand(0);
  return places;
}

/// weights[row, choice] at the places: a Gather from the flattened weights by choice + row * k.
Value readGatheredWeights(Value value, Value nonZero, int64_t choices) {
  NodeBinder gather(skipNodes(value, {"Reshape", "Unsqueeze", "Cast"}));
  NodeBinder sum(gather.is("Gather") ? gather.operand(1) : Value());
  if (!sum.is("Add")) {
    return {};
  }
  for (size_t side : {0, 1}) {
    NodeBinder product(sum.operand(1 - side));
    auto factors = product.is("Mul")
                       ? orderOperands(product,
                                       [&](Value v) {
                                         return constantNumber(v) == static_cast<double>(choices);
                                       })
                       : std::nullopt;
    auto choice = readPlaces(sum.operand(side));
    auto row = factors ? readPlaces(factors->second) : std::nullopt;
    if (choice && row && choice->nonZero == nonZero && row->nonZero == nonZero &&
        choice->coordinate == 0 && row->coordinate == 1) {
      return gather.operand(0);
    }
  }
  return {};
}

} // namespace

std::optional<ExpertTerm> ExpertRaiser::readScatteredTerm(Value value) {
  NodeBinder scatter(value);
  if (!scatter.is("ScatterElements") || scatter.attrInt("axis") != 0) {
    return std::nullopt;
  }
  auto places = readPlaces(scatter.operand(1));
  NodeBinder product(skipNodes(scatter.operand(2), {"Expand", "Cast"}));
  if (!places || places->coordinate != 1 || !product.is("Mul")) {
    return std::nullopt;
  }
  Value ids = idsOf(places->ids);
  if (!ids || !isZeros(scatter.operand(0))) {
    return std::nullopt;
  }
  int64_t choices = *shapeOf(ids).back().asConstant();
  for (size_t side : {0, 1}) {
    auto term = readExpert(product.operand(side));
    Value weights =
        term ? readGatheredWeights(product.operand(1 - side), places->nonZero, choices) : Value();
    auto shown = weights ? rewriter.views.rows(weights) : std::nullopt;
    if (!shown || shown->base.getDefiningOp() != ids.getDefiningOp()) {
      continue;
    }
    // The expert's rows are those of the same places: x[row].
    NodeBinder gather(skipNodes(term->x, {"Reshape", "Squeeze", "Unsqueeze"}));
    auto rows = gather.is("Gather") ? readPlaces(gather.operand(1)) : std::nullopt;
    auto source = rows ? rewriter.views.rows(gather.operand(0)) : std::nullopt;
    if (!source || rows->nonZero != places->nonZero || rows->coordinate != 1 ||
        !source->wholeRows() || source->repeats != 1 || shapeOf(source->base).size() != 3) {
      continue;
    }
    term->op = scatter.op();
    term->expert = places->expert;
    term->ids = ids;
    term->weights = shown->base;
    term->x = source->base;
    return term;
  }
  return std::nullopt;
}
