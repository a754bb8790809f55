// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Upstream operations between those of lm: arith and math on scalars and tensors, linalg.generic,
// tensor views.
#include "compiler/reference/Frame.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::reference {

using namespace mlir;

namespace {

bool isIntegerLike(Type type) { return getElementTypeOrSelf(type).isIntOrIndex(); }

template <typename Real> Scalar<Real> elementOf(const Tensor<Real> &t, int64_t i) {
  auto index = static_cast<size_t>(i);
  return t.isInteger ? Scalar<Real>{Real(0), t.integers[index]} : Scalar<Real>{t.reals[index], 0};
}

template <typename Real> void setElement(Tensor<Real> &t, int64_t i, Scalar<Real> v) {
  auto index = static_cast<size_t>(i);
  t.isInteger ? void(t.integers[index] = v.integer) : void(t.reals[index] = v.real);
}

template <typename Real> int64_t sizeOf(Value v, Frame<Real> &frame) {
  return frame.tensor(v).integers.front();
}

/// An operation on scalars, or on tensors of equal shape and scalars, element by element.
template <typename Real> LogicalResult elementwise(Operation *op, Frame<Real> &frame) {
  Value result = op->getResult(0);
  SmallVector<const Tensor<Real> *> operands;
  const Tensor<Real> *like = nullptr; // an operand with the result's sizes
  for (Value v : op->getOperands()) {
    operands.push_back(&frame.tensor(v));
    if (isa<RankedTensorType>(v.getType())) {
      if (like && like->shape != operands.back()->shape) {
        return op->emitError() << "has operands of different sizes";
      }
      like = operands.back();
    }
  }
  Tensor<Real> out(like ? ArrayRef<int64_t>(like->shape) : ArrayRef<int64_t>(),
                   isIntegerLike(result.getType()));
  SmallVector<Scalar<Real>> scalars(operands.size());
  for (int64_t i = 0, e = out.numElements(); i < e; ++i) {
    for (size_t o = 0; o < operands.size(); ++o) {
      scalars[o] =
          elementOf(*operands[o], isa<RankedTensorType>(op->getOperand(o).getType()) ? i : 0);
    }
    auto value = evaluateScalar<Real>(op, scalars);
    if (!value) {
      return op->emitError() << "(" << op->getName() << ") cannot be interpreted";
    }
    setElement(out, i, *value);
  }
  frame.set(result, std::move(out));
  return success();
}

template <typename Real> LogicalResult constant(arith::ConstantOp op, Frame<Real> &frame) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense) {
    return elementwise(op, frame);
  }
  auto type = cast<RankedTensorType>(op.getType());
  Tensor<Real> out(type.getShape(), isIntegerLike(type));
  int64_t i = 0;
  if (out.isInteger) {
    bool isBool = type.getElementType().isInteger(1);
    for (const APInt &v : dense.getValues<APInt>()) {
      out.integers[static_cast<size_t>(i++)] =
          isBool ? static_cast<int64_t>(v.getZExtValue()) : v.getSExtValue();
    }
  } else {
    for (APFloat v : dense.getValues<APFloat>()) {
      bool lost = false;
      v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      out.reals[static_cast<size_t>(i++)] = static_cast<Real>(v.convertToDouble());
    }
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

/// A linalg.generic under evaluation: loop sizes, and one scalar per value of its body.
template <typename Real> class GenericLoops {
public:
  GenericLoops(linalg::GenericOp op, Frame<Real> &frame) : op(op), frame(frame) {}

  LogicalResult run() {
    if (failed(findSizes())) {
      return failure();
    }
    for (OpOperand &init : op.getDpsInitsMutable()) {
      outs.push_back(frame.tensor(init.get()));
    }
    // Constants and scalars from outside the body.
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands()) {
        if (frame.values.contains(v) && v.getParentBlock() != op.getBody() &&
            !isa<ShapedType>(v.getType())) {
          scalars[v] = elementOf(frame.tensor(v), 0);
        }
      }
    });
    index.assign(op.getNumLoops(), 0);
    if (countElements(sizes) > 0 && failed(runLoops())) {
      return failure();
    }
    for (auto [result, out] : llvm::zip(op->getResults(), outs)) {
      frame.set(result, std::move(out));
    }
    return success();
  }

