// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass plan-memory: offsets of workspace buffers. Buffers of one unit lie in one region of the
// workspace, so that each offset is linear in the step's capacities.
//
//   [ fixed | tokens * t | seqs * s | logit_rows * r ]
#include "compiler/lower/KernelChoices.h"
#include "compiler/lower/Passes.h"
#include "compiler/lower/ProgramLifetimes.h"

#include <algorithm>

using namespace mlir;

namespace sluicec::lower {

#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/lower/Passes.h.inc"

using namespace kernel;

namespace {

/// A buffer's place in its region, in bytes per unit.
struct Placed {
  const Lifetime *lifetime;
  int64_t begin, end;
};

/// One region: buffers whose size is `bytes` per unit, none overlapping in both time and place.
class Region {
public:
  /// Gives each a place, largest first; false where the sum does not fit 63 bits.
  bool place(SmallVector<std::pair<const Lifetime *, int64_t>> buffers) {
    // Equal sizes in order of declaration: lifetimes stand in one array.
    llvm::sort(buffers, [](const auto &a, const auto &b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    for (auto [lifetime, bytes] : buffers) {
      int64_t begin = lowestFree(*lifetime, bytes), end = 0;
      if (__builtin_add_overflow(begin, bytes, &end)) {
        return false;
      }
      auto at =
          llvm::lower_bound(placed, begin, [](const Placed &p, int64_t b) { return p.begin < b; });
      placed.insert(at, {lifetime, begin, end});
      total = std::max(total, end);
    }
    return true;
  }

  ArrayRef<Placed> places() const { return placed; }
  int64_t bytes() const { return total; }

private:
  SmallVector<Placed> placed; // by begin
  int64_t total = 0;

  int64_t lowestFree(const Lifetime &lifetime, int64_t bytes) const {
    int64_t at = 0;
    for (const Placed &p : placed) {
      if (!p.lifetime->overlaps(lifetime)) {
        continue;
      }
      if (p.begin - at >= bytes) {
        break;
      }
      at = std::max(at, p.end);
    }
    return at;
  }
};

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      if (failed(plan(program))) {
        return signalPassFailure();
      }
    }
  }

private:
  LogicalResult plan(ProgramOp program) {
    FailureOr<SmallVector<Lifetime>> lifetimes = lifetimesOf(program);
    if (failed(lifetimes)) {
      return failure();
    }
    constexpr Unit kRegions[] = {Unit::Fixed, Unit::Tokens, Unit::Seqs, Unit::LogitRows};
    Region regions[4];
    for (auto [region, unit] : llvm::zip(regions, kRegions)) {
      SmallVector<std::pair<const Lifetime *, int64_t>> buffers;
      for (Lifetime &lifetime : *lifetimes) {
        Unit of = lifetime.workspace.getResult().getType().getUnit();
        if (of != unit || lifetime.last < lifetime.first) {
          continue;
        }
        if (unit != Unit::Fixed && lifetime.fixedBytes != 0) {
          return lifetime.workspace.emitOpError(
              "has a fixed part beside rows; expected one or the other");
        }
        buffers.push_back(
            {&lifetime, unit == Unit::Fixed ? lifetime.fixedBytes : lifetime.unitBytes});
      }
      if (!region.place(std::move(buffers))) {
        return program.emitOpError("needs a workspace larger than any machine can address");
      }
    }
    assignOffsets(program, *lifetimes, regions);
    return success();
  }

  void assignOffsets(ProgramOp program, ArrayRef<Lifetime> lifetimes, ArrayRef<Region> regions) {
    MLIRContext *context = &getContext();
    int64_t fixed = regions[0].bytes(), tokens = regions[1].bytes(), seqs = regions[2].bytes(),
            logitRows = regions[3].bytes();
    // A region's offsets: where it begins, plus the buffer's place times its own count.
    auto set = [](const Placed &p, OffsetAttr offset) {
      WorkspaceOp workspace = p.lifetime->workspace;
      workspace.setOffsetAttr(offset);
    };
    for (const Placed &p : regions[0].places()) {
      set(p, OffsetAttr::get(context, p.begin, 0, 0, 0));
    }
    for (const Placed &p : regions[1].places()) {
      set(p, OffsetAttr::get(context, fixed, p.begin, 0, 0));
    }
    for (const Placed &p : regions[2].places()) {
      set(p, OffsetAttr::get(context, fixed, tokens, p.begin, 0));
    }
    for (const Placed &p : regions[3].places()) {
      set(p, OffsetAttr::get(context, fixed, tokens, seqs, p.begin));
    }
    program.setWorkspaceAttr(OffsetAttr::get(context, fixed, tokens, seqs, logitRows));
    for (const Lifetime &lifetime : lifetimes) {
      if (lifetime.last < lifetime.first) { // nobody uses it
        WorkspaceOp workspace = lifetime.workspace;
        workspace.erase();
      }
    }
  }
};

} // namespace
} // namespace sluicec::lower
