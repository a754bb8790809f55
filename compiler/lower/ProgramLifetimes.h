// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When each workspace buffer of a program is needed. Used by plan-memory and verify-kernel.
#pragma once

#include "dialects/kernel/KernelDialect.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace sluicec::lower {

/// One workspace and the launches and probes that use it, as positions in the program's list.
struct Lifetime {
  kernel::WorkspaceOp workspace;
  int64_t first = 0, last = 0; // both inclusive
  /// Bytes per unit and in all: multiples of kBufferAlignment that hold the buffer.
  int64_t unitBytes = 0, fixedBytes = 0;

  bool overlaps(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

/// Lifetimes of all workspaces in order of declaration; an unused one has last < first. Fails,
/// after reporting it on the workspace, where a size does not fit 63 bits.
mlir::FailureOr<llvm::SmallVector<Lifetime>> lifetimesOf(kernel::ProgramOp program);

} // namespace sluicec::lower
