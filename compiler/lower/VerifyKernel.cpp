// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass verify-kernel: what code generation, the package and the runtime rely on after lower.
#include "compiler/lower/KernelChoices.h"
#include "compiler/lower/Passes.h"
#include "compiler/lower/ProgramLifetimes.h"

#include "llvm/ADT/DenseSet.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace sluicec::lower {

#define GEN_PASS_DEF_VERIFYKERNEL
#include "compiler/lower/Passes.h.inc"

using namespace kernel;

namespace {

/// Which arguments of a kernel it reads and writes, by the memory effects of its template.
struct KernelEffects {
  llvm::SmallBitVector reads, writes;
};

struct VerifyKernel : impl::VerifyKernelBase<VerifyKernel> {
  using VerifyKernelBase::VerifyKernelBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ProgramOp> programs(module.getOps<ProgramOp>());
    if (programs.size() != 1) {
      module.emitError() << "has " << programs.size() << " kernel programs; expected one";
      return signalPassFailure();
    }
    llvm::StringMap<KernelEffects> kernels;
    for (Operation &op : *module.getBody()) {
      auto func = dyn_cast<FuncOp>(op);
      if (!func && !isa<ProgramOp>(op)) {
        op.emitError("is left in kernel form; expected kernels and one program");
        return signalPassFailure();
      }
      if (func && failed(effectsOf(func, kernels[func.getSymName()]))) {
        return signalPassFailure();
      }
    }
    if (failed(verifyOrder(programs[0], kernels)) || failed(verifyPlaces(programs[0]))) {
      return signalPassFailure();
    }
  }

private:
  LogicalResult effectsOf(FuncOp func, KernelEffects &effects) {
    Block &body = func.getBody().front();
    if (!llvm::hasSingleElement(body)) {
      return func.emitOpError("is not one template operation");
    }
    auto templateOp = dyn_cast<MemoryEffectOpInterface>(&body.front());
    if (!templateOp) {
      return func.emitOpError() << "holds '" << body.front().getName() << "', which is no template";
    }
    effects.reads.resize(body.getNumArguments());
    effects.writes.resize(body.getNumArguments());
    SmallVector<MemoryEffects::EffectInstance> instances;
    templateOp.getEffects(instances);
    for (const auto &instance : instances) {
      auto arg = dyn_cast_or_null<BlockArgument>(instance.getValue());
      if (arg) {
        (isa<MemoryEffects::Write>(instance.getEffect()) ? effects.writes : effects.reads)
            .set(arg.getArgNumber());
      }
    }
    return success();
  }

  /// Every launch reads only what stands before the step or an earlier launch wrote.
  LogicalResult verifyOrder(ProgramOp program, const llvm::StringMap<KernelEffects> &kernels) {
    llvm::DenseSet<Value> written;
    auto ready = [&](Value buffer) {
      return !isa<WorkspaceOp, OutputOp>(buffer.getDefiningOp()) || written.contains(buffer);
    };
    for (Operation &op : program.getBody().front()) {
      if (auto probe = dyn_cast<ProbeOp>(op); probe && !ready(probe.getBuffer())) {
        return probe.emitOpError("shows a buffer that nothing has written");
      }
      auto launch = dyn_cast<LaunchOp>(op);
      if (!launch) {
        continue;
      }
      const KernelEffects &effects = kernels.find(launch.getCallee())->second;
      for (auto [i, buffer] : llvm::enumerate(launch.getBuffers())) {
        if (effects.reads.test(i) && !ready(buffer)) {
          return launch.emitOpError() << "reads buffer " << i << " before anything has written it";
        }
        if (effects.writes.test(i) && isa<InputOp, kernel::WeightOp>(buffer.getDefiningOp())) {
          return launch.emitOpError() << "writes buffer " << i << ", an input or a weight";
        }
        if (effects.writes.test(i)) {
          written.insert(buffer);
        }
      }
    }
    for (auto output : program.getOps<OutputOp>()) {
      if (!written.contains(output.getResult())) {
        return output.emitOpError("is written by no launch");
      }
    }
    return success();
  }

  /// Bytes of the linear form at these capacities; saturates, since the check is of overlaps alone.
  static double at(OffsetAttr offset, ArrayRef<int64_t> counts) {
    return static_cast<double>(offset.getFixed()) +
           static_cast<double>(offset.getTokens()) * counts[0] +
           static_cast<double>(offset.getSeqs()) * counts[1] +
           static_cast<double>(offset.getLogitRows()) * counts[2];
  }

  static double bytesOf(const Lifetime &lifetime, ArrayRef<int64_t> counts) {
    double fixed = static_cast<double>(lifetime.fixedBytes);
    double unit = static_cast<double>(lifetime.unitBytes);
    WorkspaceOp workspace = lifetime.workspace;
    switch (workspace.getResult().getType().getUnit()) {
    case Unit::Tokens:
      return fixed + unit * counts[0];
    case Unit::Seqs:
      return fixed + unit * counts[1];
    case Unit::LogitRows:
      return fixed + unit * counts[2];
    default:
      return fixed;
    }
  }

  LogicalResult verifyPlaces(ProgramOp program) {
    FailureOr<SmallVector<Lifetime>> lifetimes = lifetimesOf(program);
    if (failed(lifetimes)) {
      return failure();
    }
    OffsetAttr total = program.getWorkspaceAttr();
    for (const Lifetime &lifetime : *lifetimes) {
      WorkspaceOp workspace = lifetime.workspace;
      OffsetAttr offset = workspace.getOffsetAttr();
      if (!total || !offset) {
        return workspace.emitOpError("has no offset; run plan-memory");
      }
      for (int64_t term :
           {offset.getFixed(), offset.getTokens(), offset.getSeqs(), offset.getLogitRows()}) {
        if (term < 0 || term % kBufferAlignment != 0) {
          return workspace.emitOpError() << "offset is not a multiple of " << kBufferAlignment
                                         << " bytes for every capacity";
        }
      }
    }
    // Offsets and sizes are linear with terms >= 0: capacities far apart and one of all ones tell
    // any overlap of the regions.
    const int64_t capacities[][3] = {{1, 1, 1}, {1, 0, 0},    {4096, 1, 1}, {4096, 64, 1},
                                     {7, 3, 2}, {1, 1, 4096}, {1, 4096, 1}, {4096, 4096, 4096}};
    for (const auto &counts : capacities) {
      for (size_t i = 0; i < lifetimes->size(); ++i) {
        if (failed(verifyPlace(*lifetimes, i, total, counts))) {
          return failure();
        }
      }
    }
    return success();
  }

  LogicalResult verifyPlace(ArrayRef<Lifetime> lifetimes, size_t i, OffsetAttr total,
                            ArrayRef<int64_t> counts) {
    WorkspaceOp workspace = lifetimes[i].workspace;
    double begin = at(workspace.getOffsetAttr(), counts);
    double end = begin + bytesOf(lifetimes[i], counts);
    if (end > at(total, counts)) {
      return workspace.emitOpError() << "ends outside the program's workspace";
    }
    for (size_t j = 0; j < i; ++j) {
      WorkspaceOp other = lifetimes[j].workspace;
      double otherBegin = at(other.getOffsetAttr(), counts);
      if (lifetimes[i].overlaps(lifetimes[j]) &&
          begin < otherBegin + bytesOf(lifetimes[j], counts) && otherBegin < end) {
        auto diag = workspace.emitOpError("shares memory with a buffer that is alive as well");
        diag.attachNote(other.getLoc()) << "the other buffer";
        return diag;
      }
    }
    return success();
  }
};

} // namespace
} // namespace sluicec::lower
