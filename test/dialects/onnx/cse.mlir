// Nodes have no side effects: equal ones are merged, unused ones dropped; that they stand at other places of the file does not matter.
// RUN: sluice-opt %s --cse --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @equal
// CHECK-COUNT-1: onnx.node "Neg"
// CHECK-NOT: onnx.node "Neg"
// CHECK-NOT: onnx.constant
// CHECK: return
func.func @equal(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %unused = onnx.constant dense<1> : tensor<1xi64>
  %0 = onnx.node "Neg"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("a"("m.onnx":1:0))
  %1 = onnx.node "Neg"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("b"("m.onnx":2:0))
  %2 = onnx.node "Abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Another attribute or version is another node.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-3: onnx.node "Softmax"
func.func @different(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = onnx.node "Softmax"(%x) version 13 {axis = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = onnx.node "Softmax"(%x) version 13 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = onnx.node "Softmax"(%x) version 11 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
