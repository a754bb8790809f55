// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MLIR of emitted kernels to LLVM IR to ELF objects: between the templates and the linker.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"

namespace sluicec::cpu {

/// Loads what emitted code consists of (arith, math, scf, vector, llvm) and how it is translated.
void prepareContext(mlir::MLIRContext &context);

/// Replaces functions of math that no machine has by polynomials, in place. Only f32 is handled.
mlir::LogicalResult expandMath(mlir::ModuleOp module);

struct CompiledModule {
  std::vector<char> object; ///< ELF
  std::string llvmIr;       ///< after optimisation; empty unless asked for
};

/// Lowers and compiles each module nested in `modules`, `options.jobs` at a time. Results in order.
mlir::FailureOr<std::vector<CompiledModule>>
compileModules(mlir::ModuleOp modules, const CpuTarget &target, const CpuCodegenOptions &options);

} // namespace sluicec::cpu