private:
  linalg::GenericOp op;
  Frame<Real> &frame;
  SmallVector<int64_t> sizes, index;
  SmallVector<Tensor<Real>> outs;
  llvm::DenseMap<Value, Scalar<Real>> scalars;

  LogicalResult findSizes() {
    sizes.assign(op.getNumLoops(), -1);
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      for (auto [i, expr] : llvm::enumerate(map.getResults())) {
        auto dim = dyn_cast<AffineDimExpr>(expr);
        if (!dim) {
          continue;
        }
        int64_t &size = sizes[dim.getPosition()], found = frame.tensor(operand.get()).shape[i];
        if (size >= 0 && size != found) {
          return op.emitError() << "loop " << dim.getPosition() << " runs over sizes " << size
                                << " and " << found;
        }
        size = found;
      }
    }
    return success(!llvm::is_contained(sizes, -1));
  }

  int64_t offsetOf(OpOperand &operand) {
    ArrayRef<int64_t> shape = frame.tensor(operand.get()).shape;
    int64_t offset = 0;
    for (auto [size, expr] : llvm::zip(shape, op.getMatchingIndexingMap(&operand).getResults())) {
      offset = offset * size + evaluateIndex(expr);
    }
    return offset;
  }

  int64_t evaluateIndex(AffineExpr expr) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
      return index[dim.getPosition()];
    }
    if (auto constantExpr = dyn_cast<AffineConstantExpr>(expr)) {
      return constantExpr.getValue();
    }
    auto binary = cast<AffineBinaryOpExpr>(expr);
    int64_t a = evaluateIndex(binary.getLHS()), b = evaluateIndex(binary.getRHS());
    switch (expr.getKind()) {
    case AffineExprKind::Add:
      return a + b;
    case AffineExprKind::Mul:
      return a * b;
    case AffineExprKind::Mod:
      return a % b;
    default:
      return a / b;
    }
  }

  LogicalResult runLoops() {
    for (;;) {
      if (failed(runPoint())) {
        return failure();
      }
      size_t d = index.size();
      while (d > 0 && ++index[d - 1] == sizes[d - 1]) {
        index[--d] = 0;
      }
      if (d == 0) {
        return success();
      }
    }
  }

  LogicalResult runPoint() {
    Block *body = op.getBody();
    unsigned inputs = static_cast<unsigned>(op.getNumDpsInputs());
    SmallVector<int64_t> outOffsets;
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned i = operand.getOperandNumber();
      int64_t offset = offsetOf(operand);
      scalars[body->getArgument(i)] =
          elementOf(i < inputs ? frame.tensor(operand.get()) : outs[i - inputs], offset);
      if (i >= inputs) {
        outOffsets.push_back(offset);
      }
    }
    for (Operation &inner : body->without_terminator()) {
      if (auto loop = dyn_cast<linalg::IndexOp>(inner)) {
        scalars[loop.getResult()] = {Real(0), index[loop.getDim()]};
        continue;
      }
      SmallVector<Scalar<Real>> operands;
      for (Value v : inner.getOperands()) {
        operands.push_back(scalars.lookup(v));
      }
      bool known = inner.getNumRegions() == 0 && inner.getNumResults() == 1;
      auto value = known ? evaluateScalar<Real>(&inner, operands) : std::nullopt;
      if (!value) {
        return inner.emitError() << "(" << inner.getName() << ") cannot be interpreted";
      }
      scalars[inner.getResult(0)] = *value;
    }
    for (auto [i, v] : llvm::enumerate(body->getTerminator()->getOperands())) {
      setElement(outs[i], outOffsets[i], scalars.lookup(v));
    }
    return success();
  }
};

template <typename Real> Tensor<Real> withShape(Tensor<Real> t, ArrayRef<int64_t> shape) {
  t.shape.assign(shape.begin(), shape.end());
  return t;
}

template <typename Real> LogicalResult expandShape(tensor::ExpandShapeOp op, Frame<Real> &frame) {
  const Tensor<Real> &in = frame.tensor(op.getSrc());
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<int64_t> shape(type.getShape());
  for (auto [dim, group] : llvm::zip(in.shape, op.getReassociationIndices())) {
    int64_t known = 1, open = -1;
    for (int64_t d : group) {
      auto i = static_cast<size_t>(d);
      ShapedType::isDynamic(shape[i]) ? void(open = d) : void(known *= shape[i]);
    }
    if (open >= 0) {
      shape[static_cast<size_t>(open)] = known == 0 ? 0 : dim / known;
    }
  }
  if (countElements(shape) != in.numElements()) {
    return op.emitError() << "cannot split " << in.numElements() << " elements so";
  }
  frame.set(op.getResult(), withShape(in, shape));
  return success();
}

template <typename Real>
LogicalResult collapseShape(tensor::CollapseShapeOp op, Frame<Real> &frame) {
  const Tensor<Real> &in = frame.tensor(op.getSrc());
  SmallVector<int64_t> shape;
  for (const auto &group : op.getReassociationIndices()) {
    int64_t size = 1;
    for (int64_t d : group) {
      size *= in.shape[static_cast<size_t>(d)];
    }
    shape.push_back(size);
  }
  frame.set(op.getResult(), withShape(in, shape));
  return success();
}

