// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inference rules of operators that move data or change its shape.
#include "dialects/onnx/ElementTypes.h"
#include "dialects/onnx/ShapeRules.h"

#include "mlir/IR/BuiltinTypes.h"

#include <numeric>

using namespace mlir;
using namespace sluicec::onnx;
using namespace sluicec::onnx::rules;

using Values = llvm::SmallVector<SymbolicExpr>;

static Type int64Type(InferContext &c) { return IntegerType::get(c.binder.op().getContext(), 64); }

// Passes the values of operand 0 on where the elements keep their order.
static void keepValues(InferContext &c) {
  if (c.operand(0).values) {
    c.setValues(0, *c.operand(0).values);
  }
}

// The values of a one-dimensional integer operand that is a shape, an axis list, …; empty optional
// where its length is unknown.
static std::optional<Values> listOperand(InferContext &c, size_t index) {
  const TensorFacts &facts = c.operand(index);
  if (facts.values) {
    return facts.values;
  }
  std::optional<int64_t> length =
      facts.shape ? numElements(*facts.shape).asConstant() : std::nullopt;
  if (!length || *length > static_cast<int64_t>(kMaxSymbolicValues)) {
    return std::nullopt;
  }
  return Values(*length, SymbolicExpr());
}

LogicalResult rules::shape(InferContext &c) {
  const std::optional<SymbolicShape> &input = c.operand(0).shape;
  if (!input) {
    c.setResult(0, int64Type(c), SymbolicShape(1));
    return success();
  }
  auto rank = static_cast<int64_t>(input->size());
  auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t(0), rank); };
  int64_t begin = clamp(c.binder.attrInt("start"));
  int64_t end = std::max(begin, clamp(c.binder.attrInt("end", rank)));
  c.setResult(0, int64Type(c), SymbolicShape{SymbolicExpr::constant(end - begin)});
  c.setValues(0, Values(input->begin() + begin, input->begin() + end));
  return success();
}

LogicalResult rules::size(InferContext &c) {
  c.setResult(0, int64Type(c), SymbolicShape());
  if (c.operand(0).shape) {
    c.setValues(0, {numElements(*c.operand(0).shape)});
  }
  return success();
}

// Checks that operand `index` agrees with `shape` outside of `axis` and fills unknown sizes of
// `shape`.
static LogicalResult mergeOutsideAxis(InferContext &c, size_t index, int64_t axis,
                                      SymbolicShape &shape) {
  const SymbolicShape &other = *c.operand(index).shape;
  if (other.size() != shape.size()) {
    return c.error() << "operand " << index << " has rank " << other.size() << ", expected "
                     << shape.size();
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int64_t>(d) == axis) {
      continue;
    }
    std::optional<int64_t> a = shape[d].asConstant();
    std::optional<int64_t> b = other[d].asConstant();
    if (a && b && *a != *b) {
      return c.error() << "operand " << index << " has shape " << shapeText(other) << ", expected "
                       << shapeText(shape) << " outside of axis " << axis;
    }
    shape[d] = !a && (b || shape[d].isUnknown()) ? other[d] : shape[d];
  }
  return success();
}

LogicalResult rules::concat(InferContext &c) {
  Type type = c.operand(0).elementType;
  bool allRanked = true;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    FailureOr<Type> same = sameElementType(c, 0, i);
    if (failed(same)) {
      return failure();
    }
    type = type ? type : *same;
    allRanked &= c.operand(i).shape.has_value();
  }
  if (!allRanked) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  SymbolicShape shape = *c.operand(0).shape;
  FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("axis", 0), shape.size());
  if (failed(axis)) {
    return failure();
  }
  std::optional<Values> values = Values();
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (i > 0 && failed(mergeOutsideAxis(c, i, *axis, shape))) {
      return failure();
    }
    if (i > 0) {
      shape[*axis] = shape[*axis] + (*c.operand(i).shape)[*axis];
    }
    std::optional<Values> part = shape.size() == 1 ? listOperand(c, i) : std::nullopt;
    if (values && part) {
      values->append(*part);
    } else {
      values.reset();
    }
  }
  c.setResult(0, type, shape);
  if (values && isa_and_nonnull<IntegerType>(type)) {
    c.setValues(0, *values);
  }
  return success();
}

