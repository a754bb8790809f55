// The textual form of every op, read and written twice.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK: onnx.constant dense<[1, -1]> : tensor<2xi64>
  %0 = onnx.constant dense<[1, -1]> : tensor<2xi64>
  // CHECK: onnx.constant "eps" dense<5.000000e-01> : tensor<f32>
  %1 = onnx.constant "eps" dense<5.0e-01> : tensor<f32>
  // CHECK: onnx.weight "lm_head.weight" : tensor<320x64xbf16>
  %2 = onnx.weight "lm_head.weight" : tensor<320x64xbf16>
  // CHECK: onnx.none
  %3 = onnx.none
  return
}

// CHECK-LABEL: func.func @nodes
// CHECK-SAME: tensor<?x8xf32, #onnx.dims<"past + seq", "">>
func.func @nodes(%x: tensor<?x8xf32, #onnx.dims<"past + seq", "">>, %w: tensor<8x4xf32>, %n: none) {
  // CHECK: onnx.node "MatMul"(%{{.*}}, %{{.*}}) version 9 : (
  %0 = onnx.node "MatMul"(%x, %w) version 9 : (tensor<?x8xf32, #onnx.dims<"past + seq", "">>, tensor<8x4xf32>) -> tensor<*xf32>
  // The newest version is taken where none is given.
  // CHECK: onnx.node "Softmax"(%{{.*}}) version 13 {axis = -1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = onnx.node "Softmax"(%w) {axis = -1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: %{{.*}}:2 = onnx.node "com.microsoft.Thing"(%{{.*}}, %{{.*}}) version 1 attributes {note} : (tensor<8x4xf32>, none) -> (tensor<8x4xf32>, none)
  %2:2 = onnx.node "com.microsoft.Thing"(%w, %n) version 1 attributes {note} : (tensor<8x4xf32>, none) -> (tensor<8x4xf32>, none)
  return
}

// CHECK-LABEL: func.func @subgraphs
func.func @subgraphs(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: onnx.node "If"(%{{.*}}) version 25 ({
  // CHECK: onnx.yield %{{.*}} : tensor<4xf32>
  // CHECK: }, {
  // CHECK: }) : (tensor<i1>) -> tensor<4xf32>
  %0 = onnx.node "If"(%c) ({
    onnx.yield %x : tensor<4xf32>
  }, {
    %1 = onnx.node "Neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    onnx.yield %1 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @types
// CHECK-SAME: tensor<2x!onnx.string>
// CHECK-SAME: tensor<*x!onnx.unknown>
func.func @types(%a: tensor<2x!onnx.string>, %b: tensor<*x!onnx.unknown>) { return }
