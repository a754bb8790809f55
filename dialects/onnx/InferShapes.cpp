// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Drives the inference rules over a function and writes what they find into the types.
#include "dialects/onnx/InferShapes.h"

#include "dialects/onnx/ElementTypes.h"
#include "dialects/onnx/OnnxOpTable.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace sluicec::onnx;

TensorFacts sluicec::onnx::factsOfType(Type type) {
  TensorFacts facts;
  auto tensor = dyn_cast<TensorType>(type);
  if (!tensor) {
    return facts;
  }
  facts.elementType = isa<UnknownType>(tensor.getElementType()) ? Type() : tensor.getElementType();
  if (auto ranked = dyn_cast<RankedTensorType>(type)) {
    auto dims = dyn_cast_or_null<DimsAttr>(ranked.getEncoding());
    facts.shape = SymbolicShape();
    for (auto [i, size] : llvm::enumerate(ranked.getShape())) {
      facts.shape->push_back(!ShapedType::isDynamic(size) ? SymbolicExpr::constant(size)
                             : dims ? SymbolicExpr::parse(dims.getNames()[i].getValue())
                                    : SymbolicExpr());
    }
  }
  return facts;
}

RankedTensorType sluicec::onnx::rankedType(llvm::ArrayRef<SymbolicExpr> shape, Type elementType) {
  MLIRContext *context = elementType.getContext();
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<StringAttr> names;
  bool anyName = false;
  for (const SymbolicExpr &size : shape) {
    std::optional<int64_t> number = size.asConstant();
    bool isStatic = number && *number >= 0;
    sizes.push_back(isStatic ? *number : ShapedType::kDynamic);
    names.push_back(StringAttr::get(context, isStatic ? "" : size.str()));
    anyName |= !names.back().getValue().empty();
  }
  return RankedTensorType::get(sizes, elementType,
                               anyName ? DimsAttr::get(context, names) : DimsAttr());
}

Type sluicec::onnx::typeOfFacts(MLIRContext *context, const TensorFacts &facts) {
  if (!facts.elementType) {
    return NoneType::get(context);
  }
  return facts.shape ? Type(rankedType(*facts.shape, facts.elementType))
                     : UnrankedTensorType::get(facts.elementType);
}

TensorFacts ShapeFacts::of(Value value) const {
  auto entry = table.find(value);
  if (entry != table.end()) {
    return entry->second;
  }
  TensorFacts facts = factsOfType(value.getType());
  auto type = dyn_cast<ShapedType>(value.getType());
  if (type && type.hasStaticShape() &&
      type.getNumElements() <= static_cast<int64_t>(kMaxSymbolicValues)) {
    if (auto elements = integerElements(value)) {
      facts.values =
          llvm::map_to_vector(*elements, [](int64_t v) { return SymbolicExpr::constant(v); });
    }
  }
  return facts;
}

