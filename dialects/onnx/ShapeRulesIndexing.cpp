// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inference rules of operators that generate, select or reduce elements.
#include "dialects/onnx/ElementTypes.h"
#include "dialects/onnx/ShapeRules.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace sluicec::onnx;
using namespace sluicec::onnx::rules;

using Values = llvm::SmallVector<SymbolicExpr>;

static Type int64Type(InferContext &c) { return IntegerType::get(c.binder.op().getContext(), 64); }

static SymbolicShape staticShape(llvm::ArrayRef<int64_t> sizes) {
  SymbolicShape shape;
  for (int64_t size : sizes) {
    shape.push_back(SymbolicExpr::constant(size));
  }
  return shape;
}

// Import makes onnx.constant and onnx.weight of Constant nodes; this rule serves text that still
// has one.
LogicalResult rules::constant(InferContext &c) {
  MLIRContext *context = c.binder.op().getContext();
  if (DenseElementsAttr tensor = c.binder.attrTensor("value")) {
    c.setResult(0, tensor.getElementType(), staticShape(tensor.getType().getShape()));
  } else if (c.binder.hasAttr("value_int")) {
    c.setResult(0, int64Type(c), SymbolicShape());
    c.setValues(0, {SymbolicExpr::constant(c.binder.attrInt("value_int", 0))});
  } else if (auto ints = c.binder.attrInts("value_ints")) {
    c.setResult(0, int64Type(c), staticShape({static_cast<int64_t>(ints->size())}));
    c.setValues(0, llvm::map_to_vector(*ints, [](int64_t v) { return SymbolicExpr::constant(v); }));
  } else if (c.binder.hasAttr("value_float")) {
    c.setResult(0, Float32Type::get(context), SymbolicShape());
  } else if (auto floats = c.binder.attrFloats("value_floats")) {
    c.setResult(0, Float32Type::get(context), staticShape({static_cast<int64_t>(floats->size())}));
  }
  return success();
}

LogicalResult rules::constantOfShape(InferContext &c) {
  DenseElementsAttr fill = c.binder.attrTensor("value");
  Type type = fill ? fill.getElementType() : Float32Type::get(c.binder.op().getContext());
  const TensorFacts &sizes = c.operand(0);
  std::optional<int64_t> rank = sizes.shape ? numElements(*sizes.shape).asConstant() : std::nullopt;
  if (!sizes.values && !rank) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  SymbolicShape shape(rank.value_or(0));
  if (sizes.values) {
    shape.assign(sizes.values->begin(), sizes.values->end());
  }
  c.setResult(0, type, shape);
  std::optional<int64_t> count = numElements(shape).asConstant();
  auto intType = fill ? dyn_cast<IntegerType>(type) : IntegerType();
  if (intType && intType.getWidth() <= 64 && fill.getNumElements() == 1 && count && *count >= 0 &&
      *count <= static_cast<int64_t>(kMaxSymbolicValues)) {
    APInt value = *fill.value_begin<APInt>();
    bool isUnsigned = intType.isUnsigned() || intType.getWidth() == 1;
    int64_t number = isUnsigned ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue();
    c.setValues(0, Values(*count, SymbolicExpr::constant(number)));
  }
  return success();
}

