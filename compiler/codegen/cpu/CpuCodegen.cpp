// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Drives CPU code generation: kernels are emitted from their templates, compiled one by one,
// linked.
#include "compiler/codegen/cpu/CpuCodegen.h"

#include "compiler/codegen/cpu/CompileObject.h"
#include "compiler/codegen/cpu/LinkShared.h"
#include "compiler/codegen/cpu/Templates.h"

using namespace mlir;

namespace sluicec::cpu {

namespace {

/// Emitted loops rely on the grid that lowering chose; a wrong one is a diagnostic, not a wild
/// address.
LogicalResult checkGrid(kernel::FuncOp func, Operation *op) {
  bool hasTiles = isa<kernel::MatmulOp, kernel::GroupedMatmulOp, kernel::AttentionOp>(op);
  size_t expected = hasTiles ? 2 : 1;
  if (func.getGrid().size() != expected) {
    return op->emitOpError() << "stands in a grid of " << func.getGrid().size()
                             << " dimensions, expected " << expected << " for CPU code";
  }
  if (!hasTiles && cast<kernel::GridDimAttr>(func.getGrid()[0]).getTile() != 1) {
    return op->emitOpError("expected a grid of one cell per row for CPU code");
  }
  return success();
}

LogicalResult emitBody(Operation *op, KernelFrame &frame) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<kernel::EmbeddingOp, kernel::RepeatHeadsOp, kernel::GatedActivationOp,
            kernel::LogitRowsOp, kernel::RowIndexOp, kernel::ElementwiseOp, kernel::RmsNormOp,
            kernel::LayerNormOp, kernel::RopeTableOp, kernel::RopeOp, kernel::MatmulOp,
            kernel::GroupedMatmulOp, kernel::RouteOp, kernel::ExpertPlanOp, kernel::CombineOp,
            kernel::CacheAppendOp, kernel::AttentionOp>(
          [&](auto known) { return emitTemplate(known, frame); })
      .Default([](Operation *other) { return other->emitOpError("has no CPU code"); });
}

/// Emits one kernel into a module of its own inside `modules`.
FailureOr<CpuFunction> emitKernel(kernel::FuncOp func, ModuleOp modules, const CpuTarget &target) {
  Block &body = func.getBody().front();
  if (!llvm::hasSingleElement(body)) {
    return func.emitOpError("expected one template operation for CPU code");
  }
  Operation *op = &body.front();
  if (failed(checkGrid(func, op))) {
    return failure();
  }
  auto at = OpBuilder::atBlockEnd(modules.getBody());
  auto module = ModuleOp::create(at, func.getLoc());
  KernelFrame frame(func, module, at, target);
  if (failed(emitBody(op, frame))) {
    return failure();
  }
  if (isa<kernel::ElementwiseOp>(op) && failed(expandMath(module))) {
    return failure();
  }
  return CpuFunction{func.getSymName().str(), static_cast<uint64_t>(frame.scratchBytes())};
}

LogicalResult link(CpuCode &code, ArrayRef<std::vector<char>> objects, LinkKind kind,
                   ModuleOp module, const CpuTarget &target) {
  llvm::Expected<std::vector<char>> linked = linkObjects(objects, kind, target);
  if (!linked) {
    return module.emitError() << llvm::toString(linked.takeError());
  }
  (kind == LinkKind::SharedObject ? code.sharedObject : code.object) = std::move(*linked);
  return success();
}

} // namespace

FailureOr<CpuCode> generateCpuCode(ModuleOp kernelModule, const CpuTarget &target,
                                   const CpuCodegenOptions &options) {
  prepareContext(*kernelModule.getContext());
  OwningOpRef<ModuleOp> modules = ModuleOp::create(kernelModule.getLoc());
  CpuCode code;
  for (kernel::FuncOp func : kernelModule.getOps<kernel::FuncOp>()) {
    FailureOr<CpuFunction> function = emitKernel(func, *modules, target);
    if (failed(function)) {
      return failure();
    }
    code.functions.push_back(*function);
  }
  FailureOr<std::vector<CompiledModule>> compiled = compileModules(*modules, target, options);
  if (failed(compiled)) {
    return failure();
  }
  std::vector<std::vector<char>> objects;
  for (CompiledModule &unit : *compiled) {
    code.llvmIr += unit.llvmIr;
    objects.push_back(std::move(unit.object));
  }
  if (options.object && failed(link(code, objects, LinkKind::Relocatable, kernelModule, target))) {
    return failure();
  }
  if (options.sharedObject &&
      failed(link(code, objects, LinkKind::SharedObject, kernelModule, target))) {
    return failure();
  }
  return code;
}

} // namespace sluicec::cpu
