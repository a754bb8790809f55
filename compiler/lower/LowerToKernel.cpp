// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass lower-to-kernel: finds the packed function, binds its arguments and results to the
// step's buffers and walks its operations in order.
#include "compiler/lower/Passes.h"
#include "compiler/lower/StepLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace sluicec::lower {

#define GEN_PASS_DEF_LOWERTOKERNEL
#include "compiler/lower/Passes.h.inc"

using namespace kernel;

std::optional<int64_t> rowElements(Value activation) {
  auto type = dyn_cast<RankedTensorType>(activation.getType());
  if (!type || type.getRank() < 1 || !type.isDynamicDim(0)) {
    return std::nullopt;
  }
  std::optional<int64_t> total = 1;
  for (int64_t d : type.getShape().drop_front()) {
    total = checkedProduct(total, ShapedType::isDynamic(d) ? -1 : d);
  }
  return total;
}

static StringRef roleOf(DictionaryAttr attrs) {
  auto role = attrs ? attrs.getAs<StringAttr>("lm.role") : StringAttr();
  return role ? role.getValue() : StringRef();
}

LogicalResult StepLowering::run() {
  if (!func.getBody().hasOneBlock()) {
    return func.emitError("control flow is left after raising; expected one block");
  }
  if (failed(bindArguments()) || failed(nameOutputs())) {
    return failure();
  }
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (!absorbed.contains(&op) && failed(lowerOp(&op))) {
      return failure();
    }
  }
  return finishOutputs();
}

LogicalResult StepLowering::bindArguments() {
  for (BlockArgument arg : func.getArguments()) {
    StringRef role = roleOf(func.getArgAttrDict(arg.getArgNumber()));
    if (isa<lm::BatchType>(arg.getType())) {
      continue;
    }
    if (isa<lm::CacheType>(arg.getType())) {
      if (failed(declareGroup(arg))) {
        return failure();
      }
      continue;
    }
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    bool perToken =
        type && type.getRank() == 1 && type.isDynamicDim(0) && type.getElementType().isInteger();
    if (perToken && role == "token_ids") {
      buffers[arg] = builder.input(InputKind::TokenIds);
    } else if (perToken && role == "position_ids") {
      buffers[arg] = builder.input(InputKind::Positions);
    } else {
      return func.emitError() << "argument " << arg.getArgNumber() << " of type " << arg.getType()
                              << " and role '" << role
                              << "' is no input of a step; expected token_ids or position_ids "
                                 "[tokens], a batch or a cache";
    }
  }
  return success();
}

LogicalResult StepLowering::declareGroup(BlockArgument arg) {
  auto layout = cast<lm::CacheType>(arg.getType());
  int64_t group = static_cast<int64_t>(groups.size());
  std::optional<int64_t> row = checkedProduct(layout.getKeyHead() < 0 ? -1 : layout.getKvHeads(),
                                              layout.getKeyHead() + layout.getValueHead());
  std::optional<int64_t> block =
      checkedProduct(checkedProduct(row, layout.getLayers()), kvBlockTokens);
  // A step addresses blocks in bytes; 2^31 per block is far beyond any use.
  if (!block || *block < 1 || *block > (int64_t(1) << 31)) {
    return func.emitError() << "a block of " << kvBlockTokens << " tokens of cache " << layout
                            << " has no sensible size; expected 1 to 2^31 elements";
  }
  cacheGroups[arg] = group;
  groups.push_back({builder.cache(arg.getLoc(), group, layout, kvBlockTokens, *block),
                    builder.input(InputKind::BlockTable, group), layout});
  return success();
}

LogicalResult StepLowering::nameOutputs() {
  Operation *ret = func.getBody().front().getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    Value v = operand.get();
    if (isa<lm::CacheType>(v.getType())) {
      continue;
    }
    StringRef role = roleOf(func.getResultAttrDict(operand.getOperandNumber()));
    std::string name = role.empty() ? "logits" : role.str();
    auto [at, fresh] = outputNames.try_emplace(v, name);
    if (!fresh || llvm::count_if(outputNames, [&](auto &o) { return o.second == name; }) != 1) {
      return func.emitError() << "result " << operand.getOperandNumber() << " ('" << name
                              << "') is given twice; expected each output and role once";
    }
  }
  return outputNames.empty()
             ? func.emitError("returns no logits; expected a result of role 'logits'")
             : success();
}

LogicalResult StepLowering::finishOutputs() {
  Operation *ret = func.getBody().front().getTerminator();
  for (Value v : ret->getOperands()) {
    auto name = outputNames.find(v);
    if (name == outputNames.end()) {
      continue;
    }
    Value buffer = bufferOf(ret, v);
    if (!buffer) {
      return failure();
    }
    if (buffer.getDefiningOp<OutputOp>()) {
      continue;
    }
    // Not written into an output yet: all rows where the graph selects none, or a view.
    auto type = cast<BufferType>(buffer.getType());
    if (!type.getElement().isF32()) {
      return func.emitError() << "output '" << name->second << "' is " << v.getType()
                              << ", expected f32";
    }
    int64_t features = type.getPerUnit();
    Value out = builder.output(ret->getLoc(), name->second,
                               builder.bufferType(Unit::LogitRows, features, 0, builder.f32()));
    if (type.getUnit() == Unit::LogitRows) {
      builder.launch(ret->getLoc(), "elementwise", {builder.rowGrid(out)}, {buffer, out},
                     [&](OpBuilder &b, ValueRange a) {
                       auto op = ElementwiseOp::create(b, ret->getLoc(), a[0], a[1], features);
                       Block &body = op.getBody().emplaceBlock();
                       Value x = body.addArgument(builder.f32(), ret->getLoc());
                       b.setInsertionPointToEnd(&body);
                       YieldOp::create(b, ret->getLoc(), x);
                     });
    } else {
      builder.launch(ret->getLoc(), "logit_rows", {builder.rowGrid(out)},
                     {buffer, builder.input(InputKind::LogitRows), out},
                     [&](OpBuilder &b, ValueRange a) {
                       kernel::LogitRowsOp::create(b, ret->getLoc(), a[0], a[1], a[2], features);
                     });
    }
  }
  return success();
}

