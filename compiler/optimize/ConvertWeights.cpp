// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// convert-weights: the element type in which the package stores each weight.
#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/Passes.h"
#include "compiler/optimize/WeightPlacement.h"
#include "dialects/lm/LmDialect.h"

#include "llvm/ADT/StringSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <optional>

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_CONVERTWEIGHTS
#include "compiler/optimize/Passes.h.inc"

namespace {

/// True where the operation's result decides which experts run.
bool feedsRouter(Operation *op) {
  return llvm::any_of(op->getUsers(), [](Operation *user) { return isa<lm::RouteOp>(user); });
}

class WeightConverter {
public:
  /// `wanted` is null for keep.
  explicit WeightConverter(Type wanted) : wanted(wanted) {}

  void convertOperands(Operation *op) {
    llvm::SmallPtrSet<OpOperand *, 2> matrices;
    if (auto user = dyn_cast<lm::MatrixOpInterface>(op)) {
      matrices.insert_range(user.matrices());
    }
    for (OpOperand &operand : op->getOpOperands()) {
      Type element = elementOfWeight(operand.get());
      if (element) {
        bool narrow = matrices.contains(&operand) && !feedsRouter(op);
        operand.set(convert(operand.get(), matrices.contains(&operand)
                                               ? matrixType(element, narrow)
                                               : Float32Type::get(op->getContext())));
      }
    }
  }

private:
  Type wanted;
  llvm::DenseMap<std::pair<Value, Type>, Value> converted;

  /// The float element type of a weight, or null for what is no weight or not of floats.
  static Type elementOfWeight(Value v) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    bool isWeight = type && isa_and_nonnull<lm::WeightOpInterface>(v.getDefiningOp()) &&
                    isa<FloatType>(type.getElementType());
    return isWeight ? type.getElementType() : Type();
  }

  Type matrixType(Type stored, bool narrow) {
    if (narrow && wanted) {
      return wanted;
    }
    return stored.isF32() || stored.isF16() || stored.isBF16()
               ? stored
               : Type(Float32Type::get(stored.getContext()));
  }

  Value convert(Value weight, Type element) {
    auto type = cast<RankedTensorType>(weight.getType());
    if (type.getElementType() == element) {
      return weight;
    }
    Value &result = converted[{weight, element}];
    if (!result) {
      OpBuilder b(weight.getContext());
      b.setInsertionPointAfterValue(weight);
      result = lm::WeightConvertOp::create(b, weight.getLoc(), type.clone(element), weight);
    }
    return result;
  }
};

struct ConvertWeights : impl::ConvertWeightsBase<ConvertWeights> {
  using ConvertWeightsBase::ConvertWeightsBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    MLIRContext *context = &getContext();
    if (!isModel(func)) {
      return;
    }
    auto wanted = llvm::StringSwitch<std::optional<Type>>(weights.getValue())
                      .Case("keep", Type())
                      .Case("f32", Float32Type::get(context))
                      .Case("f16", Float16Type::get(context))
                      .Case("bf16", BFloat16Type::get(context))
                      .Default(std::nullopt);
    if (!wanted) {
      func.emitError() << "weights cannot be stored as '" << weights.getValue()
                       << "'; expected keep, f32, f16 or bf16";
      return signalPassFailure();
    }
    hoistWeights(func);
    WeightConverter converter(*wanted);
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
      // A linalg.generic computes in the type it reads; its weights stay.
      if (op.getDialect() &&
          op.getDialect()->getNamespace() == lm::LmDialect::getDialectNamespace() &&
          !isa<lm::WeightOpInterface>(op)) {
        converter.convertOperands(&op);
      }
    }
  }
};

} // namespace
} // namespace sluicec::optimize
