// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of elementwise: the scalar body on vectors of 16.
#include "compiler/codegen/cpu/Templates.h"
#include "compiler/codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace sluicec::cpu {

namespace {

bool isShortFloat(Type t) { return t.isF16() || t.isBF16(); }

/// Clones the body of a kernel.elementwise onto vectors. Short floats are computed in f32 and
/// rounded after each operation, as one operation of the graph at a time would.
class BodyCloner {
public:
  BodyCloner(kernel::ElementwiseOp op, KernelFrame &f) : op(op), f(f) {}

  /// Fails with a diagnostic on the first operation that a kernel cannot do without calling a
  /// library.
  LogicalResult check() {
    for (Operation &inner : op.getBody().front()) {
      bool known = isa<kernel::YieldOp>(inner) ||
                   isa<arith::ArithDialect, math::MathDialect>(inner.getDialect());
      if (!known || inner.getNumRegions() != 0 || isa<arith::RemFOp>(inner)) {
        return inner.emitError() << "'" << inner.getName()
                                 << "' has no CPU code in an elementwise kernel";
      }
      for (Type t : inner.getResultTypes()) {
        if (!t.isIntOrFloat() || (t.isF64() && isTranscendental(inner))) {
          return inner.emitError() << "'" << inner.getName() << "' on " << t
                                   << " has no CPU code in an elementwise kernel; f32 has";
        }
      }
    }
    return success();
  }

  Value clone(ValueRange inputs) {
    IRMapping map;
    map.map(op.getBody().getArguments(), inputs);
    // kernel.yield stands last but is no terminator to MLIR.
    for (Operation &inner : llvm::drop_end(op.getBody().front())) {
      SmallVector<Value> operands;
      for (Value v : inner.getOperands()) {
        operands.push_back(map.lookup(v));
      }
      map.map(inner.getResult(0), vectorOp(inner, operands));
    }
    return map.lookup(cast<kernel::YieldOp>(op.getBody().front().back()).getValue());
  }

private:
  kernel::ElementwiseOp op;
  KernelFrame &f;

  static bool isTranscendental(Operation &inner) {
    return isa<math::MathDialect>(inner.getDialect()) &&
           !isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::FloorOp,
                math::FmaOp, math::RoundEvenOp, math::SqrtOp, math::TruncOp>(inner);
  }

  Value vectorOp(Operation &inner, SmallVector<Value> &operands) {
    Type result = inner.getResult(0).getType();
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      auto splat = DenseElementsAttr::get(f.vec(result), Attribute(constant.getValue()));
      return arith::ConstantOp::create(f, splat);
    }
    if (isa<arith::ExtFOp, arith::TruncFOp>(inner)) {
      return convert(operands[0], result);
    }
    bool rounds = !isa<arith::SelectOp, arith::BitcastOp>(inner);
    Type computed = rounds && isShortFloat(result) ? f.f32() : result;
    if (rounds) {
      for (Value &v : operands) {
        v = isShortFloat(getElementTypeOrSelf(v.getType())) ? f.extend(v) : v;
      }
    }
    Value v = knownFunction(inner, operands);
    if (!v) {
      OperationState state(f.getLoc(), inner.getName());
      state.addOperands(operands);
      state.addTypes(f.vec(computed));
      state.addAttributes(inner.getAttrDictionary().getValue());
      dropFastMath(state);
      v = f.OpBuilder::create(state)->getResult(0);
    }
    return computed == result ? v : f.truncate(v, result);
  }

  /// Functions with a polynomial of ours; CompileObject.cpp expands the others that MLIR knows.
  Value knownFunction(Operation &inner, ArrayRef<Value> operands) {
    return llvm::TypeSwitch<Operation *, Value>(&inner)
        .Case([&](math::ExpOp) { return emitExp(f, operands[0]); })
        .Case([&](math::TanhOp) { return emitTanh(f, operands[0]); })
        .Case([&](math::ErfOp) { return emitErf(f, operands[0]); })
        .Case([&](math::CosOp) { return emitCosSin(f, operands[0]).first; })
        .Case([&](math::SinOp) { return emitCosSin(f, operands[0]).second; })
        .Default([](Operation *) { return Value(); });
  }

  /// Between float types, by way of f32: from f64 to f16 there is a library call otherwise.
  Value convert(Value v, Type to) {
    Type from = getElementTypeOrSelf(v.getType());
    if (to.isF64()) {
      return arith::ExtFOp::create(f, f.vec(to), f.extend(v));
    }
    if (from.isF64()) {
      v = arith::TruncFOp::create(f, f.vec(f.f32()), v);
    }
    return f.truncate(f.extend(v), to);
  }

  /// Bits may not depend on what an optimiser would like to reassociate.
  void dropFastMath(OperationState &state) { state.attributes.erase("fastmath"); }
};

} // namespace

LogicalResult emitTemplate(kernel::ElementwiseOp op, KernelFrame &f) {
  int64_t features = op.getFeatures();
  BodyCloner body(op, f);
  if (failed(body.check())) {
    return failure();
  }
  Value out = f.buffer(op.getOut());
  Type i1 = f.getI1Type(), byte = f.getI8Type();
  f.forCells([&](Value row) {
    Value start = f.mul(row, features);
    f.forChunks(features, [&](Value i, int64_t lanes) {
      SmallVector<Value> inputs;
      for (Value input : op.getInputs()) {
        auto type = cast<kernel::BufferType>(input.getType());
        Type stored = type.getElement() == i1 ? byte : type.getElement();
        Value base = f.buffer(input), v;
        if (type.getUnit() == kernel::Unit::Fixed && type.getFixed() == 1) {
          v = f.splat(f.load(stored, base));
        } else {
          Value offset = type.getUnit() == kernel::Unit::Fixed ? i : f.add(start, i);
          v = f.loadLanes(stored, f.at(stored, base, offset), lanes);
        }
        bool isTruth = type.getElement() == i1;
        inputs.push_back(isTruth ? f.compare(arith::CmpIPredicate::ne, v, f.like(v, 0)) : v);
      }
      Value v = body.clone(inputs);
      if (getElementTypeOrSelf(v.getType()) == i1) {
        v = arith::ExtUIOp::create(f, f.vec(byte), v);
      }
      f.storeLanes(v, f.at(getElementTypeOrSelf(v.getType()), out, f.add(start, i)), lanes);
    });
  });
  return success();
}

} // namespace sluicec::cpu
