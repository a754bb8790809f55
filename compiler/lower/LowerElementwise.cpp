// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise code between lm operations: connected arith/math operations on tensors and
// elementwise linalg.generic become one kernel.elementwise with a scalar body.
#include "compiler/lower/StepLowering.h"

#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace sluicec::lower {

using namespace kernel;

/// A linalg.generic that computes result[i...] from operands at the same place or of one row.
static bool isElementwiseGeneric(linalg::GenericOp op) {
  if (op.getNumDpsInits() != 1 || op->getNumResults() != 1 ||
      op.getNumParallelLoops() != op.getNumLoops() ||
      !op.getIndexingMapsArray().back().isIdentity()) {
    return false;
  }
  // The old contents of the result are not read; the body is scalar arithmetic on its arguments and
  // on constants.
  Block *body = op.getBody();
  auto known = [&](Value v) {
    return v.getParentBlock() == body || v.getDefiningOp<arith::ConstantOp>();
  };
  return body->getArguments().back().use_empty() &&
         llvm::all_of(body->getTerminator()->getOperands(), known) &&
         llvm::all_of(body->without_terminator(), [&](Operation &inner) {
           return isa<arith::ArithDialect, math::MathDialect>(inner.getDialect()) &&
                  inner.getNumRegions() == 0 && inner.getNumResults() == 1 &&
                  llvm::all_of(inner.getOperands(), known);
         });
}

bool StepLowering::isElementwise(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    return isElementwiseGeneric(generic);
  }
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
         op->getNumResults() == 1 && isa<RankedTensorType>(op->getResult(0).getType()) &&
         op->getNumRegions() == 0 && OpTrait::hasElementwiseMappableTraits(op);
}

/// How `operand` of an elementwise operation is read.
static AffineMap mapOf(OpOperand &operand) {
  if (auto generic = dyn_cast<linalg::GenericOp>(operand.getOwner())) {
    return generic.getMatchingIndexingMap(&operand);
  }
  auto type = dyn_cast<RankedTensorType>(operand.get().getType());
  return AffineMap::getMultiDimIdentityMap(type ? type.getRank() : 0, operand.get().getContext());
}

/// Values that an elementwise operation reads: all operands, but not a generic's initial result.
static SmallVector<OpOperand *> inputsOf(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    return generic.getDpsInputOperands();
  }
  return llvm::to_vector(llvm::make_pointer_range(op->getOpOperands()));
}

namespace {

/// The scalar body of one kernel under construction.
class BodyBuilder {
public:
  BodyBuilder(Block &body, OpBuilder builder) : body(body), builder(builder) {}

  Value lookup(Value tensor) const { return scalars.lookup(tensor); }
  void set(Value tensor, Value scalar) { scalars[tensor] = scalar; }

  /// The scalar of an input buffer's element, as `element` (a token id may be i64 in the graph).
  Value addInput(Location loc, Type stored, Type element) {
    Value arg = body.addArgument(stored, loc);
    if (stored == element) {
      return arg;
    }
    if (isa<FloatType>(element)) { // a weight of the file's type, stored as f32: exact
      return arith::TruncFOp::create(builder, loc, element, arg);
    }
    return arith::ExtSIOp::create(builder, loc, element, arg);
  }
  Value constant(Location loc, TypedAttr value) {
    return arith::ConstantOp::create(builder, loc, value);
  }
  /// `op` on scalars: the same operation with element types.
  Value scalarOp(Operation *op, ValueRange operands) {
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(getElementTypeOrSelf(op->getResult(0).getType()));
    state.addAttributes(op->getAttrDictionary().getValue());
    return builder.create(state)->getResult(0);
  }
  Value genericBody(linalg::GenericOp generic, ArrayRef<Value> inputs) {
    IRMapping map;
    for (auto [arg, value] : llvm::zip(generic.getBody()->getArguments().drop_back(), inputs)) {
      map.map(arg, value);
    }
    auto bringConstants = [&](Operation &inner) {
      for (Value v : inner.getOperands()) {
        if (!map.contains(v)) {
          builder.clone(*v.getDefiningOp(), map);
        }
      }
    };
    for (Operation &inner : generic.getBody()->without_terminator()) {
      bringConstants(inner);
      builder.clone(inner, map);
    }
    bringConstants(*generic.getBody()->getTerminator());
    return map.lookup(generic.getBody()->getTerminator()->getOperand(0));
  }
  void yield(Location loc, Value scalar) { YieldOp::create(builder, loc, scalar); }

private:
  Block &body;
  OpBuilder builder;
  llvm::DenseMap<Value, Value> scalars;
};

} // namespace

