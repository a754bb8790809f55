// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes that lowering chooses for kernels: tiles, panels, attention spans. One place; codegen
// reads them from the IR (grids, layouts, attributes).
#pragma once

#include <cstdint>

namespace sluicec::lower {

/// Output columns of one weight panel: four 16-lane f32 vectors, two for gate and two for up where
/// gated. A grid cell of a matmul computes one panel.
inline constexpr int64_t kPanelWidth = 64;
/// Rows that one cell of a matmul computes: long enough to read a panel from cache many times,
/// short enough to give two threads work in a small prefill.
inline constexpr int64_t kLinearRowTile = 48;
/// Rows of one expert that one cell of a grouped matmul computes. Experts get few rows each.
inline constexpr int64_t kExpertRowTile = 32;
/// Cache entries that attention folds into one partial result (bit rule 2 of design.md 4), and
/// entries of a chunk of such spans. Part of a package's bits: never changed by a tuning.
inline constexpr int64_t kAttentionSpan = 64;
inline constexpr int64_t kAttentionChunk = 1024;
/// Rows that one cell of attention computes: they share the reads of keys and values in a prefill; a decode step has one row
/// per sequence anyway.
inline constexpr int64_t kAttentionRowTile = 8;
/// Bytes to which every buffer of the workspace is aligned (runtime/device/KernelAbi.h).
inline constexpr int64_t kBufferAlignment = 64;

} // namespace sluicec::lower