FailureOr<bool> StepLowering::lowerWithoutLaunch(Operation *op) {
  if (isa<lm::WeightOpInterface, arith::ConstantOp, tensor::EmptyOp, tensor::DimOp>(op)) {
    return true;
  }
  // Another shape of the same rows is the same memory.
  if (!isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(op)) {
    return false;
  }
  Value source = op->getOperand(0), result = op->getResult(0);
  std::optional<int64_t> before = rowElements(source), after = rowElements(result);
  if (!before || before != after) {
    return op->emitError() << "reshapes " << source.getType() << " to " << result.getType()
                           << " across rows; expected the first dimension to stay";
  }
  Value buffer = bufferOf(op, source);
  if (!buffer) {
    return failure();
  }
  buffers[result] = buffer;
  return true;
}

LogicalResult StepLowering::lowerOp(Operation *op) {
  FailureOr<bool> done = lowerWithoutLaunch(op);
  if (failed(done) || *done) {
    return success(succeeded(done));
  }
  if (isElementwise(op)) {
    return lowerElementwise(op);
  }
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<lm::EmbeddingOp, lm::LinearOp, lm::GatedLinearOp, lm::RmsNormOp, lm::LayerNormOp,
            lm::RopeTableOp, lm::RopeOp, lm::RepeatHeadsOp, lm::GatedActivationOp, lm::RouteOp,
            lm::GroupedLinearOp, lm::CombineOp, lm::ExpertsOp, lm::ProbeOp, lm::CacheAppendOp,
            lm::AttentionOp, lm::LogitRowsOp>([this](auto lmOp) { return lower(lmOp); })
      .Default([this](Operation *other) { return reportUnlowered(other); });
}

LogicalResult StepLowering::reportUnlowered(Operation *op) {
  // An operator of the file carries its own name; raise left it as it was.
  auto operatorName = op->getAttrOfType<StringAttr>("op_type");
  auto diag =
      op->emitError() << "'"
                      << (operatorName ? operatorName.getValue() : op->getName().getStringRef())
                      << "' can't be compiled";
  if (op->getNumOperands() > 0 && op->getNumResults() > 0) {
    diag << ": found " << op->getOperand(0).getType() << " -> " << op->getResult(0).getType();
  }
  return diag << ", expected a part of a known language model operation or elementwise code on "
                 "[tokens, features]; this operation mixes rows or has no kernel: report the "
                 "model, or export it another way";
}

Value StepLowering::bufferOf(Operation *user, Value activation) {
  if (Value buffer = buffers.lookup(activation)) {
    return buffer;
  }
  user->emitError() << "needs an activation [rows, features] that a kernel has computed, found "
                    << activation.getType();
  return {};
}

Value StepLowering::resultBuffer(Value result, Unit rows) {
  Operation *op = result.getDefiningOp();
  Type element = getElementTypeOrSelf(result.getType());
  std::optional<int64_t> perRow = rowElements(result);
  if (!checkedProduct(perRow, 8) || *perRow < 1) {
    op->emitError() << "result is " << result.getType()
                    << ", expected [rows, features...] of an addressable size";
    return {};
  }
  if (!element.isF32() && !element.isInteger(32)) {
    op->emitError() << "result is " << result.getType() << ", expected f32 or i32 elements";
    return {};
  }
  BufferType type = builder.bufferType(rows, *perRow, 0, element);
  auto name = outputNames.find(result);
  if (name != outputNames.end() && rows == Unit::LogitRows && element.isF32()) {
    return buffers[result] = builder.output(op->getLoc(), name->second, type);
  }
  return buffers[result] = builder.workspace(op->getLoc(), type);
}

Value StepLowering::resultBuffer(Value result, Value rowsLike) {
  return resultBuffer(result, cast<BufferType>(rowsLike.getType()).getUnit());
}

Value StepLowering::scratchRows(Operation *op, Value rowsLike, std::optional<int64_t> perRow,
                                Type element) {
  if (!checkedProduct(perRow, 8)) {
    op->emitError("an intermediate row is larger than any machine can address");
    return {};
  }
  Unit unit = cast<BufferType>(rowsLike.getType()).getUnit();
  return builder.workspace(op->getLoc(), builder.bufferType(unit, *perRow, 0, element));
}

Value StepLowering::vectorOf(Value recipe) {
  return recipe ? builder.plainWeight(recipe) : Value();
}

namespace {

struct LowerToKernel : impl::LowerToKernelBase<LowerToKernel> {
  using LowerToKernelBase::LowerToKernelBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    if (functions.size() != 1) {
      module.emitError() << "has " << functions.size()
                         << " functions; expected one packed model function";
      return signalPassFailure();
    }
    if (kvBlockTokens.getValue() < 1 || kvBlockTokens.getValue() > 1024) {
      module.emitError() << "kv-block-tokens is " << kvBlockTokens.getValue()
                         << "; expected 1 to 1024";
      return signalPassFailure();
    }
    ProgramBuilder builder(module);
    if (failed(StepLowering(functions[0], builder, kvBlockTokens.getValue()).run())) {
      return signalPassFailure();
    }
    functions[0].erase();
  }
};

} // namespace
} // namespace sluicec::lower
