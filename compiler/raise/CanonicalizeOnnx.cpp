// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// First pass of raise: after it, patterns see f32 activations, one name per size and no copies.
#include "compiler/raise/Passes.h"
#include "compiler/raise/RaiseRewriter.h"
#include "dialects/onnx/InferShapes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluicec::raise {
#define GEN_PASS_DEF_CANONICALIZEONNX
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

namespace {

/// Sizes that must be equal, as replacements of single names.
class EqualSizes {
public:
  void equate(SymbolicExpr a, SymbolicExpr b) {
    a = resolve(a);
    b = resolve(b);
    SymbolicExpr difference = a - b;
    if (difference.isUnknown() || difference.asConstant()) {
      return; // equal already, or contradictory sizes that another check reports
    }
    // Solve for a name that occurs once with coefficient 1 or -1: `s17 - s84 == 0` gives s84 :=
    // s17. A sum of sizes is better than a difference, since sizes are known to be >= 0; of equals
    // the last name goes.
    std::optional<std::pair<std::string, SymbolicExpr>> chosen;
    std::vector<std::string> names = difference.atoms();
    for (const std::string &name : llvm::reverse(names)) {
      SymbolicExpr atom = SymbolicExpr::atom(name);
      // difference = name + rest, or difference = -name + rest.
      for (const SymbolicExpr &value : {-(difference - atom), difference + atom}) {
        bool solved = !llvm::is_contained(value.atoms(), name);
        if (solved && (!chosen || (value.isAtLeast(0) && !chosen->second.isAtLeast(0)))) {
          chosen = {name, value};
        }
      }
    }
    if (chosen) {
      replacements.push_back(*chosen);
    }
  }

  SymbolicExpr resolve(SymbolicExpr expr) const {
    for (const auto &[name, by] : replacements) {
      if (llvm::is_contained(expr.atoms(), name)) {
        expr = expr.substitute(name, by);
      }
    }
    return expr;
  }
  bool empty() const { return replacements.empty(); }

private:
  std::vector<std::pair<std::string, SymbolicExpr>> replacements;
};

/// Sizes that one node joins.
void collectEqualSizes(const NodeBinder &node, EqualSizes &sizes) {
  StringRef type = node.op().getOpType();
  if (type == "MatMul") {
    SymbolicShape a = shapeOf(node.operand(0)), b = shapeOf(node.operand(1));
    if (a.size() >= 2 && b.size() >= 2) {
      sizes.equate(a.back(), b[b.size() - 2]);
    }
    return;
  }
  if (type == "Attention" && node.op().getDomain().empty()) {
    SymbolicShape keys = shapeOf(node.operand(1)), values = shapeOf(node.operand(2)),
                  mask = shapeOf(node.operand(3));
    SymbolicShape past = shapeOf(node.operand(4)), pastValues = shapeOf(node.operand(5));
    if (keys.empty() || values.size() != keys.size()) {
      return;
    }
    size_t length = keys.size() == 4 ? 2 : 1;
    sizes.equate(keys[length], values[length]);
    if (past.size() == 4 && pastValues.size() == 4) {
      sizes.equate(past[2], pastValues[2]);
    }
    if (!mask.empty()) {
      sizes.equate(past.size() == 4 ? past[2] + keys[length] : keys[length], mask.back());
    }
    return;
  }
  if (type == "Add" || type == "Mul" || type == "Where") {
    // Scores and their mask, results and their weights: both name the same length.
    SymbolicShape result = shapeOf(node.result(0));
    for (size_t i = 0; i < node.numOperands(); ++i) {
      SymbolicShape operand = shapeOf(node.operand(i));
      for (size_t d = 0; d < operand.size(); ++d) {
        const SymbolicExpr &other = result[d + result.size() - operand.size()];
        if (!operand[d].asConstant() && !other.asConstant()) {
          sizes.equate(other, operand[d]);
        }
      }
    }
  }
}

struct CanonicalizeOnnx : sluicec::raise::impl::CanonicalizeOnnxBase<CanonicalizeOnnx> {
  using CanonicalizeOnnxBase::CanonicalizeOnnxBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal()) {
      return;
    }
    EqualSizes sizes;
    function.walk([&](onnx::NodeOp op) { collectEqualSizes(NodeBinder(op), sizes); });
    retype(function, sizes);
    dropCopies(function);
    eraseUnused(function);
    updateFunctionType(function);
  }

  /// Activations of f16, bf16, f64 become f32; sizes get their common names.
  void retype(func::FuncOp function, const EqualSizes &sizes) {
    MLIRContext *context = &getContext();
    DenseMap<Type, Type> types;
    auto convert = [&](Type type) -> Type {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor) {
        return type;
      }
      Type &result = types[type];
      if (!result) {
        SymbolicShape shape = onnx::factsOfType(tensor).shape.value_or(SymbolicShape());
        for (SymbolicExpr &size : shape) {
          size = sizes.empty() ? size : sizes.resolve(size);
        }
        Type element = tensor.getElementType();
        bool narrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() >= 16;
        result = onnx::rankedType(shape, narrow ? Float32Type::get(context) : element);
      }
      return result;
    };
    for (BlockArgument argument : function.getArguments()) {
      auto tensor = dyn_cast<RankedTensorType>(argument.getType());
      if (tensor && isa<FloatType>(tensor.getElementType()) && !tensor.getElementType().isF32()) {
        function.setArgAttr(argument.getArgNumber(), "lm.element",
                            TypeAttr::get(tensor.getElementType()));
      }
      argument.setType(convert(argument.getType()));
    }
    function.walk([&](onnx::NodeOp op) {
      for (Value result : op->getResults()) {
        result.setType(convert(result.getType()));
      }
    });
  }

  void dropCopies(func::FuncOp function) {
    function.walk([&](onnx::NodeOp op) {
      NodeBinder node(op);
      if (!op.getDomain().empty() || !node.operand(0)) {
        return;
      }
      auto from = node.operandType(0), to = node.resultType(0);
      bool copy = op.getOpType() == "Identity" || op.getOpType() == "Dropout";
      if (op.getOpType() == "Cast" && from && to) {
        bool floats = isa<FloatType>(from.getElementType()) && isa<FloatType>(to.getElementType());
        copy = floats || from == to;
      }
      if (copy) {
        op->getResult(0).replaceAllUsesWith(node.operand(0));
      }
    });
  }
};

} // namespace
