// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sluice-opt: runs passes on IR text, for tests and for whoever writes a pass.
#include "compiler/pipeline/Register.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  sluicec::registerDialects(registry);
  sluicec::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Sluice pass driver\n", registry));
}
