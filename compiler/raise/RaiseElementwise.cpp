// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise nodes between raised values to arith, math and linalg.generic; see Passes.td.
#include "compiler/raise/NodeMatch.h"
#include "compiler/raise/Passes.h"
#include "compiler/raise/RaiseRewriter.h"

#include "llvm/ADT/StringSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <limits>

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISEELEMENTWISE
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

/// One operand of an elementwise node.
struct Operand {
  std::optional<double> number; // a constant number
  Value tensor;                 // else an activation [.., F] or [.., 1], or a weight [F]
  bool isWeight = false;
};

/// Numbers in, number out: how the node computes one element; null for an operator without a rule.
using Body = function_ref<Value(OpBuilder &, Location, ArrayRef<Value>)>;

Value number(OpBuilder &b, Location loc, double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value)));
}

Value computeElement(StringRef type, OpBuilder &b, Location loc, ArrayRef<Value> x) {
  auto one = [&] { return number(b, loc, 1.0); };
  return llvm::StringSwitch<function_ref<Value()>>(type)
      .Case("Add", [&]() -> Value { return arith::AddFOp::create(b, loc, x[0], x[1]); })
      .Case("Sub", [&]() -> Value { return arith::SubFOp::create(b, loc, x[0], x[1]); })
      .Case("Mul", [&]() -> Value { return arith::MulFOp::create(b, loc, x[0], x[1]); })
      .Case("Div", [&]() -> Value { return arith::DivFOp::create(b, loc, x[0], x[1]); })
      .Case("Max", [&]() -> Value { return arith::MaximumFOp::create(b, loc, x[0], x[1]); })
      .Case("Min", [&]() -> Value { return arith::MinimumFOp::create(b, loc, x[0], x[1]); })
      .Case("Pow", [&]() -> Value { return math::PowFOp::create(b, loc, x[0], x[1]); })
      .Case("Neg", [&]() -> Value { return arith::NegFOp::create(b, loc, x[0]); })
      .Case("Exp", [&]() -> Value { return math::ExpOp::create(b, loc, x[0]); })
      .Case("Log", [&]() -> Value { return math::LogOp::create(b, loc, x[0]); })
      .Case("Sqrt", [&]() -> Value { return math::SqrtOp::create(b, loc, x[0]); })
      .Case("Tanh", [&]() -> Value { return math::TanhOp::create(b, loc, x[0]); })
      .Case("Erf", [&]() -> Value { return math::ErfOp::create(b, loc, x[0]); })
      .Case("Abs", [&]() -> Value { return math::AbsFOp::create(b, loc, x[0]); })
      .Case("Reciprocal", [&]() -> Value { return arith::DivFOp::create(b, loc, one(), x[0]); })
      .Case("Relu",
            [&]() -> Value { return arith::MaximumFOp::create(b, loc, x[0], number(b, loc, 0.0)); })
      .Case("Sigmoid",
            [&]() -> Value {
              Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x[0]));
              return arith::DivFOp::create(b, loc, one(), arith::AddFOp::create(b, loc, e, one()));
            })
      .Default([]() -> Value { return {}; })();
}

size_t arity(StringRef type) {
  return llvm::StringSwitch<size_t>(type)
      .Cases({"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"}, 2)
      .Cases({"Neg", "Exp", "Log", "Sqrt", "Tanh", "Erf", "Abs", "Reciprocal", "Relu", "Sigmoid"},
             1)
      .Default(0);
}

/// Operators that exist on whole tensors.
Value wholeTensorOp(StringRef type, OpBuilder &b, Location loc, ArrayRef<Operand> operands) {
  bool plain = llvm::all_of(operands, [&](const Operand &operand) {
    return operand.tensor && !operand.isWeight &&
           operand.tensor.getType() == operands[0].tensor.getType();
  });
  if (!plain || type == "Reciprocal" || type == "Relu" || type == "Sigmoid") {
    return {};
  }
  SmallVector<Value> tensors;
  for (const Operand &operand : operands) {
    tensors.push_back(operand.tensor);
  }
  return computeElement(type, b, loc, tensors);
}

class ElementwiseRaiser {
public:
  explicit ElementwiseRaiser(func::FuncOp function) : rewriter(function) {}

  RaiseRewriter rewriter;

