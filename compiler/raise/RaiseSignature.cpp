// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Roles, layers and facts from how values are used; see Passes.td.
#include "compiler/raise/Passes.h"
#include "compiler/raise/RaiseRewriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <utility>

namespace sluicec::raise {
#define GEN_PASS_DEF_RAISESIGNATURE
#include "compiler/raise/Passes.h.inc"
} // namespace sluicec::raise

using namespace mlir;
using namespace sluicec;
using sluicec::raise::updateFunctionType;

namespace {

/// Role and layer of an argument or result.
struct Role {
  StringRef name;
  std::optional<int64_t> layer;
};

Value throughRepeats(Value value) {
  auto repeat = value.getDefiningOp<lm::RepeatHeadsOp>();
  return repeat ? repeat.getX() : value;
}

struct RaiseSignature : sluicec::raise::impl::RaiseSignatureBase<RaiseSignature> {
  using RaiseSignatureBase::RaiseSignatureBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal()) {
        continue;
      }
      // After a failure the names of dimensions stay: they help to read the IR.
      bool raised = llvm::none_of(function.getBody().front(),
                                  [](Operation &op) { return isa<onnx::NodeOp>(op); });
      if (!raised) {
        continue; // verify-raised reports
      }
      raiseFunction(function);
    }
  }

  void raiseFunction(func::FuncOp function) {
    SmallVector<lm::PaddedAttentionOp> layers;
    DenseMap<Value, Role> roles;
    for (Operation &op : function.getBody().front()) {
      if (auto attention = dyn_cast<lm::PaddedAttentionOp>(op)) {
        auto layer = static_cast<int64_t>(layers.size());
        giveCacheRoles(throughRepeats(attention.getKeys()), layer, "past_key", "present_key",
                       roles);
        giveCacheRoles(throughRepeats(attention.getValues()), layer, "past_value", "present_value",
                       roles);
        layers.push_back(attention);
      }
      giveInputRoles(op, roles);
    }
    dropUnusedArguments(function);
    setArgumentRoles(function, roles);
    setResultRoles(function, roles);
    reconcileWindows(layers);
    setFacts(function, static_cast<int64_t>(layers.size()));
    stripDimensionNames(function);
  }

  static void giveCacheRoles(Value cache, int64_t layer, StringRef past, StringRef present,
                             DenseMap<Value, Role> &roles) {
    if (auto append = cache.getDefiningOp<lm::PaddedAppendOp>()) {
      roles.try_emplace(append.getPast(), Role{past, layer});
      roles.try_emplace(append.getResult(), Role{present, layer});
    }
  }

  bool conflict = false; // reported once
  /// One input can't be two things: positions read from a mask are another model than positions.
  void give(Operation &op, Value value, StringRef name, DenseMap<Value, Role> &roles) {
    auto [place, isNew] = roles.try_emplace(value, Role{name, {}});
    if (!isNew && place->second.name != name && !std::exchange(conflict, true)) {
      op.emitError() << "reads one graph input as " << name << " that another node reads as "
                     << place->second.name << "; expected an input for each";
      signalPassFailure();
    }
  }

  void giveInputRoles(Operation &op, DenseMap<Value, Role> &roles) {
    if (auto embedding = dyn_cast<lm::EmbeddingOp>(op)) {
      give(op, embedding.getIds(), "token_ids", roles);
    } else if (auto positions = dyn_cast<lm::PaddedPositionsOp>(op)) {
      give(op, positions.getIds(), "token_ids", roles);
      give(op, positions.getMask(), "attention_mask", roles);
    } else if (auto table = dyn_cast<lm::RopeTableOp>(op)) {
      if (!table.getPositions().getDefiningOp()) {
        give(op, table.getPositions(), "position_ids", roles);
      }
    } else if (auto attention = dyn_cast<lm::PaddedAttentionOp>(op);
               attention && attention.getMask()) {
      give(op, attention.getMask(), "attention_mask", roles);
    }
  }

  static void dropUnusedArguments(func::FuncOp function) {
    llvm::BitVector unused(function.getNumArguments());
    for (BlockArgument argument : function.getArguments()) {
      unused[argument.getArgNumber()] = argument.use_empty();
    }
    (void)function.eraseArguments(unused);
  }

  void setArgumentRoles(func::FuncOp function, const DenseMap<Value, Role> &roles) {
    Builder builder(&getContext());
    for (BlockArgument argument : function.getArguments()) {
      Role role = roles.lookup(argument);
      if (role.name.empty()) {
        function.emitError()
            << "argument " << argument.getArgNumber() << " of type " << argument.getType()
            << " has no known role, expected token ids, position ids, attention mask or past";
        return signalPassFailure();
      }
      function.setArgAttr(argument.getArgNumber(), "lm.role", builder.getStringAttr(role.name));
      if (role.layer) {
        function.setArgAttr(argument.getArgNumber(), "lm.layer",
                            builder.getI64IntegerAttr(*role.layer));
      }
    }
  }

  /// Caches by their role; of the other results the one with features over the embedding's
  /// vocabulary, else the first, is the logits, and what remains is dropped with a warning.
  void setResultRoles(func::FuncOp function, const DenseMap<Value, Role> &roles) {
    Builder builder(&getContext());
    Operation *terminator = function.getBody().front().getTerminator();
    llvm::BitVector dropped(terminator->getNumOperands());
    std::optional<unsigned> logits;
    for (OpOperand &operand : terminator->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      Role role = roles.lookup(operand.get());
      if (!role.name.empty() && role.layer) {
        function.setResultAttr(index, "lm.role", builder.getStringAttr(role.name));
        function.setResultAttr(index, "lm.layer", builder.getI64IntegerAttr(*role.layer));
      } else if (!logits) {
        logits = index;
        function.setResultAttr(index, "lm.role", builder.getStringAttr("logits"));
      } else {
        emitWarning(function.getLoc())
            << "result " << index << " is neither logits nor cache; it is left out";
        dropped.set(index);
      }
    }
    terminator->eraseOperands(dropped);
    (void)function.eraseResults(dropped);
  }

  void reconcileWindows(ArrayRef<lm::PaddedAttentionOp> layers) {
    if (configWindow < 0) {
      return;
    }
    int64_t window = configWindow;
    bool some = llvm::any_of(layers, [&](lm::PaddedAttentionOp op) {
      return static_cast<int64_t>(op.getMaskWindow()) == window;
    });
    if (layers.empty() || some) { // a model may have the window in some of its layers
      return;
    }
    lm::PaddedAttentionOp first = layers.front();
    if (!trustConfig) {
      first.emitWarning()
          << "graph and config.json disagree: the graph's attention window is "
          << first.getMaskWindow() << ", sliding_window is " << window
          << " (0 is none); the graph is followed, --trust=config takes config.json's";
      return;
    }
    for (lm::PaddedAttentionOp op : layers) {
      op.setMaskWindow(static_cast<uint64_t>(window));
    }
  }

  void setFacts(func::FuncOp function, int64_t numLayers) {
    Builder builder(&getContext());
    int64_t hidden = 0, vocabulary = 0, tableLength = 0;
    for (Operation &op : function.getBody().front()) {
      if (auto embedding = dyn_cast<lm::EmbeddingOp>(op)) {
        hidden = lm::featuresOf(embedding.getResult());
      }
      if (auto length = op.getAttrOfType<IntegerAttr>("lm.table_length")) {
        tableLength = std::max(tableLength, length.getInt());
        op.removeAttr("lm.table_length");
      }
    }
    for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
      auto role = function.getResultAttrOfType<StringAttr>(static_cast<unsigned>(index), "lm.role");
      if (role && role.getValue() == "logits") {
        vocabulary = cast<RankedTensorType>(type).getShape().back();
      }
    }
    int64_t context = configContext > 0 ? configContext.getValue() : tableLength;
    auto fact = [&](StringRef name, int64_t value) {
      return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
    };
    getOperation()->setAttr(
        "lm.model", builder.getDictionaryAttr({fact("vocab", vocabulary), fact("context", context),
                                               fact("layers", numLayers), fact("hidden", hidden)}));
  }

  void stripDimensionNames(func::FuncOp function) {
    auto strip = [](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (type && type.getEncoding()) {
        value.setType(RankedTensorType::get(type.getShape(), type.getElementType()));
      }
    };
    function.walk([&](Operation *op) {
      llvm::for_each(op->getResults(), strip);
      for (Region &region : op->getRegions()) {
        for (Block &block : region) {
          llvm::for_each(block.getArguments(), strip);
        }
      }
    });
    updateFunctionType(function);
  }
};

} // namespace
