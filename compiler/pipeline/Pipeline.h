// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler from end to end on one model: the only place that knows the order of the stages.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/import/ImportModel.h"
#include "compiler/pipeline/CompileOptions.h"
#include "compiler/pipeline/Report.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace sluicec {

/// One compilation. Every function reports its errors as diagnostics of the context.
class Pipeline {
public:
  Pipeline(const CompileOptions &options, mlir::MLIRContext *context)
      : options(options), context(context) {}

  /// From the model to what options.emit and options.stopAfter ask for, written to options.output.
  mlir::LogicalResult run();

private:
  /// Refuses unknown passes and an output that is the input.
  mlir::LogicalResult checkOptions();
  /// Imports the model, or parses .mlir text and takes weights and side files from `weightsFrom`.
  mlir::LogicalResult load();
  /// Which stage the module as it is now needs first, by the dialects in it; None for kernel IR.
  Stage firstStage();
  mlir::LogicalResult runStage(Stage stage);
  /// Kernel IR to a package, an object or LLVM IR.
  mlir::LogicalResult generate();
  llvm::Error writePackageFile(const cpu::CpuTarget &target, const cpu::CpuCode &code);
  /// Reports an error that has no place in the graph.
  mlir::LogicalResult fail(llvm::Error error);
  mlir::LogicalResult writeText(llvm::StringRef text);
  mlir::LogicalResult writeModule();
  mlir::LogicalResult writeReport();
  std::string defaultOutput() const;

  const CompileOptions &options;
  mlir::MLIRContext *context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ModelFiles files;
  Report report;
};

} // namespace sluicec