  bool raise(NodeBinder node) {
    StringRef type = node.op().getOpType();
    auto result = node.resultType(0);
    size_t count = node.op().getDomain().empty() ? arity(type) : 0;
    if (count == 0 || node.numOperands() != count || !result || !result.getElementType().isF32()) {
      return false;
    }
    SmallVector<Operand> operands;
    Value widest; // the activation of most features
    for (size_t i = 0; i < count; ++i) {
      std::optional<Operand> operand = read(node.operand(i));
      if (!operand) {
        return false;
      }
      if (operand->tensor && !operand->isWeight &&
          (!widest || features(operand->tensor) > features(widest))) {
        widest = operand->tensor;
      }
      operands.push_back(*operand);
    }
    if (!widest ||
        !llvm::all_of(operands, [&](const Operand &operand) { return fits(operand, widest); })) {
      return false;
    }
    Location loc = node.op()->getLoc();
    Value raised = wholeTensorOp(type, rewriter.builder, loc, operands);
    raised = raised ? raised : generic(type, loc, operands, widest);
    Value old = node.op()->getResult(0);
    raised = rewriter.reshapeLike(raised, old);
    if (!raised) {
      return false;
    }
    rewriter.replace(old, raised);
    return true;
  }

private:
  static int64_t features(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape().back();
  }

  std::optional<Operand> read(Value value) {
    Operand operand;
    if ((operand.number = constantNumber(value))) {
      return operand;
    }
    if (Value weight = rewriter.weight(value)) {
      auto type = cast<RankedTensorType>(weight.getType());
      if (type.getNumElements() != type.getShape().back()) {
        return std::nullopt;
      }
      operand.tensor = rewriter.reshapeWeight(weight, {type.getNumElements()});
      operand.isWeight = true;
      return operand;
    }
    auto rows = rewriter.views.rows(value);
    if (!rows || rows->repeats != 1 || shapeOf(rows->base).size() < 3 ||
        isa_and_nonnull<onnx::NodeOp>(rows->base.getDefiningOp())) {
      return std::nullopt;
    }
    operand.tensor = rewriter.rowsOf(*rows);
    return operand;
  }

  static bool fits(const Operand &operand, Value widest) {
    if (operand.number) {
      return true;
    }
    if (operand.isWeight) {
      return features(operand.tensor) == features(widest);
    }
    auto own = cast<RankedTensorType>(operand.tensor.getType()),
         other = cast<RankedTensorType>(widest.getType());
    return own.getRank() == other.getRank() &&
           own.getShape().drop_back() == other.getShape().drop_back() &&
           (features(operand.tensor) == 1 || features(operand.tensor) == features(widest));
  }

  /// linalg.generic over all elements of `widest`; [.., 1] and [F] operands are broadcast, numbers
  /// stand in the body.
  Value generic(StringRef type, Location loc, ArrayRef<Operand> operands, Value widest) {
    OpBuilder &builder = rewriter.builder;
    MLIRContext *context = builder.getContext();
    auto result = rewriter.typeLike(widest, {features(widest)});
    auto rank = static_cast<unsigned>(result.getRank());
    SmallVector<Value> inputs;
    SmallVector<AffineMap> maps;
    for (const Operand &operand : operands) {
      if (operand.number) {
        continue;
      }
      inputs.push_back(operand.tensor);
      SmallVector<AffineExpr> at;
      for (unsigned d = operand.isWeight ? rank - 1 : 0; d < rank; ++d) {
        bool broadcast = d + 1 == rank && features(operand.tensor) == 1;
        at.push_back(broadcast ? getAffineConstantExpr(0, context) : getAffineDimExpr(d, context));
      }
      maps.push_back(AffineMap::get(rank, 0, at, context));
    }
    maps.push_back(AffineMap::getMultiDimIdentityMap(rank, context));
    SmallVector<Value> dynamic;
    for (unsigned d = 0; d < rank; ++d) {
      if (result.isDynamicDim(d)) {
        dynamic.push_back(tensor::DimOp::create(builder, loc, widest, static_cast<int64_t>(d)));
      }
    }
    Value empty = tensor::EmptyOp::create(builder, loc, result, dynamic);
    SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
    auto op = linalg::GenericOp::create(
        builder, loc, TypeRange{result}, inputs, ValueRange{empty}, maps, iterators,
        [&](OpBuilder &b, Location at, ValueRange arguments) {
          SmallVector<Value> x;
          size_t next = 0;
          for (const Operand &operand : operands) {
            x.push_back(operand.number ? number(b, at, *operand.number)
                                       : widened(b, at, arguments[next++]));
          }
          linalg::YieldOp::create(b, at, computeElement(type, b, at, x));
        });
    return op.getResult(0);
  }

  static Value widened(OpBuilder &b, Location loc, Value value) {
    return value.getType().isF32() ? value : arith::ExtFOp::create(b, loc, b.getF32Type(), value);
  }
};

struct RaiseElementwise : sluicec::raise::impl::RaiseElementwiseBase<RaiseElementwise> {
  using RaiseElementwiseBase::RaiseElementwiseBase;

  void runOnOperation() override {
    ElementwiseRaiser raiser(getOperation());
    for (Operation *op : raiser.rewriter.operations()) {
      NodeBinder node(op);
      if (node && !op->use_empty()) {
        raiser.rewriter.setInsertionPoint(op);
        raiser.raise(node);
      }
    }
    raiser.rewriter.finish();
  }
};

} // namespace