LogicalResult rules::split(InferContext &c) {
  Type type = c.operand(0).elementType;
  size_t parts = c.results.size();
  if (!c.operand(0).shape) {
    for (size_t i = 0; i < parts; ++i) {
      c.setResult(i, type, std::nullopt);
    }
    return success();
  }
  SymbolicShape shape = *c.operand(0).shape;
  FailureOr<int64_t> axis = c.normalizeAxis(c.binder.attrInt("axis"), shape.size());
  if (failed(axis)) {
    return failure();
  }
  SymbolicExpr total = shape[*axis];
  std::optional<Values> sizes = c.hasOperand(1) ? listOperand(c, 1) : std::nullopt;
  if (sizes && sizes->size() != parts) {
    return c.error() << "has " << parts << " results but " << sizes->size() << " split sizes";
  }
  // Without sizes all parts but the last have ceil(total / parts) rows.
  SymbolicExpr equalPart = SymbolicExpr::floorDiv(
      total + SymbolicExpr::constant(static_cast<int64_t>(parts) - 1), static_cast<int64_t>(parts));
  SymbolicExpr exactPart = total.exactDiv(SymbolicExpr::constant(static_cast<int64_t>(parts)));
  equalPart = exactPart.isUnknown() ? equalPart : exactPart;
  std::optional<int64_t> offset = 0;
  for (size_t i = 0; i < parts; ++i) {
    SymbolicExpr part = sizes ? (*sizes)[i] : c.hasOperand(1) ? SymbolicExpr() : equalPart;
    if (!sizes && !c.hasOperand(1) && i + 1 == parts) {
      part = total - equalPart * SymbolicExpr::constant(static_cast<int64_t>(parts) - 1);
    }
    shape[*axis] = part;
    c.setResult(i, type, shape);
    std::optional<int64_t> count = part.asConstant();
    const std::optional<Values> &values = c.operand(0).values;
    if (offset && count && values && shape.size() == 1 &&
        *offset + *count <= static_cast<int64_t>(values->size())) {
      c.setValues(i, Values(values->begin() + *offset, values->begin() + *offset + *count));
    }
    offset = offset && count ? std::optional(*offset + *count) : std::nullopt;
  }
  return success();
}

namespace {
constexpr int64_t kToTheEnd = INT32_MAX; // exporters write "to the end" as this or INT64_MAX

// A bound of a slice as position in [0, size].
SymbolicExpr sliceBound(const SymbolicExpr &bound, const SymbolicExpr &size) {
  SymbolicExpr zero = SymbolicExpr::constant(0);
  std::optional<int64_t> number = bound.asConstant();
  if (number && *number >= kToTheEnd) {
    return size;
  }
  if (number && *number < 0) {
    // [-1:] is how exporters take the last row; no size is 0 there.
    SymbolicExpr fromEnd = *number <= -kToTheEnd ? zero : size + bound;
    return *number == -1 && !size.asConstant() ? fromEnd : SymbolicExpr::max(fromEnd, zero);
  }
  return SymbolicExpr::min(bound, size);
}

SymbolicExpr slicedSize(const SymbolicExpr &start, const SymbolicExpr &end, int64_t step,
                        const SymbolicExpr &size) {
  SymbolicExpr zero = SymbolicExpr::constant(0);
  if (step > 0) {
    SymbolicExpr length = SymbolicExpr::max(sliceBound(end, size) - sliceBound(start, size), zero);
    return step == 1 ? length
                     : SymbolicExpr::floorDiv(length + SymbolicExpr::constant(step - 1), step);
  }
  std::optional<int64_t> s = start.asConstant();
  std::optional<int64_t> e = end.asConstant();
  std::optional<int64_t> d = size.asConstant();
  bool whole = step == -1 && (s == -1 || (s && *s >= kToTheEnd)) && e && *e <= -kToTheEnd;
  if (whole) {
    return size;
  }
  if (!s || !e || !d) {
    return SymbolicExpr();
  }
  int64_t first = std::clamp<int64_t>(*s < 0 ? *s + *d : *s, -1, *d - 1);
  int64_t last = *e <= -kToTheEnd ? -1 : std::clamp<int64_t>(*e < 0 ? *e + *d : *e, -1, *d - 1);
  return SymbolicExpr::constant(first > last ? (first - last - step - 1) / -step : 0);
}

// Values of a sliced list, where bounds and length are numbers and the step is positive.
void sliceValues(InferContext &c, int64_t start, int64_t end, int64_t step) {
  const Values &values = *c.operand(0).values;
  auto length = static_cast<int64_t>(values.size());
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length);
  };
  Values taken;
  for (int64_t i = clamp(std::max(start, -length)); i < clamp(std::max(end, -length)); i += step) {
    taken.push_back(values[i]);
  }
  c.setValues(0, std::move(taken));
}
} // namespace

