// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All dialects and passes in one slow-to-compile file.
#include "compiler/pipeline/Register.h"

#include "compiler/import/Passes.h"
#include "compiler/lower/Passes.h"
#include "compiler/optimize/Passes.h"
#include "compiler/raise/Passes.h"
#include "dialects/kernel/KernelDialect.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/onnx/OnnxDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"

namespace sluicec {

void registerDialects(mlir::DialectRegistry &registry) {
  registry
      .insert<onnx::OnnxDialect, lm::LmDialect, kernel::KernelDialect, mlir::arith::ArithDialect,
              mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::LLVM::LLVMDialect,
              mlir::math::MathDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect,
              mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
}

void registerPasses() {
  registerImportPasses();
  raise::registerRaisePasses();
  optimize::registerOptimizePasses();
  lower::registerLowerPasses();
  mlir::registerTransformsPasses();
}

} // namespace sluicec
