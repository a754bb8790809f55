// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activations and clean-up. Weights are in WeightRecipes.cpp.
#include "compiler/raise/RaiseRewriter.h"

#include "dialects/onnx/InferShapes.h"
#include "dialects/onnx/OnnxOpTable.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

RaiseRewriter::RaiseRewriter(func::FuncOp function)
    : function(function), builder(function.getContext()) {
  for (Operation &op : function.getBody().front()) {
    if (isa<lm::WeightOpInterface>(op) || isa<lm::WeightOp>(op)) {
      lastWeight = &op;
      if (auto weight = dyn_cast<lm::WeightOp>(op)) {
        namedWeights[weight.getSource()] = weight.getResult();
      }
    } else if (!isa<onnx::ConstantOp, onnx::WeightOp, onnx::NoneOp>(op)) {
      break;
    }
  }
}

void RaiseRewriter::setInsertionPointAfterWeights() {
  if (lastWeight) {
    builder.setInsertionPointAfter(lastWeight);
  } else {
    builder.setInsertionPointToStart(&function.getBody().front());
  }
}

SmallVector<Operation *> RaiseRewriter::operations() {
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front()) {
    ops.push_back(&op);
  }
  return ops;
}

RankedTensorType RaiseRewriter::typeLike(Value like, ArrayRef<int64_t> features, unsigned dropped) {
  SymbolicShape shape = shapeOf(like);
  shape.pop_back_n(dropped);
  for (int64_t size : features) {
    shape.push_back(SymbolicExpr::constant(size));
  }
  return onnx::rankedType(shape, builder.getF32Type());
}

Value RaiseRewriter::createNode(Location loc, StringRef opType, ValueRange operands, Type result,
                                ArrayRef<NamedAttribute> attrs) {
  const onnx::OpRow *row = onnx::findOp("", opType);
  assert(row && "raise writes known operators only");
  return onnx::NodeOp::create(builder, loc, TypeRange{result}, operands, opType, "",
                              row->newestVersion(), builder.getDictionaryAttr(attrs), 0)
      .getResult(0);
}

Value RaiseRewriter::reshapeLike(Value value, Value old) {
  SymbolicShape from = shapeOf(value), to = shapeOf(old);
  auto type = onnx::rankedType(to, cast<RankedTensorType>(value.getType()).getElementType());
  if (type == value.getType()) {
    return value;
  }
  SmallVector<int64_t> sizes;
  bool open = false; // one size may be -1
  for (size_t i = 0; i < to.size(); ++i) {
    if (std::optional<int64_t> size = to[i].asConstant()) {
      sizes.push_back(*size);
    } else if (i < from.size() && to[i] == from[i]) {
      sizes.push_back(0);
    } else if (!open) {
      open = true;
      sizes.push_back(-1);
    } else {
      return {};
    }
  }
  auto shapeType =
      RankedTensorType::get({static_cast<int64_t>(sizes.size())}, builder.getI64Type());
  Location loc = value.getLoc();
  Value shape = onnx::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(shapeType, ArrayRef<int64_t>(sizes)));
  return createNode(loc, "Reshape", {value, shape}, type);
}

Value RaiseRewriter::headsLike(Value value, Value old, bool tokensFirst) {
  SymbolicShape shape = shapeOf(old);
  if (!tokensFirst) {
    std::swap(shape[1], shape[2]);
  }
  SymbolicShape from = shapeOf(value);
  shape[0] = from[0];
  shape[1] = from[1];
  Type element = builder.getF32Type();
  SmallVector<int64_t> sizes{0, 0, *shape[2].asConstant(), *shape[3].asConstant()};
  auto shapeType = RankedTensorType::get({4}, builder.getI64Type());
  Location loc = value.getLoc();
  Value sizeValue = onnx::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(shapeType, ArrayRef<int64_t>(sizes)));
  Value split = createNode(loc, "Reshape", {value, sizeValue}, onnx::rankedType(shape, element));
  if (tokensFirst) {
    return split;
  }
  std::swap(shape[1], shape[2]);
  return createNode(loc, "Transpose", {split}, onnx::rankedType(shape, element),
                    builder.getNamedAttr("perm", builder.getDenseI64ArrayAttr({0, 2, 1, 3})));
}