LogicalResult rules::slice(InferContext &c) {
  Type type = c.operand(0).elementType;
  if (!c.operand(0).shape) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  SymbolicShape shape = *c.operand(0).shape;
  std::optional<Values> starts = listOperand(c, 1);
  std::optional<Values> ends = listOperand(c, 2);
  std::optional<Values> axes = c.hasOperand(3) ? listOperand(c, 3) : std::nullopt;
  std::optional<Values> steps = c.hasOperand(4) ? listOperand(c, 4) : std::nullopt;
  size_t count = starts ? starts->size() : shape.size();
  bool sizesDiffer = (ends && ends->size() != count) || (axes && axes->size() != count) ||
                     (steps && steps->size() != count);
  if (sizesDiffer || count > shape.size()) {
    return c.error() << "starts, ends, axes and steps differ in length or exceed rank "
                     << shape.size();
  }
  for (size_t i = 0; i < count; ++i) {
    std::optional<int64_t> axisValue = axes              ? (*axes)[i].asConstant()
                                       : c.hasOperand(3) ? std::nullopt
                                                         : std::optional<int64_t>(i);
    if (!axisValue) { // any axis may be cut
      c.setResult(0, type, SymbolicShape(shape.size()));
      return success();
    }
    FailureOr<int64_t> axis = c.normalizeAxis(*axisValue, shape.size());
    if (failed(axis)) {
      return failure();
    }
    SymbolicExpr start = starts ? (*starts)[i] : SymbolicExpr();
    SymbolicExpr end = ends ? (*ends)[i] : SymbolicExpr();
    std::optional<int64_t> step = steps             ? (*steps)[i].asConstant()
                                  : c.hasOperand(4) ? std::nullopt
                                                    : std::optional<int64_t>(1);
    if (step == 0) {
      return c.error() << "a step is 0";
    }
    shape[*axis] = step ? slicedSize(start, end, *step, shape[*axis]) : SymbolicExpr();
    std::optional<int64_t> s = start.asConstant();
    std::optional<int64_t> e = end.asConstant();
    if (shape.size() == 1 && c.operand(0).values && s && e && step && *step > 0) {
      sliceValues(c, *s, *e, *step);
    }
  }
  c.setResult(0, type, shape);
  return success();
}

LogicalResult rules::reshape(InferContext &c) {
  Type type = c.operand(0).elementType;
  std::optional<Values> target = listOperand(c, 1);
  if (!target) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  const std::optional<SymbolicShape> &input = c.operand(0).shape;
  SymbolicExpr total = input ? numElements(*input) : SymbolicExpr();
  SymbolicExpr stated = SymbolicExpr::constant(1);
  SymbolicShape shape;
  std::optional<size_t> open; // the dimension that the element count decides
  size_t numOpen = 0;
  for (auto [i, size] : llvm::enumerate(*target)) {
    if (size.isConstant(0) && c.binder.attrInt("allowzero") == 0) {
      if (input && i >= input->size()) {
        return c.error() << "dimension " << i
                         << " of the new shape copies one that the operand, of rank "
                         << input->size() << ", does not have";
      }
      shape.push_back(input ? (*input)[i] : SymbolicExpr());
    } else {
      std::optional<int64_t> number = size.asConstant();
      if (number && *number < -1) {
        return c.error() << "size " << *number << " in dimension " << i << " of the new shape";
      }
      shape.push_back(size.isConstant(-1) ? SymbolicExpr() : size);
    }
    if (shape.back().isUnknown()) {
      open = i;
      ++numOpen;
    } else {
      stated = stated * shape.back();
    }
  }
  if (numOpen == 1) {
    shape[*open] = stated.isConstant(0) ? SymbolicExpr() : total.exactDiv(stated);
  }
  std::optional<int64_t> from = total.asConstant();
  std::optional<int64_t> to = numElements(shape).asConstant();
  bool remainder =
      from && numOpen == 1 && shape[*open].isUnknown() && stated.asConstant().value_or(0) != 0;
  if ((from && to && *from != *to) || remainder) {
    return c.error() << "cannot reshape " << shapeText(*input) << " to " << shapeText(*target)
                     << ": the number of elements differs";
  }
  c.setResult(0, type, shape);
  keepValues(c);
  return success();
}

