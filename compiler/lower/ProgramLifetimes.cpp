// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Positions of first and last use of each workspace in the launch list.
#include "compiler/lower/ProgramLifetimes.h"

#include "compiler/lower/KernelChoices.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace sluicec::lower {

using namespace kernel;

/// Bytes of `elements`, rounded up to the alignment of buffers.
static std::optional<int64_t> alignedBytes(int64_t elements, Type element) {
  int64_t bytes = 0;
  if (elements < 0 ||
      __builtin_mul_overflow(elements, (element.getIntOrFloatBitWidth() + 7) / 8, &bytes) ||
      __builtin_add_overflow(bytes, kBufferAlignment - 1, &bytes)) {
    return std::nullopt;
  }
  return bytes / kBufferAlignment * kBufferAlignment;
}

FailureOr<SmallVector<Lifetime>> lifetimesOf(ProgramOp program) {
  SmallVector<Lifetime> lifetimes;
  llvm::DenseMap<Value, size_t> indexOf;
  int64_t position = 0;
  for (Operation &op : program.getBody().front()) {
    if (auto workspace = dyn_cast<WorkspaceOp>(op)) {
      BufferType type = workspace.getResult().getType();
      std::optional<int64_t> unit = alignedBytes(type.getPerUnit(), type.getElement());
      std::optional<int64_t> fixed = alignedBytes(type.getFixed(), type.getElement());
      if (!unit || !fixed) {
        return workspace.emitOpError() << "of " << type << " has no addressable size";
      }
      indexOf[workspace.getResult()] = lifetimes.size();
      lifetimes.push_back({workspace, 0, -1, *unit, *fixed});
      continue;
    }
    if (!isa<LaunchOp, ProbeOp>(op)) {
      continue;
    }
    for (Value operand : op.getOperands()) {
      auto at = indexOf.find(operand);
      if (at == indexOf.end()) {
        continue;
      }
      Lifetime &lifetime = lifetimes[at->second];
      lifetime.first = lifetime.last < 0 ? position : lifetime.first;
      lifetime.last = position;
    }
    ++position;
  }
  return lifetimes;
}

} // namespace sluicec::lower
