// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Masks by their meaning; see MaskMatch.h.
#include "compiler/raise/MaskMatch.h"

#include "compiler/raise/TensorView.h"

using namespace mlir;
using namespace sluicec::raise;

namespace {

/// Collects meanings of conjuncts.
class MaskReader {
public:
  MaskReader(func::FuncOp function, const MaskGeometry &geometry)
      : own(geometry.past + indexAtom(2)), key(indexAtom(3)), batch(indexAtom(0)) {
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (type && type.getRank() == 2 && isa<IntegerType>(type.getElementType())) {
        arguments.push_back(argument);
      }
    }
  }

  bool read(const Condition &condition) {
    using Kind = Condition::Kind;
    if (condition.kind == Kind::AtLeastZero) {
      return readDistance(condition.polynomial) ||
             readPadding(condition.polynomial + SymbolicExpr::constant(1));
    }
    if (condition.kind == Kind::NotZero) {
      return readPadding(condition.polynomial);
    }
    if (condition.kind == Kind::Zero) { // mask == 1
      return readPadding(condition.polynomial + SymbolicExpr::constant(1)) ||
             readPadding(-condition.polynomial + SymbolicExpr::constant(1));
    }
    return false;
  }

  /// Counting real tokens orders keys only where padding is hidden too.
  bool complete() const { return !counted || counted == meaning.padding; }

  MaskMeaning meaning;

private:
  SymbolicExpr own, key, batch;
  SmallVector<BlockArgument> arguments;
  BlockArgument counted;

  void narrow(int64_t window) {
    meaning.window = meaning.window == 0 ? window : std::min(meaning.window, window);
  }

  bool readDistance(const SymbolicExpr &polynomial) {
    if (polynomial == own - key) {
      meaning.causal = true;
      return true;
    }
    // key - own + (w - 1) >= 0
    if (std::optional<int64_t> rest = (polynomial - (key - own)).asConstant(); rest && *rest >= 0) {
      narrow(*rest + 1);
      return true;
    }
    for (BlockArgument argument : arguments) {
      SymbolicExpr distance =
          prefixSumAtom(argument, batch, own) - prefixSumAtom(argument, batch, key);
      if (polynomial == distance) {
        meaning.causal = true;
        counted = argument;
        return true;
      }
      if (std::optional<int64_t> rest = (polynomial + distance).asConstant(); rest && *rest >= 0) {
        narrow(*rest + 1);
        counted = argument;
        return true;
      }
    }
    return false;
  }

  bool readPadding(const SymbolicExpr &polynomial) {
    for (BlockArgument argument : arguments) {
      if (polynomial == loadAtom(argument, {batch, key})) {
        if (meaning.padding && meaning.padding != argument) {
          return false;
        }
        meaning.padding = argument;
        return true;
      }
      if (polynomial == loadAtom(argument, {batch, own})) {
        return true; // rows of padding have no defined result
      }
    }
    return false;
  }
};

} // namespace

std::optional<MaskMeaning> sluicec::raise::interpretMask(func::FuncOp function,
                                                         const Condition &seen,
                                                         const MaskGeometry &geometry,
                                                         std::string &notUnderstood) {
  MaskReader reader(function, geometry);
  for (const Condition &part : seen.conjuncts()) {
    if (!reader.read(part)) {
      notUnderstood = part.str();
      return std::nullopt;
    }
  }
  if (!reader.complete()) {
    notUnderstood = "counts of real tokens without hiding padding";
    return std::nullopt;
  }
  return reader.meaning;
}

std::optional<Condition> sluicec::raise::conditionOfMask(IndexExpressions &expressions, Value mask,
                                                         Operation *&culprit) {
  SymbolicShape shape = shapeOf(mask);
  culprit = mask.getDefiningOp();
  if (shape.size() < 2 || shape.size() > 4) {
    return std::nullopt;
  }
  SmallVector<SymbolicExpr> index;
  for (size_t d = 0; d < shape.size(); ++d) {
    auto place = static_cast<unsigned>(d + 4 - shape.size());
    index.push_back(shape[d].isConstant(1) ? SymbolicExpr::constant(0) : indexAtom(place));
  }
  ElementExpr element = expressions.element(mask, index);
  if (element.isUnknown()) {
    culprit = element.culprit;
    return std::nullopt;
  }
  if (element.kind == ElementExpr::Kind::Boolean) {
    return element.condition;
  }
  return element.kind == ElementExpr::Kind::Real ? asAdditiveMask(element.real) : std::nullopt;
}