LogicalResult rules::range(InferContext &c) {
  FailureOr<Type> type = sameElementType(c, 0, 1);
  if (failed(type) || failed(sameElementType(c, 0, 2))) {
    return failure();
  }
  auto scalar = [&](size_t index) {
    const auto &values = c.operand(index).values;
    return values && values->size() == 1 ? values->front() : SymbolicExpr();
  };
  SymbolicExpr start = scalar(0);
  SymbolicExpr limit = scalar(1);
  std::optional<int64_t> delta = scalar(2).asConstant();
  SymbolicExpr length;
  if (delta == 0) {
    return c.error() << "delta is 0";
  }
  if (delta && *delta > 0) {
    length = SymbolicExpr::max(limit - start, SymbolicExpr::constant(0));
    length = *delta == 1
                 ? length
                 : SymbolicExpr::floorDiv(length + SymbolicExpr::constant(*delta - 1), *delta);
  } else if (delta && start.asConstant() && limit.asConstant()) {
    int64_t span = *start.asConstant() - *limit.asConstant();
    length = SymbolicExpr::constant(span <= 0 ? 0 : (span - *delta - 1) / -*delta);
  }
  c.setResult(0, *type, SymbolicShape{length.isUnknown() ? c.dataDependentSize("range") : length});
  std::optional<int64_t> count = length.asConstant();
  if (count && !start.isUnknown() && *count <= static_cast<int64_t>(kMaxSymbolicValues)) {
    Values values;
    for (int64_t i = 0; i < *count; ++i) {
      values.push_back(start + SymbolicExpr::constant(i) * SymbolicExpr::constant(*delta));
    }
    c.setValues(0, std::move(values));
  }
  return success();
}

LogicalResult rules::eyeLike(InferContext &c) {
  Type stated = elementTypeFromNumber(c.binder.op().getContext(), c.binder.attrInt("dtype", 0));
  c.setResult(0, stated ? stated : c.operand(0).elementType, c.operand(0).shape);
  return requireRank(c, 0, 2);
}

LogicalResult rules::gather(InferContext &c) {
  const TensorFacts &data = c.operand(0);
  const TensorFacts &indices = c.operand(1);
  Type indexType = indices.elementType;
  if (indexType && !indexType.isInteger(32) && !indexType.isInteger(64)) {
    return c.error() << "the indices are " << elementTypeText(indexType) << ", expected i32 or i64";
  }
  if (!data.shape || !indices.shape) {
    c.setResult(0, data.elementType, std::nullopt);
    return success();
  }
  FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("axis"), data.shape->size());
  if (failed(axis)) {
    return failure();
  }
  SymbolicShape shape(data.shape->begin(), data.shape->begin() + *axis);
  shape.append(indices.shape->begin(), indices.shape->end());
  shape.append(data.shape->begin() + *axis + 1, data.shape->end());
  c.setResult(0, data.elementType, shape);

  auto numbers = c.constants(1);
  std::optional<int64_t> size = (*data.shape)[*axis].asConstant();
  Values values;
  for (int64_t index : numbers.value_or(llvm::SmallVector<int64_t>())) {
    if (size && (index < -*size || index >= *size)) {
      return c.error() << "index " << index << " is outside of dimension " << *axis << " of size "
                       << *size;
    }
    if (data.values && data.shape->size() == 1) {
      values.push_back((*data.values)[index < 0 ? index + *size : index]);
    }
  }
  if (numbers && data.values && data.shape->size() == 1) {
    c.setValues(0, std::move(values));
  }
  return success();
}

LogicalResult rules::gatherElements(InferContext &c) {
  c.setResult(0, c.operand(0).elementType, c.operand(1).shape);
  return success();
}

LogicalResult rules::gatherND(InferContext &c) {
  const std::optional<SymbolicShape> &data = c.operand(0).shape;
  const std::optional<SymbolicShape> &indices = c.operand(1).shape;
  std::optional<int64_t> depth =
      indices && !indices->empty() ? indices->back().asConstant() : std::nullopt;
  int64_t batch = c.binder.attrInt("batch_dims");
  if (!data || !depth) {
    c.setResult(0, c.operand(0).elementType, std::nullopt);
    return success();
  }
  if (batch < 0 || *depth < 0 || batch + *depth > static_cast<int64_t>(data->size())) {
    return c.error() << "batch_dims " << batch << " and index depth " << *depth << " exceed rank "
                     << data->size();
  }
  SymbolicShape shape(indices->begin(), indices->end() - 1);
  shape.append(data->begin() + batch + *depth, data->end());
  c.setResult(0, c.operand(0).elementType, shape);
  return success();
}

LogicalResult rules::nonZero(InferContext &c) {
  SymbolicShape shape(2);
  if (c.operand(0).shape) {
    shape[0] = SymbolicExpr::constant(static_cast<int64_t>(c.operand(0).shape->size()));
  }
  shape[1] = c.dataDependentSize("nonzero");
  c.setResult(0, int64Type(c), shape);
  return success();
}

