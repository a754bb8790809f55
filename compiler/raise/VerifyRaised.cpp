// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of raise: nothing of the file's operators is left, and the model has ids, logits and a
// cache; see Passes.td.
#include "compiler/raise/Passes.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/onnx/InferShapes.h"
#include "dialects/onnx/NodeBinder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_VERIFYRAISED
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;

namespace {

struct VerifyRaised : sluicec::raise::impl::VerifyRaisedBase<VerifyRaised> {
  using VerifyRaisedBase::VerifyRaisedBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    SmallVector<onnx::NodeOp> causes;
    unsigned left = 0;
    for (Operation &op : function.getBody().front()) {
      if (!isa<onnx::OnnxDialect>(op.getDialect())) {
        continue;
      }
      ++left;
      // A node behind another one that is left is a consequence; integers (shapes, positions) are
      // left for whom they serve.
      auto node = dyn_cast<onnx::NodeOp>(op);
      if (node && holdsNumbers(op.getResults().front()) &&
          llvm::none_of(op.getOperands(), [](Value operand) {
            return isa_and_nonnull<onnx::NodeOp>(operand.getDefiningOp()) && holdsNumbers(operand);
          })) {
        causes.push_back(node);
      }
    }
    if (left > 0) {
      constexpr size_t kMaxReports = 3;
      for (onnx::NodeOp node : ArrayRef(causes).take_front(kMaxReports)) {
        emitError(node.getLoc()) << describe(node);
      }
      if (causes.empty()) {
        emitError(function.getLoc()) << left << " operations of the file are left after raise";
      }
      return signalPassFailure();
    }
    if (!hasRole(function, true, "token_ids")) {
      function.emitError()
          << "no argument is looked up in an embedding, expected token ids [batch, tokens]";
      return signalPassFailure();
    }
    if (!hasRole(function, false, "logits")) {
      emitError(function.getLoc())
          << "no result is logits, expected one of [batch, tokens, vocabulary]";
      return signalPassFailure();
    }
  }

  static bool holdsNumbers(Value value) {
    auto type = dyn_cast<ShapedType>(value.getType());
    return !type || isa<FloatType>(type.getElementType());
  }

  static std::string describe(onnx::NodeOp op) {
    std::string text;
    llvm::raw_string_ostream out(text);
    out << op.qualifiedName() << " of (";
    llvm::interleaveComma(op.getInputs(), out,
                          [&](Value input) { printType(out, input.getType()); });
    out << ") can't be raised here, expected a part of a language model: embedding, linear, norm, "
           "rotary embedding, attention, "
           "experts or elementwise code; write it with the operators of the supported exporters";
    return text;
  }

  /// "[s26, s70, 64] f32".
  static void printType(raw_ostream &out, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor) {
      out << type;
      return;
    }
    out << '[';
    llvm::interleaveComma(
        onnx::factsOfType(type).shape.value_or(onnx::SymbolicShape()), out,
        [&](const onnx::SymbolicExpr &size) { out << (size.isUnknown() ? "?" : size.str()); });
    out << "] " << tensor.getElementType();
  }

  static bool hasRole(func::FuncOp function, bool argument, StringRef role) {
    unsigned count = argument ? function.getNumArguments() : function.getNumResults();
    for (unsigned i = 0; i < count; ++i) {
      auto attr = argument ? function.getArgAttrOfType<StringAttr>(i, "lm.role")
                           : function.getResultAttrOfType<StringAttr>(i, "lm.role");
      if (attr && attr.getValue() == role) {
        return true;
      }
    }
    return false;
  }
};

} // namespace