/// True where `user` reads all of `value` place by place, in rows of the same length.
static bool readsInPlace(OpOperand &use, Value value) {
  return mapOf(use).isIdentity() && rowElements(use.getOwner()->getResult(0)) == rowElements(value);
}

/// The constant that one element of `v` is, or null.
static TypedAttr scalarConstant(Value v) {
  auto constant = v.getDefiningOp<arith::ConstantOp>();
  if (!constant) {
    return {};
  }
  if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue())) {
    return cast<TypedAttr>(splat.getSplatValue<Attribute>());
  }
  return isa<ShapedType>(v.getType()) ? TypedAttr() : constant.getValue();
}

/// True where a static tensor read by `use` is one scalar, or one row of `features` for all rows.
static bool isSharedRow(OpOperand &use, int64_t features) {
  auto type = dyn_cast<RankedTensorType>(use.get().getType());
  if (!type || !type.hasStaticShape()) {
    return false;
  }
  if (type.getNumElements() == 1) {
    return true;
  }
  // Dimensions 1, 2, ... of the result in order; a dimension of size 1 may stay at 0.
  unsigned next = 1;
  for (auto [i, expr] : llvm::enumerate(mapOf(use).getResults())) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (dim ? dim.getPosition() != next++ : type.getDimSize(i) != 1) {
      return false;
    }
  }
  return type.getNumElements() == features;
}

/// True where `use` reads a tensor [rows, 1...] at its own row and 0 elsewhere.
static bool isRowScalar(OpOperand &use) {
  ArrayRef<AffineExpr> exprs = mapOf(use).getResults();
  return !exprs.empty() && exprs.front() == getAffineDimExpr(0, use.getOwner()->getContext()) &&
         rowElements(use.get()) == 1;
}

FailureOr<Value> StepLowering::repeatAcrossRow(Operation *user, Value scalars, int64_t features) {
  auto type = cast<BufferType>(scalars.getType());
  if (!type.getElement().isF32()) {
    return user->emitError("spreads an integer over a row; expected f32");
  }
  Value wide = scratchRows(user, scalars, features, builder.f32());
  if (!wide) {
    return failure();
  }
  builder.launch(user->getLoc(), "repeat_heads", {builder.rowGrid(wide)}, {scalars, wide},
                 [&](OpBuilder &b, ValueRange a) {
                   kernel::RepeatHeadsOp::create(b, user->getLoc(), a[0], a[1], 1, 1, features);
                 });
  return wide;
}

FailureOr<Value> StepLowering::elementwiseInput(OpOperand &use, int64_t features, bool isNew) {
  Value v = use.get();
  Operation *user = use.getOwner();
  if (Value buffer = buffers.lookup(v)) {
    if (readsInPlace(use, v)) {
      return buffer;
    }
    if (isRowScalar(use)) {
      return isNew ? repeatAcrossRow(user, buffer, features) : buffer;
    }
  } else if (scalarConstant(v)) {
    return Value();
  } else if (isSharedRow(use, features)) {
    auto constant = v.getDefiningOp<arith::ConstantOp>();
    auto values = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (values && values.getElementType().isF32()) {
      return isNew ? builder.constantWeight(v.getLoc(), values) : Value();
    }
    if (isa_and_nonnull<lm::WeightOpInterface>(v.getDefiningOp())) {
      return builder.plainWeight(v);
    }
  }
  return user->emitError() << "reads " << v.getType() << " while it computes "
                           << user->getResult(0).getType()
                           << "; expected elementwise code on [rows, features], weights of one row "
                              "and scalars: this mixes rows or has no kernel";
}

