// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks a function's operations in order and hands each to its family.
#include "compiler/reference/Interpreter.h"

#include "compiler/reference/Frame.h"
#include "compiler/support/FloatConversion.h"

#include "mlir/IR/BuiltinTypes.h"

namespace sluicec::reference {

using namespace mlir;

template <typename Real>
Interpreter<Real>::Interpreter(func::FuncOp func, support::WeightResolver resolver)
    : func(func), resolver(std::move(resolver)) {}

/// The tensor that a recipe computes.
template <typename Real>
static FailureOr<Tensor<Real>> evaluateWeight(mlir::Value weight,
                                              const support::WeightResolver &resolver) {
  auto reader = support::RecipeReader::create(weight, resolver);
  if (failed(reader)) {
    return failure();
  }
  auto bytes = reader->readAll();
  if (failed(bytes)) {
    return failure();
  }
  Tensor<Real> tensor(reader->shape(), isa<IntegerType>(reader->elementType()));
  if (!tensor.isInteger) {
    support::decodeElements(reader->elementType(), *bytes, tensor.reals);
    return tensor;
  }
  for (size_t i = 0; i < tensor.integers.size(); ++i) {
    tensor.integers[i] = static_cast<int64_t>(
        support::decodeElement(reader->elementType(), *bytes, static_cast<int64_t>(i)));
  }
  return tensor;
}

/// Reports sizes that are not those of the type.
template <typename Real>
static LogicalResult checkValue(Operation *op, mlir::Value v, const RuntimeValue<Real> &value,
                                StringRef what) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  auto tensor = std::get_if<std::shared_ptr<const Tensor<Real>>>(&value);
  if (!type) {
    return success();
  }
  bool fits = tensor && (*tensor)->rank() == type.getRank();
  for (int64_t i = 0; fits && i < type.getRank(); ++i) {
    fits = type.isDynamicDim(i) || type.getDimSize(i) == (*tensor)->shape[static_cast<size_t>(i)];
  }
  if (!fits) {
    InFlightDiagnostic diag = op->emitError() << what << " is " << type << ", found [";
    if (tensor) {
      llvm::interleaveComma((*tensor)->shape, diag);
    }
    return diag << "]";
  }
  return success();
}

template <typename Real>
FailureOr<std::vector<RuntimeValue<Real>>> Interpreter<Real>::run(ArrayRef<Value> arguments) {
  Block &block = func.getBody().front();
  if (arguments.size() != block.getNumArguments()) {
    return func.emitError() << "was given " << arguments.size() << " arguments, expected "
                            << block.getNumArguments();
  }
  Frame<Real> frame{weights, done, onProbe};
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments)) {
    if (failed(checkValue<Real>(func, argument, value, "argument"))) {
      return failure();
    }
    frame.values[argument] = value;
  }
  for (Operation &op : block.without_terminator()) {
    if (isa<lm::WeightOpInterface>(op)) {
      continue; // evaluated where it is used, so that parts of a recipe are never held
    }
    for (mlir::Value operand : op.getOperands()) {
      if (!frame.values.contains(operand)) {
        auto weight = evaluateWeight<Real>(operand, resolver);
        if (failed(weight)) {
          return failure();
        }
        frame.values[operand] = weights[operand] = asValue(std::move(*weight));
      }
    }
    Evaluated result;
    for (auto family : {evaluateTokenWise<Real>, evaluateExperts<Real>, evaluateAttention<Real>,
                        evaluateUpstream<Real>}) {
      result = result ? result : family(&op, frame);
    }
    if (!result) {
      return op.emitError() << "(" << op.getName() << ") cannot be interpreted";
    }
    if (failed(*result)) {
      return failure();
    }
    for (mlir::Value v : op.getResults()) {
      if (failed(checkValue<Real>(&op, v, frame.values[v], "result"))) {
        return failure();
      }
    }
  }
  std::vector<Value> results;
  for (mlir::Value v : block.getTerminator()->getOperands()) {
    results.push_back(frame.values[v]);
  }
  return results;
}

template class Interpreter<double>;
template class Interpreter<float>;

} // namespace sluicec::reference