LogicalResult rules::flatten(InferContext &c) {
  Type type = c.operand(0).elementType;
  SymbolicShape result(2);
  if (const std::optional<SymbolicShape> &shape = c.operand(0).shape) {
    int64_t axis = c.binder.attrInt("axis");
    axis = axis < 0 ? axis + static_cast<int64_t>(shape->size()) : axis;
    if (axis < 0 || axis > static_cast<int64_t>(shape->size())) {
      return c.error() << "axis " << axis << " is outside of a tensor of rank " << shape->size();
    }
    llvm::ArrayRef<SymbolicExpr> sizes(*shape);
    result = {numElements(sizes.take_front(axis)), numElements(sizes.drop_front(axis))};
  }
  c.setResult(0, type, result);
  return success();
}

// The axes that operand 1 lists, counted from the front of a tensor of `rank`; no value where they
// are not known.
static FailureOr<std::optional<llvm::SmallVector<int64_t>>> axesOperand(InferContext &c,
                                                                        size_t rank) {
  auto axes = c.constants(1);
  if (!axes) {
    return std::optional<llvm::SmallVector<int64_t>>();
  }
  for (int64_t &axis : *axes) {
    FailureOr<int64_t> normalized = c.normalizeAxis(axis, rank);
    if (failed(normalized)) {
      return failure();
    }
    axis = *normalized;
  }
  llvm::sort(*axes);
  if (std::adjacent_find(axes->begin(), axes->end()) != axes->end()) {
    c.error() << "an axis is listed twice";
    return failure();
  }
  return axes;
}

LogicalResult rules::squeeze(InferContext &c) {
  Type type = c.operand(0).elementType;
  const std::optional<SymbolicShape> &shape = c.operand(0).shape;
  if (!shape) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  auto axes = axesOperand(c, shape->size());
  if (failed(axes)) {
    return failure();
  }
  if (!*axes && c.hasOperand(1)) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  SymbolicShape result;
  for (auto [i, size] : llvm::enumerate(*shape)) {
    bool dropped = *axes ? llvm::is_contained(**axes, static_cast<int64_t>(i)) : size.isConstant(1);
    if (dropped && size.asConstant().value_or(1) != 1) {
      return c.error() << "dimension " << i << " of " << shapeText(*shape) << " is not 1";
    }
    if (!dropped) {
      result.push_back(size);
    }
  }
  c.setResult(0, type, result);
  keepValues(c);
  return success();
}

LogicalResult rules::unsqueeze(InferContext &c) {
  Type type = c.operand(0).elementType;
  const std::optional<SymbolicShape> &shape = c.operand(0).shape;
  std::optional<Values> list = listOperand(c, 1);
  if (!shape || !list) {
    c.setResult(0, type, std::nullopt);
    return success();
  }
  size_t rank = shape->size() + list->size();
  auto axes = axesOperand(c, rank);
  if (failed(axes)) {
    return failure();
  }
  SymbolicShape result(rank);
  if (*axes) {
    const SymbolicExpr *next = shape->begin();
    for (size_t i = 0; i < rank; ++i) {
      result[i] =
          llvm::is_contained(**axes, static_cast<int64_t>(i)) ? SymbolicExpr::constant(1) : *next++;
    }
  }
  c.setResult(0, type, result);
  keepValues(c);
  return success();
}

