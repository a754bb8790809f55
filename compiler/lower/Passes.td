// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes of the stage lower: packed lm IR becomes kernels and the launch list of a step.
#ifndef SLUICE_COMPILER_LOWER_PASSES
#define SLUICE_COMPILER_LOWER_PASSES

include "mlir/Pass/PassBase.td"

def LowerToKernel : Pass<"lower-to-kernel", "::mlir::ModuleOp"> {
  let summary = "Turns the packed model function into kernels and one program";
  let description = [{
    Before: one `func.func` in packed lm form (fused or not). After: one `kernel.program @step` with a `kernel.launch` per
    operation, and one `kernel.func` per distinct template, attributes and buffer types, so that equal layers share a kernel.
    Weight recipes move into the program; matrices get panels, vectors become plain f32. Neighbouring elementwise operations
    become one kernel. What is neither an lm operation nor elementwise is an error that names its ONNX node.
  }];
  let options = [Option<"kvBlockTokens", "kv-block-tokens", "int64_t", "16", "Tokens in one block of the key-value cache">];
  let dependentDialects = ["::sluicec::kernel::KernelDialect", "::sluicec::lm::LmDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def PlanMemory : Pass<"plan-memory", "::mlir::ModuleOp"> {
  let summary = "Gives each workspace buffer its place, reusing memory between launches";
  let description = [{
    Two buffers share memory when no launch or probe needs both. An offset is linear in the step's capacities and a multiple
    of 64 bytes for all of them. The program's `workspace` says how many bytes all take together.
    Places are found largest buffer first, each at the lowest free position (Pisarchyk & Lee 2020, "Efficient Memory
    Management for Deep Neural Net Inference", greedy by size).
  }];
}

def VerifyKernel : Pass<"verify-kernel", "::mlir::ModuleOp"> {
  let summary = "Checks what code generation and the package rely on after lower";
  let description = [{
    One program; every kernel is one template; every workspace has a place inside the program's workspace and shares no
    memory with another that is alive at the same time; a launch reads only what an earlier one wrote.
  }];
}
#endif
