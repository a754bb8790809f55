// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One function per kernel template: writes the template's loops into a kernel's frame. Called by
// CpuCodegen.cpp.
//
// Rows are told by the grid: a cell of a row-wise template is a row. The shapes stand in
// dialects/kernel/KernelOps.td.
#pragma once

#include "compiler/codegen/cpu/KernelBuilder.h"

namespace sluicec::cpu {

// EmitRows.cpp
mlir::LogicalResult emitTemplate(kernel::EmbeddingOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::RepeatHeadsOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::GatedActivationOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::LogitRowsOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::RowIndexOp op, KernelFrame &f);
// EmitElementwise.cpp
mlir::LogicalResult emitTemplate(kernel::ElementwiseOp op, KernelFrame &f);
// EmitNorm.cpp
mlir::LogicalResult emitTemplate(kernel::RmsNormOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::LayerNormOp op, KernelFrame &f);
// EmitRope.cpp
mlir::LogicalResult emitTemplate(kernel::RopeTableOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::RopeOp op, KernelFrame &f);
// EmitMatmul.cpp
mlir::LogicalResult emitTemplate(kernel::MatmulOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::GroupedMatmulOp op, KernelFrame &f);
// EmitMoe.cpp
mlir::LogicalResult emitTemplate(kernel::RouteOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::ExpertPlanOp op, KernelFrame &f);
mlir::LogicalResult emitTemplate(kernel::CombineOp op, KernelFrame &f);
// EmitCache.cpp
mlir::LogicalResult emitTemplate(kernel::CacheAppendOp op, KernelFrame &f);
// EmitAttention.cpp
mlir::LogicalResult emitTemplate(kernel::AttentionOp op, KernelFrame &f);

} // namespace sluicec::cpu