/// Computes the operations of `order` from the inputs that `scalars` knows and from constants.
static void emitElementwiseBody(BodyBuilder &scalars, ArrayRef<Operation *> order) {
  for (Operation *op : order) {
    SmallVector<Value> operands;
    for (OpOperand *operand : inputsOf(op)) {
      Value scalar = scalars.lookup(operand->get());
      if (!scalar) {
        scalar = scalars.constant(op->getLoc(), scalarConstant(operand->get()));
        scalars.set(operand->get(), scalar);
      }
      operands.push_back(scalar);
    }
    auto generic = dyn_cast<linalg::GenericOp>(op);
    scalars.set(op->getResult(0),
                generic ? scalars.genericBody(generic, operands) : scalars.scalarOp(op, operands));
  }
}

FailureOr<StepLowering::ElementwiseKernel> StepLowering::collectElementwise(Operation *root) {
  ElementwiseKernel kernel;
  kernel.features = rowElements(root->getResult(0)).value_or(-1);
  llvm::SetVector<Operation *> cone;
  llvm::DenseSet<Value> leaves;
  cone.insert(root);
  for (size_t i = 0; i < cone.size(); ++i) {
    for (OpOperand *operand : inputsOf(cone[i])) {
      Value v = operand->get();
      Operation *def = v.getDefiningOp();
      if (!buffers.contains(v) && def && isElementwise(def) && readsInPlace(*operand, v)) {
        cone.insert(def);
        continue;
      }
      bool isNew = leaves.insert(v).second;
      FailureOr<Value> buffer = elementwiseInput(*operand, kernel.features, isNew);
      if (failed(buffer)) {
        return failure();
      }
      if (isNew && *buffer) {
        kernel.tensors.push_back(v);
        kernel.buffers.push_back(*buffer);
      }
    }
  }
  kernel.order = cone.takeVector();
  llvm::sort(kernel.order, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return kernel;
}

LogicalResult StepLowering::lowerElementwise(Operation *op) {
  Value result = op->getResult(0);
  // Computed where a kernel needs it, when elementwise code alone reads it.
  bool inlinedEverywhere = llvm::all_of(result.getUses(), [&](OpOperand &use) {
    return isElementwise(use.getOwner()) && readsInPlace(use, result);
  });
  if (inlinedEverywhere) {
    return success();
  }
  FailureOr<ElementwiseKernel> kernel = collectElementwise(op);
  if (failed(kernel)) {
    return failure();
  }
  auto rowsLike = llvm::find_if(kernel->buffers, [](Value buffer) {
    return cast<BufferType>(buffer.getType()).getUnit() != Unit::Fixed;
  });
  if (rowsLike == kernel->buffers.end()) {
    return op->emitError("computes rows from nothing that has rows; expected a token's activation "
                         "among its inputs");
  }
  Value out = resultBuffer(result, *rowsLike);
  if (!out) {
    return failure();
  }
  SmallVector<Value> all(kernel->buffers);
  all.push_back(out);
  Location loc = op->getLoc();
  builder.launch(loc, "elementwise", {builder.rowGrid(out)}, all, [&](OpBuilder &b, ValueRange a) {
    auto kernelOp = ElementwiseOp::create(b, loc, a.drop_back(), a.back(), kernel->features);
    Block &body = kernelOp.getBody().emplaceBlock();
    BodyBuilder scalars(body, OpBuilder::atBlockEnd(&body));
    for (auto [tensor, buffer] : llvm::zip(kernel->tensors, kernel->buffers)) {
      scalars.set(tensor, scalars.addInput(loc, cast<BufferType>(buffer.getType()).getElement(),
                                           getElementTypeOrSelf(tensor.getType())));
    }
    emitElementwiseBody(scalars, kernel->order);
    scalars.yield(loc, scalars.lookup(result));
  });
  return success();
}

} // namespace sluicec::lower
