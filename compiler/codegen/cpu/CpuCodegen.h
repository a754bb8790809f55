// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernel IR to x86-64 and AArch64 machine code: the CPU end of the compiler, between lower and
// package.
#pragma once

#include "llvm/Support/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluicec::cpu {

/// An instruction set that kernels are compiled for. On x86-64 only two sets are used (x86-64-v3:
/// AVX2, FMA, F16C; x86-64-v4: AVX-512 F/BW/CD/DQ/VL), so that `requiredFeatures` says all that
/// emitted code may need; `native` is the better one that this machine has, scheduled for its
/// model.
struct CpuTarget {
  std::string name;                          ///< native, x86-64-v3, x86-64-v4, aarch64
  std::string triple;                        ///< of LLVM
  std::string cpu;                           ///< LLVM's name of the instruction set
  std::string tuneCpu;                       ///< LLVM's name of the model to schedule for
  std::string features;                      ///< "+avx2,+fma": beyond what `cpu` implies
  std::vector<std::string> requiredFeatures; ///< LLVM's names of what the machine must have
  int vectorBits = 128;                      ///< of one register

  bool isX86() const { return triple.starts_with("x86_64"); }

  /// The target of this name, or an error that says which names exist or what this machine lacks.
  static llvm::Expected<CpuTarget> parse(llvm::StringRef name);
};

/// What generateCpuCode is asked for.
struct CpuCodegenOptions {
  bool sharedObject = true; ///< fill CpuCode::sharedObject
  bool object = false;      ///< fill CpuCode::object
  bool llvmIr = false;      ///< fill CpuCode::llvmIr
  int jobs = 1;             ///< threads; the result does not depend on it
};

/// A kernel's entry point, of type sluice_kernel (runtime/device/KernelAbi.h).
struct CpuFunction {
  std::string symbol;
  uint64_t scratchBytes = 0; ///< memory that each worker must give, aligned to 64 bytes
};

struct CpuCode {
  std::string llvmIr;             ///< after optimisation, kernel by kernel, as text
  std::vector<char> object;       ///< relocatable ELF of all kernels
  std::vector<char> sharedObject; ///< ELF that needs no other library and no symbol from outside
  std::vector<CpuFunction> functions; ///< in the order of the module
};

/// Compiles every kernel.func of `kernelModule`, which is left as it is. Equal input gives equal
/// bytes. Fails with a diagnostic on the kernel where it uses what this code generator does not
/// have.
mlir::FailureOr<CpuCode> generateCpuCode(mlir::ModuleOp kernelModule, const CpuTarget &target,
                                         const CpuCodegenOptions &options);

} // namespace sluicec::cpu