LogicalResult rules::oneHot(InferContext &c) {
  std::optional<SymbolicShape> shape = c.operand(0).shape;
  if (shape) {
    FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("axis"), shape->size() + 1);
    if (failed(axis)) {
      return failure();
    }
    const auto &depth = c.operand(1).values;
    shape->insert(shape->begin() + *axis,
                  depth && depth->size() == 1 ? depth->front() : SymbolicExpr());
  }
  c.setResult(0, c.operand(2).elementType, shape);
  return success();
}

LogicalResult rules::topK(InferContext &c) {
  std::optional<SymbolicShape> shape = c.operand(0).shape;
  if (shape) {
    FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("axis"), shape->size());
    if (failed(axis)) {
      return failure();
    }
    const auto &count = c.operand(1).values;
    SymbolicExpr k = count && count->size() == 1 ? count->front() : SymbolicExpr();
    std::optional<int64_t> size = (*shape)[*axis].asConstant();
    if (k.asConstant() && size && (*k.asConstant() > *size || *k.asConstant() < 0)) {
      return c.error() << "k is " << *k.asConstant() << ", dimension " << *axis << " has size "
                       << *size;
    }
    (*shape)[*axis] = k;
  }
  c.setResult(0, c.operand(0).elementType, shape);
  c.setResult(1, int64Type(c), shape);
  return success();
}

LogicalResult rules::argReduce(InferContext &c) {
  std::optional<SymbolicShape> shape = c.operand(0).shape;
  if (shape) {
    FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("axis"), shape->size());
    if (failed(axis)) {
      return failure();
    }
    if (c.binder.attrInt("keepdims")) {
      (*shape)[*axis] = SymbolicExpr::constant(1);
    } else {
      shape->erase(shape->begin() + *axis);
    }
  }
  c.setResult(0, int64Type(c), shape);
  return success();
}

LogicalResult rules::reduce(InferContext &c) {
  const TensorFacts &data = c.operand(0);
  // The axes are an attribute before version 18 (ReduceSum: 13) and an operand since.
  std::optional<llvm::SmallVector<int64_t>> axes = llvm::SmallVector<int64_t>();
  if (c.hasOperand(1)) {
    axes = c.constants(1);
  } else if (c.binder.attrInts("axes")) {
    axes->assign(c.binder.attrInts("axes")->begin(), c.binder.attrInts("axes")->end());
  }
  bool keepDims = c.binder.attrInt("keepdims");
  if (!data.shape || (!axes && !keepDims)) {
    c.setResult(0, data.elementType, std::nullopt);
    return success();
  }
  if (!axes) {
    c.setResult(0, data.elementType, SymbolicShape(data.shape->size()));
    return success();
  }
  if (axes->empty() && c.binder.attrInt("noop_with_empty_axes")) {
    c.setResult(0, data.elementType, data.shape);
    return success();
  }
  llvm::SmallVector<bool> reduced(data.shape->size(), axes->empty());
  for (int64_t axis : *axes) {
    FailureOr<int64_t> normalized = c.normalizeAxis(axis, data.shape->size());
    if (failed(normalized)) {
      return failure();
    }
    reduced[*normalized] = true;
  }
  SymbolicShape shape;
  for (auto [size, drop] : llvm::zip_equal(*data.shape, reduced)) {
    if (!drop || keepDims) {
      shape.push_back(drop ? SymbolicExpr::constant(1) : size);
    }
  }
  c.setResult(0, data.elementType, shape);
  llvm::StringRef op = c.binder.op().getOpType();
  if (data.values && !data.values->empty() && numElements(shape).isConstant(1) &&
      (op == "ReduceProd" || op == "ReduceSum")) {
    SymbolicExpr folded = data.values->front();
    for (const SymbolicExpr &value : llvm::drop_begin(*data.values)) {
      folded = op == "ReduceProd" ? folded * value : folded + value;
    }
    c.setValues(0, {folded});
  }
  return success();
}