LogicalResult rules::transpose(InferContext &c) {
  const std::optional<SymbolicShape> &shape = c.operand(0).shape;
  std::optional<llvm::ArrayRef<int64_t>> stated = c.binder.attrInts("perm");
  size_t rank = shape ? shape->size() : stated ? stated->size() : 0;
  llvm::SmallVector<int64_t> perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (stated) {
    llvm::SmallVector<int64_t> sorted(*stated);
    llvm::sort(sorted);
    llvm::SmallVector<int64_t> expected(rank);
    std::iota(expected.begin(), expected.end(), 0);
    if (sorted != expected) {
      return c.error() << "'perm' is not a permutation of the " << rank
                       << " dimensions of the operand";
    }
    perm.assign(stated->begin(), stated->end());
  }
  std::optional<SymbolicShape> result;
  if (shape) {
    result = SymbolicShape();
    for (int64_t from : perm) {
      result->push_back((*shape)[from]);
    }
  } else if (stated) {
    result = SymbolicShape(rank);
  }
  c.setResult(0, c.operand(0).elementType, result);
  return success();
}

LogicalResult rules::expand(InferContext &c) {
  Type type = c.operand(0).elementType;
  std::optional<Values> target = listOperand(c, 1);
  std::optional<SymbolicShape> targetShape;
  if (target) {
    targetShape = SymbolicShape(target->begin(), target->end());
  }
  auto shape = broadcastShapes(c, c.operand(0).shape, targetShape);
  if (failed(shape)) {
    return failure();
  }
  c.setResult(0, type, *shape);
  const std::optional<Values> &values = c.operand(0).values;
  std::optional<int64_t> count = *shape ? numElements(**shape).asConstant() : std::nullopt;
  if (values && count && *count <= static_cast<int64_t>(kMaxSymbolicValues) &&
      (values->size() == 1 || static_cast<int64_t>(values->size()) == *count)) {
    c.setValues(0, values->size() == 1 ? Values(*count, values->front()) : *values);
  }
  return success();
}

LogicalResult rules::tile(InferContext &c) {
  std::optional<Values> repeats = listOperand(c, 1);
  std::optional<SymbolicShape> shape = c.operand(0).shape;
  if (shape && repeats) {
    if (repeats->size() != shape->size()) {
      return c.error() << "has " << repeats->size() << " repeats for a tensor of rank "
                       << shape->size();
    }
    for (auto [size, repeat] : llvm::zip_equal(*shape, *repeats)) {
      size = size * repeat;
    }
  } else if (shape) {
    shape = SymbolicShape(shape->size());
  }
  c.setResult(0, c.operand(0).elementType, shape);
  return success();
}

LogicalResult rules::pad(InferContext &c) {
  std::optional<SymbolicShape> shape = c.operand(0).shape;
  if (!shape) {
    c.setResult(0, c.operand(0).elementType, std::nullopt);
    return success();
  }
  std::optional<Values> pads = listOperand(c, 1);
  llvm::SmallVector<int64_t> axes(shape->size());
  std::iota(axes.begin(), axes.end(), 0);
  bool axesKnown = true;
  if (c.hasOperand(3)) {
    auto stated = c.constants(3);
    axesKnown = stated.has_value();
    axes = stated.value_or(axes);
  }
  if (!pads || !axesKnown) {
    c.setResult(0, c.operand(0).elementType, SymbolicShape(shape->size()));
    return success();
  }
  if (pads->size() != 2 * axes.size()) {
    return c.error() << "has " << pads->size() << " pads, expected " << 2 * axes.size();
  }
  for (auto [i, axis] : llvm::enumerate(axes)) {
    FailureOr<int64_t> normalized = c.normalizeAxis(axis, shape->size());
    if (failed(normalized)) {
      return failure();
    }
    SymbolicExpr &size = (*shape)[*normalized];
    size = size + (*pads)[i] + (*pads)[axes.size() + i];
  }
  c.setResult(0, c.operand(0).elementType, shape);
  return success();
}
