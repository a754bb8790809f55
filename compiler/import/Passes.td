// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes of the import stage.
#ifndef SLUICE_IMPORT_PASSES
#define SLUICE_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def InferShapes : Pass<"infer-shapes", "::mlir::func::FuncOp"> {
  let summary = "Element types, symbolic shapes and known integer values of onnx nodes";
  let description = [{
    Importing a file runs the same inference; the pass serves text and the rewrites of raise.

    ```mlir
    %s = onnx.node "Shape"(%x) : (tensor<?x8xf32, #onnx.dims<"n", "">>) -> tensor<*x!onnx.unknown>
    // becomes
    %s = onnx.node "Shape"(%x) : (tensor<?x8xf32, #onnx.dims<"n", "">>) -> tensor<2xi64>      // values [n, 8] are known to inference
    ```
  }];
  let options = [Option<"fold", "fold", "bool", "false", "replace integer values that are known numbers by constants">];
  let dependentDialects = ["::sluicec::onnx::OnnxDialect"];
}

#endif