Value RaiseRewriter::selectFeatures(Value value, int64_t offset, int64_t stride, int64_t count) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t features = type.getShape().back();
  if (offset == 0 && stride == 1 && count == features) {
    return value;
  }
  OpBuilder::InsertionGuard guard(builder);
  RankedTensorType narrow = typeLike(value, {count});
  if (auto linear = value.getDefiningOp<lm::LinearOp>(); linear && !linear.getResidual()) {
    Value weight = sliceWeight(linear.getWeight(), 0, offset, stride, count);
    Value bias =
        linear.getBias() ? sliceWeight(linear.getBias(), 0, offset, stride, count) : Value();
    builder.setInsertionPointAfter(linear);
    return lm::LinearOp::create(builder, linear.getLoc(), narrow, linear.getX(), weight, bias,
                                Value());
  }
  if (auto linear = value.getDefiningOp<lm::GroupedLinearOp>()) {
    Value weight = sliceWeight(linear.getWeight(), 1, offset, stride, count);
    Value bias =
        linear.getBias() ? sliceWeight(linear.getBias(), 1, offset, stride, count) : Value();
    builder.setInsertionPointAfter(linear);
    return lm::GroupedLinearOp::create(builder, linear.getLoc(), narrow, linear.getX(),
                                       linear.getIds(), weight, bias);
  }
  builder.setInsertionPointAfterValue(value);
  Location loc = value.getLoc();
  SmallVector<OpFoldResult> offsets, sizes, strides;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    bool last = d + 1 == type.getRank();
    offsets.push_back(builder.getIndexAttr(last ? offset : 0));
    strides.push_back(builder.getIndexAttr(last ? stride : 1));
    if (last) {
      sizes.push_back(builder.getIndexAttr(count));
    } else if (type.isDynamicDim(static_cast<unsigned>(d))) {
      sizes.push_back(tensor::DimOp::create(builder, loc, value, d).getResult());
    } else {
      sizes.push_back(builder.getIndexAttr(type.getDimSize(d)));
    }
  }
  return tensor::ExtractSliceOp::create(builder, loc, narrow, value, offsets, sizes, strides);
}

Location RaiseRewriter::fuse(ArrayRef<Operation *> ops) {
  SmallVector<Location> locations;
  for (Operation *op : ops) {
    if (op && !llvm::is_contained(locations, op->getLoc())) {
      locations.push_back(op->getLoc());
    }
  }
  return locations.size() == 1 ? locations.front()
                               : FusedLoc::get(function.getContext(), locations);
}

void sluicec::raise::eraseUnused(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front()))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
}

void sluicec::raise::updateFunctionType(func::FuncOp function) {
  Block &body = function.getBody().front();
  function.setType(FunctionType::get(function.getContext(), body.getArgumentTypes(),
                                     body.getTerminator()->getOperandTypes()));
}

Value sluicec::raise::skipIdentity(TensorViews &views, Value value) {
  if (!isa_and_nonnull<onnx::NodeOp>(value.getDefiningOp())) {
    return value;
  }
  const TensorView &view = views.of(value);
  return view.base != value && view.isIdentity() ? view.base : value;
}

std::optional<double> sluicec::raise::constantNumber(Value value) {
  if (!value) {
    return std::nullopt;
  }
  if (auto floats = onnx::floatElements(value); floats && floats->size() == 1) {
    return floats->front();
  }
  if (auto integers = onnx::integerElements(value); integers && integers->size() == 1) {
    return static_cast<double>(integers->front());
  }
  return std::nullopt;
}

void RaiseRewriter::finish() {
  for (Operation &op : function.getBody().front()) {
    for (OpOperand &operand : op.getOpOperands()) {
      Value simple = skipIdentity(views, operand.get());
      if (simple != operand.get()) {
        operand.set(simple);
      }
    }
  }
  eraseUnused(function);
  updateFunctionType(function);
}
