// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the file's weights under layout operators to lm.weight and recipe operations.
#include "compiler/raise/RaiseRewriter.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

template <typename Op, typename... Args> Value RaiseRewriter::recipe(Location loc, Args &&...args) {
  OpBuilder::InsertionGuard guard(builder);
  if (lastWeight) {
    builder.setInsertionPointAfter(lastWeight);
  } else {
    builder.setInsertionPointToStart(&function.getBody().front());
  }
  auto op = Op::create(builder, loc, std::forward<Args>(args)...);
  lastWeight = op;
  return op.getResult();
}

static RankedTensorType weightType(Value like, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, cast<RankedTensorType>(like.getType()).getElementType());
}

Value RaiseRewriter::reshapeWeight(Value weight, ArrayRef<int64_t> shape) {
  RankedTensorType type = weightType(weight, shape);
  return type == weight.getType() ? weight
                                  : recipe<lm::WeightReshapeOp>(weight.getLoc(), type, weight);
}

Value RaiseRewriter::transposeWeight(Value weight, ArrayRef<int64_t> perm) {
  if (llvm::is_sorted(perm)) {
    return weight;
  }
  auto from = cast<RankedTensorType>(weight.getType()).getShape();
  SmallVector<int64_t> shape;
  for (int64_t dim : perm) {
    shape.push_back(from[static_cast<size_t>(dim)]);
  }
  if (auto inner = weight.getDefiningOp<lm::WeightTransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t dim : perm) {
      composed.push_back(inner.getPerm()[static_cast<size_t>(dim)]);
    }
    return transposeWeight(inner.getInput(), composed);
  }
  return recipe<lm::WeightTransposeOp>(weight.getLoc(), weightType(weight, shape), weight, perm);
}

Value RaiseRewriter::sliceWeight(Value weight, int64_t dim, int64_t offset, int64_t stride,
                                 int64_t count) {
  auto from = cast<RankedTensorType>(weight.getType()).getShape();
  auto position = static_cast<size_t>(dim);
  if (offset == 0 && stride == 1 && count == from[position]) {
    return weight;
  }
  SmallVector<int64_t> shape(from), offsets(from.size(), 0), strides(from.size(), 1);
  shape[position] = count;
  offsets[position] = offset;
  strides[position] = stride;
  return recipe<lm::WeightSliceOp>(weight.getLoc(), weightType(weight, shape), weight, offsets,
                                   strides);
}

Value RaiseRewriter::concatWeights(ArrayRef<Value> parts, int64_t dim) {
  if (parts.size() == 1) {
    return parts.front();
  }
  SmallVector<int64_t> shape(cast<RankedTensorType>(parts.front().getType()).getShape());
  shape[static_cast<size_t>(dim)] = 0;
  for (Value part : parts) {
    shape[static_cast<size_t>(dim)] +=
        cast<RankedTensorType>(part.getType()).getShape()[static_cast<size_t>(dim)];
  }
  return recipe<lm::WeightConcatOp>(parts.front().getLoc(), weightType(parts.front(), shape), parts,
                                    dim);
}

Value RaiseRewriter::newWeight(StringRef name, ElementsAttr value, Location loc) {
  std::string unique = name.str();
  for (unsigned i = 1; namedWeights.contains(unique); ++i) {
    unique = (name + "." + Twine(i)).str();
  }
  auto type = cast<RankedTensorType>(value.getShapedType());
  return namedWeights[unique] = recipe<lm::WeightOp>(loc, type, unique, value);
}

/// A range of a weight by constant starts, ends, axes and positive steps.
Value RaiseRewriter::slicedWeight(const NodeBinder &node, Value input) {
  auto from = cast<RankedTensorType>(input.getType()).getShape();
  auto result = dyn_cast<RankedTensorType>(node.result(0).getType());
  auto starts = node.constantInts(1);
  auto axes = node.operand(3) ? node.constantInts(3) : std::nullopt;
  auto steps = node.operand(4) ? node.constantInts(4) : std::nullopt;
  if (!result || !result.hasStaticShape() || !starts || (node.operand(3) && !axes) ||
      (node.operand(4) && !steps)) {
    return {};
  }
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t axis = axes ? (*axes)[i] : static_cast<int64_t>(i), step = steps ? (*steps)[i] : 1;
    axis = axis < 0 ? axis + static_cast<int64_t>(from.size()) : axis;
    if (step < 1 || axis < 0 || static_cast<size_t>(axis) >= from.size()) {
      return {};
    }
    int64_t size = from[static_cast<size_t>(axis)], start = (*starts)[i];
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
    input = sliceWeight(input, axis, start, step, result.getDimSize(axis));
  }
  return input;
}

Value RaiseRewriter::deriveWeight(Value value) {
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!op || !type || !type.hasStaticShape()) {
    return {};
  }
  if (isa<lm::WeightOpInterface>(op) || isa<lm::WeightOp>(op)) {
    return value;
  }
  if (isa<onnx::WeightOp, onnx::ConstantOp>(op)) {
    StringRef name = onnx::weightName(value);
    if (name.empty()) {
      return newWeight("constant", onnx::constantValue(value), op->getLoc());
    }
    // A constant keeps its elements: text without a store must stay complete.
    Value &weight = namedWeights[name];
    return weight ? weight
                  : weight =
                        recipe<lm::WeightOp>(op->getLoc(), type, name, onnx::constantValue(value));
  }
  NodeBinder node(op);
  if (!node || !node.op().getDomain().empty() || !node.operand(0)) {
    return {};
  }
  StringRef opType = node.op().getOpType();
  if (opType == "Concat") {
    SmallVector<Value> parts;
    for (size_t i = 0; i < node.numOperands(); ++i) {
      parts.push_back(weight(node.operand(i)));
      if (!parts.back()) {
        return {};
      }
    }
    int64_t axis = node.attrInt("axis");
    return concatWeights(parts, axis < 0 ? axis + type.getRank() : axis);
  }
  bool layout = llvm::is_contained({"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze",
                                    "Flatten", "Transpose", "Slice", "Split"},
                                   opType);
  Value input = layout ? weight(node.operand(0)) : Value();
  if (!input) {
    return {};
  }
  if (opType == "Cast") {
    // Between float types the bytes of the file are what counts.
    bool floats = isa<FloatType>(cast<RankedTensorType>(input.getType()).getElementType()) &&
                  isa<FloatType>(type.getElementType());
    return floats ? input : Value();
  }
  if (opType == "Transpose") {
    SmallVector<int64_t> perm;
    if (auto given = node.attrInts("perm")) {
      perm.assign(given->begin(), given->end());
    } else {
      for (int64_t i = type.getRank(); i > 0; --i) {
        perm.push_back(i - 1);
      }
    }
    return transposeWeight(input, perm);
  }
  if (opType == "Slice") {
    return slicedWeight(node, input);
  }
  if (opType == "Split") {
    int64_t axis = node.attrInt("axis"), offset = 0;
    axis = axis < 0 ? axis + type.getRank() : axis;
    for (unsigned i = 0, e = cast<OpResult>(value).getResultNumber(); i < e; ++i) {
      offset += cast<RankedTensorType>(op->getResult(i).getType()).getDimSize(axis);
    }
    return sliceWeight(input, axis, offset, 1, type.getDimSize(axis));
  }
  return reshapeWeight(input, type.getShape());
}

Value RaiseRewriter::weight(Value value) {
  if (!value) {
    return {};
  }
  if (auto found = weights.find(value); found != weights.end()) {
    return found->second;
  }
  Value result = deriveWeight(value);
  return weights[value] = result;
}
