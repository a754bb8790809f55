// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Experts: one plan per choice of ids (rows sorted by expert), grouped matmuls, combine.
#include "compiler/lower/KernelChoices.h"
#include "compiler/lower/StepLowering.h"

using namespace mlir;

namespace sluicec::lower {

using namespace kernel;

FailureOr<StepLowering::ExpertPlan> StepLowering::expertPlanOf(Operation *op, Value ids,
                                                               int64_t experts) {
  ExpertPlan &plan = expertPlans[{ids, experts}];
  if (plan.order) {
    return plan;
  }
  Value idsBuffer = bufferOf(op, ids);
  if (!idsBuffer) {
    return failure();
  }
  if (!checkedProduct(experts, 1024)) {
    return op->emitError() << "has " << experts << " experts, more than a plan can list";
  }
  Location loc = op->getLoc();
  int64_t topK = lm::featuresOf(ids);
  Value order = scratchRows(op, idsBuffer, topK, builder.i32());
  Value starts =
      builder.workspace(loc, builder.bufferType(Unit::Fixed, 0, experts + 1, builder.i32()));
  builder.launch(loc, "expert_plan", {builder.gridDim(Unit::Fixed, 0, 1, 1)},
                 {idsBuffer, order, starts}, [&](OpBuilder &b, ValueRange a) {
                   ExpertPlanOp::create(b, loc, a[0], a[1], a[2], experts, topK);
                 });
  plan = {order, starts};
  return plan;
}

void StepLowering::launchGroupedMatmul(Location loc, const GroupedMatmul &m) {
  Unit rows = cast<BufferType>(m.out.getType()).getUnit();
  bool gated = m.gated != nullptr;
  int64_t columns = gated ? kPanelWidth / 2 : kPanelWidth;
  // Each expert's last tile may be partly empty: at most one more tile per expert.
  SmallVector<GridDimAttr> grid{
      builder.gridDim(rows, m.topK, m.experts * kExpertRowTile, kExpertRowTile),
      builder.gridDim(Unit::Fixed, 0, m.n / columns + (m.n % columns != 0), 1)};
  BufferList list;
  list.add(m.x);
  list.add(m.weight);
  int bias = list.add(m.bias), order = list.add(m.plan.order), starts = list.add(m.plan.starts),
      out = list.add(m.out);
  builder.launch(loc, gated ? "gated_grouped_matmul" : "grouped_matmul", grid, list.all(),
                 [&](OpBuilder &b, ValueRange a) {
                   GroupedMatmulOp::create(b, loc, a[0], a[1], BufferList::at(a, bias), a[order],
                                           a[starts], a[out], m.experts, m.topK, m.n, m.k,
                                           builder.panelLayout(gated), m.gated, m.perChoice);
                 });
}

LogicalResult StepLowering::lower(lm::GroupedLinearOp op) {
  auto weightType = cast<RankedTensorType>(op.getWeight().getType()); // [E, N, K]
  int64_t experts = weightType.getDimSize(0);
  Value x = bufferOf(op, op.getX());
  FailureOr<ExpertPlan> plan =
      x ? expertPlanOf(op, op.getIds(), experts) : FailureOr<ExpertPlan>(failure());
  if (failed(plan)) {
    return failure();
  }
  FailureOr<Value> weight = builder.panelWeight(op.getWeight(), builder.panelLayout(false));
  Value out = resultBuffer(op.getResult(), x);
  if (failed(weight) || !out) {
    return failure();
  }
  bool perChoice = cast<RankedTensorType>(op.getX().getType()).getRank() == 3;
  launchGroupedMatmul(op.getLoc(), {x,
                                    *weight,
                                    vectorOf(op.getBias()),
                                    out,
                                    *plan,
                                    experts,
                                    lm::featuresOf(op.getIds()),
                                    weightType.getDimSize(1),
                                    weightType.getDimSize(2),
                                    {},
                                    perChoice});
  return success();
}

LogicalResult StepLowering::launchCombine(Operation *op, Value y, Value weights) {
  Value weightsBuffer = bufferOf(op, weights);
  if (!weightsBuffer) {
    return failure();
  }
  // The sum with the residual stream, where nothing else reads the experts' result. a + b = b + a
  // also in floating point.
  Value result = op->getResult(0), residual;
  if (result.hasOneUse() && !outputNames.contains(result)) {
    auto add = dyn_cast<arith::AddFOp>(*result.getUsers().begin());
    if (add && add.getLhs() != add.getRhs()) {
      Value other = add.getLhs() == result ? add.getRhs() : add.getLhs();
      if ((residual = buffers.lookup(other))) {
        absorbed.insert(add);
        result = add.getResult();
      }
    }
  }
  Value out = resultBuffer(result, y);
  if (!out) {
    return failure();
  }
  BufferList list;
  list.add(y);
  list.add(weightsBuffer);
  int residualSlot = list.add(residual), outSlot = list.add(out);
  int64_t topK = lm::featuresOf(weights), features = lm::featuresOf(result);
  builder.launch(
      op->getLoc(), "combine", {builder.rowGrid(out)}, list.all(), [&](OpBuilder &b, ValueRange a) {
        kernel::CombineOp::create(b, op->getLoc(), a[0], a[1], BufferList::at(a, residualSlot),
                                  a[outSlot], topK, features);
      });
  return success();
}

LogicalResult StepLowering::lower(lm::CombineOp op) {
  Value y = bufferOf(op, op.getY());
  return y ? launchCombine(op, y, op.getWeights()) : failure();
}

LogicalResult StepLowering::lower(lm::ExpertsOp op) {
  auto gateUp = cast<RankedTensorType>(op.getGateUp().getType()); // [E, 2I, K]
  auto down = cast<RankedTensorType>(op.getDown().getType());     // [E, N, I]
  int64_t experts = gateUp.getDimSize(0), inner = down.getDimSize(2), n = down.getDimSize(1);
  int64_t topK = lm::featuresOf(op.getIds());
  Value x = bufferOf(op, op.getX());
  FailureOr<ExpertPlan> plan =
      x ? expertPlanOf(op, op.getIds(), experts) : FailureOr<ExpertPlan>(failure());
  if (failed(plan)) {
    return failure();
  }
  FailureOr<Value> gateUpWeight = builder.panelWeight(op.getGateUp(), builder.panelLayout(true));
  FailureOr<Value> downWeight = builder.panelWeight(op.getDown(), builder.panelLayout(false));
  Value hidden = scratchRows(op, x, checkedProduct(topK, inner), builder.f32()); // [T, k, I]
  Value y =
      hidden ? scratchRows(op, x, checkedProduct(topK, n), builder.f32()) : Value(); // [T, k, N]
  if (failed(gateUpWeight) || failed(downWeight) || !y) {
    return failure();
  }
  launchGroupedMatmul(op.getLoc(), {x, *gateUpWeight, vectorOf(op.getGateUpBias()), hidden, *plan,
                                    experts, topK, inner, gateUp.getDimSize(2), op.getActivation(),
                                    /*perChoice=*/false});
  launchGroupedMatmul(op.getLoc(), {hidden,
                                    *downWeight,
                                    vectorOf(op.getDownBias()),
                                    y,
                                    *plan,
                                    experts,
                                    topK,
                                    n,
                                    inner,
                                    {},
                                    /*perChoice=*/true});
  return launchCombine(op, y, op.getWeights());
}

} // namespace sluicec::lower
