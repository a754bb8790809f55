// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// compile(): makes the context, prints diagnostics with their ONNX nodes, and turns the outcome
// into an exit code.
#include "compiler/pipeline/CompileOptions.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Register.h"
#include "compiler/support/NodeDiagnostics.h"

#include "llvm/Support/raw_ostream.h"

#include <thread>

namespace sluicec {

int compile(const CompileOptions &given) {
  CompileOptions options = given;
  if (options.jobs <= 0) {
    options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false); // a user sees the ONNX node, not our IR
  support::NodeDiagnostics diagnostics(&context, llvm::errs());
  if (mlir::succeeded(Pipeline(options, &context).run())) {
    return 0;
  }
  if (diagnostics.numErrors() > 0) {
    return 1;
  }
  llvm::errs() << "sluicec: error: the compiler failed without saying why; this is our fault, "
                  "please send the model's graph\n";
  return 2;
}

} // namespace sluicec