// "nonzero(/model/layers.0/NonZero#17)": the node's name and index, so that a second run finds the
// same atom.
SymbolicExpr InferContext::dataDependentSize(llvm::StringRef what) {
  std::string name;
  binder.op()->getLoc()->walk([&](Location location) {
    if (auto named = dyn_cast<NameLoc>(location)) {
      name = named.getName().str();
    } else if (auto position = dyn_cast<FileLineColLoc>(location)) {
      name += "#" + std::to_string(position.getLine()) +
              (name.empty() ? ":" + std::to_string(position.getColumn()) : "");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '(' || c == ')'; }, '_');
  return SymbolicExpr::atom((what + "(" + name + ")").str());
}

namespace {
class Inference {
public:
  LogicalResult run(Block &block) {
    for (Operation &op : block) {
      if (auto node = dyn_cast<NodeOp>(op)) {
        if (failed(infer(node))) {
          return failure();
        }
      }
    }
    return success();
  }

  ShapeFacts facts;

private:
  LogicalResult infer(NodeOp node) {
    const OpRow *row = findOp(node.getDomain(), node.getOpType());
    if (!row) {
      return success(); // the types that it has stay
    }
    llvm::SmallVector<TensorFacts, 0> operands;
    for (Value operand : node.getInputs()) {
      operands.push_back(isNone(operand) ? TensorFacts() : facts.of(operand));
    }
    InferContext context(node, operands);
    for (Region &region : node.getSubgraphs()) {
      seedArguments(node, region, operands);
      if (failed(run(region.front()))) {
        return failure();
      }
      auto &yielded = context.subgraphResults.emplace_back();
      for (Value value : region.front().getTerminator()->getOperands()) {
        yielded.push_back(facts.of(value));
      }
    }
    if (failed(row->infer(context))) {
      return failure();
    }
    for (auto [result, found] : llvm::zip_equal(node->getResults(), context.results)) {
      if (!isNone(result) && failed(record(node, result, std::move(found)))) {
        return failure();
      }
    }
    return success();
  }

  // Body arguments that the file leaves untyped take what enters the loop; a carried shape may
  // change from turn to turn, so only the element type is sure.
  void seedArguments(NodeOp node, Region &region, llvm::ArrayRef<TensorFacts> operands) {
    size_t skip = node.getOpType() == "Loop" ? 2 : 0;
    for (BlockArgument argument : region.getArguments()) {
      size_t index = argument.getArgNumber();
      TensorFacts stated = factsOfType(argument.getType());
      if (!stated.elementType && node.getOpType() != "If" && index >= skip &&
          index < operands.size()) {
        stated.elementType = operands[index].elementType;
        argument.setType(typeOfFacts(argument.getContext(), stated));
      }
    }
  }

  // Joins what was inferred with what the type states, and sets the type.
  LogicalResult record(NodeOp node, Value result, TensorFacts found) {
    TensorFacts stated = factsOfType(result.getType());
    if (found.elementType && stated.elementType && found.elementType != stated.elementType) {
      NodeBinder(node).error() << "result " << cast<OpResult>(result).getResultNumber()
                               << " is stated as " << elementTypeText(stated.elementType)
                               << " in the file, but the operands give "
                               << elementTypeText(found.elementType);
      return failure();
    }
    found.elementType = found.elementType ? found.elementType : stated.elementType;
    if (!found.shape) {
      found.shape = stated.shape;
    } else if (stated.shape && stated.shape->size() == found.shape->size()) {
      for (auto [size, fileSize] : llvm::zip_equal(*found.shape, *stated.shape)) {
        // A name of the file is preferred to a min, max or quotient of names: it says the same more
        // simply.
        bool derived = size.str().find('(') != std::string::npos;
        bool better = !fileSize.isUnknown() && fileSize.str().find('(') == std::string::npos;
        size = size.isUnknown() || (derived && better) ? fileSize : size;
      }
    }
    result.setType(typeOfFacts(result.getContext(), found));
    facts.set(result, std::move(found));
    return success();
  }
};
} // namespace

FailureOr<ShapeFacts> sluicec::onnx::inferShapes(func::FuncOp function) {
  Inference inference;
  if (function.isDeclaration()) {
    return std::move(inference.facts);
  }
  Block &body = function.getBody().front();
  if (failed(inference.run(body))) {
    return failure();
  }
  if (auto terminator = dyn_cast<func::ReturnOp>(body.getTerminator())) {
    auto type = FunctionType::get(function.getContext(), body.getArgumentTypes(),
                                  terminator.getOperandTypes());
    function.setFunctionType(type);
  }
  return std::move(inference.facts);
}

// The attribute with these elements of an integer type.
static DenseElementsAttr integerAttr(RankedTensorType type, llvm::ArrayRef<SymbolicExpr> values) {
  unsigned width = cast<IntegerType>(type.getElementType()).getWidth();
  llvm::SmallVector<APInt> elements;
  for (const SymbolicExpr &value : values) {
    elements.push_back(APInt(64, static_cast<uint64_t>(*value.asConstant())).sextOrTrunc(width));
  }
  return DenseElementsAttr::get(type, elements);
}

void sluicec::onnx::foldKnownValues(func::FuncOp function, const ShapeFacts &facts) {
  llvm::SmallVector<NodeOp> nodes;
  function.walk([&](NodeOp node) { nodes.push_back(node); });
  for (NodeOp node : llvm::reverse(nodes)) {
    OpBuilder builder(node);
    for (Value result : node->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      auto values = facts.values(result);
      if (result.use_empty() || !type || !type.hasStaticShape() ||
          !isa<IntegerType>(type.getElementType()) || !values ||
          static_cast<int64_t>(values->size()) != type.getNumElements() ||
          !llvm::all_of(*values,
                        [](const SymbolicExpr &v) { return v.asConstant().has_value(); })) {
        continue;
      }
      result.replaceAllUsesWith(
          ConstantOp::create(builder, node.getLoc(), integerAttr(type, *values)));
    }
    if (isOpTriviallyDead(node)) {
      node.erase();
    }
  }
}