/// A static size or a value's.
template <typename Real>
SmallVector<int64_t> mixedSizes(ArrayRef<OpFoldResult> sizes, Frame<Real> &frame) {
  return llvm::map_to_vector(sizes, [&](OpFoldResult size) {
    auto attr = dyn_cast<Attribute>(size);
    return attr ? cast<IntegerAttr>(attr).getInt() : sizeOf(cast<Value>(size), frame);
  });
}

template <typename Real> LogicalResult extractSlice(tensor::ExtractSliceOp op, Frame<Real> &frame) {
  const Tensor<Real> &in = frame.tensor(op.getSource());
  SmallVector<int64_t> offsets = mixedSizes(op.getMixedOffsets(), frame),
                       sizes = mixedSizes(op.getMixedSizes(), frame),
                       strides = mixedSizes(op.getMixedStrides(), frame), shape;
  auto dropped = op.getDroppedDims();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (offsets[d] < 0 ||
        (sizes[d] > 0 && offsets[d] + (sizes[d] - 1) * strides[d] >= in.shape[d])) {
      return op.emitError() << "leaves dimension " << d << " of size " << in.shape[d];
    }
    if (!dropped.test(static_cast<unsigned>(d))) {
      shape.push_back(sizes[d]);
    }
  }
  Tensor<Real> out(shape, in.isInteger);
  for (int64_t i = 0, e = out.numElements(); i < e; ++i) {
    int64_t rest = i, from = 0, step = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      from += (offsets[d] + rest % sizes[d] * strides[d]) * step;
      rest /= sizes[d];
      step *= in.shape[d];
    }
    setElement(out, i, elementOf(in, from));
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

/// The sizes of a type with `dynamic` for its open dimensions.
template <typename Real>
SmallVector<int64_t> filledShape(RankedTensorType type, ValueRange dynamic, Frame<Real> &frame) {
  SmallVector<int64_t> shape(type.getShape());
  auto next = dynamic.begin();
  for (int64_t &size : shape) {
    if (ShapedType::isDynamic(size)) {
      size = sizeOf(*next++, frame);
    }
  }
  return shape;
}

template <typename Real> LogicalResult splat(tensor::SplatOp op, Frame<Real> &frame) {
  auto type = cast<RankedTensorType>(op.getType());
  Tensor<Real> out(filledShape(type, op.getDynamicSizes(), frame), isIntegerLike(type));
  Scalar<Real> v = elementOf(frame.tensor(op.getInput()), 0);
  for (int64_t i = 0, e = out.numElements(); i < e; ++i) {
    setElement(out, i, v);
  }
  frame.set(op.getResult(), std::move(out));
  return success();
}

} // namespace

template <typename Real> Evaluated evaluateUpstream(Operation *op, Frame<Real> &frame) {
  auto known =
      llvm::TypeSwitch<Operation *, Evaluated>(op)
          .Case([&](arith::ConstantOp o) { return constant(o, frame); })
          .Case([&](linalg::GenericOp o) { return GenericLoops<Real>(o, frame).run(); })
          .Case([&](tensor::ExpandShapeOp o) { return expandShape(o, frame); })
          .Case([&](tensor::CollapseShapeOp o) { return collapseShape(o, frame); })
          .Case([&](tensor::ExtractSliceOp o) { return extractSlice(o, frame); })
          .Case([&](tensor::SplatOp o) { return splat(o, frame); })
          .Case([&](tensor::CastOp o) {
            frame.values[o.getResult()] = frame.values[o.getSource()];
            return success();
          })
          .Case([&](tensor::DimOp o) {
            int64_t dim = sizeOf(o.getIndex(), frame);
            frame.set(o.getResult(),
                      Tensor<Real>::ofIntegers(
                          {}, {frame.tensor(o.getSource()).shape[static_cast<size_t>(dim)]}));
            return success();
          })
          .Case([&](tensor::EmptyOp o) {
            auto type = cast<RankedTensorType>(o.getType());
            frame.set(o.getResult(), Tensor<Real>(filledShape(type, o.getDynamicSizes(), frame),
                                                  isIntegerLike(type)));
            return success();
          })
          .Default([](Operation *) { return Evaluated(); });
  if (known || !isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
      op->getNumResults() != 1) {
    return known;
  }
  return elementwise(op, frame);
}
template Evaluated evaluateUpstream(Operation *, Frame<double> &);
template Evaluated evaluateUpstream(Operation *, Frame<float> &);

} // namespace sluicec::reference
