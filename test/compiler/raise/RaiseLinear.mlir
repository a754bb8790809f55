// RUN: sluice-opt %s -split-input-file -raise-linear | FileCheck %s

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!y = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
// The weight of a MatMul is [K, N] in the file, [N, K] in lm; the added vector is the bias.
// CHECK-LABEL: func.func @matmul
// CHECK-SAME: %[[X:[^ :]+]]: tensor
// CHECK: %[[FILE:.+]] = lm.weight "w" : tensor<8x4xf16>
// CHECK: %[[W:.+]] = lm.weight_transpose %[[FILE]] perm = [1, 0] : tensor<8x4xf16> -> tensor<4x8xf16>
// CHECK: %[[B:.+]] = lm.weight "b" : tensor<4xf16>
// CHECK: %[[Y:.+]] = lm.linear %[[X]], %[[W]] bias(%[[B]])
// CHECK-NEXT: return %[[Y]]
func.func @matmul(%x: !x) -> !y {
  %w = onnx.weight "w" : tensor<8x4xf16>
  %b = onnx.weight "b" : tensor<4xf16>
  %0 = onnx.node "MatMul"(%x, %w) : (!x, tensor<8x4xf16>) -> !y
  %1 = onnx.node "Add"(%b, %0) : (tensor<4xf16>, !y) -> !y
  return %1 : !y
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!rows = tensor<?x8xf32, #onnx.dims<"b*s", "">>
!out = tensor<?x4xf32, #onnx.dims<"b*s", "">>
!y = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
// Rows that the file flattens for Gemm stay [batch, tokens]; the code between two Gemms moves along.
// CHECK-LABEL: func.func @flattened
// CHECK-SAME: %[[X:[^ :]+]]: tensor
// CHECK: %[[A:.+]] = lm.linear %[[X]], %{{[^ ]+}} :
// CHECK: %[[R:.+]] = onnx.node "Relu"(%[[A]])
// CHECK-NEXT: %[[Y:.+]] = lm.linear %[[R]], %{{[^ ]+}} bias(%{{.+}})
// CHECK-NEXT: return %[[Y]]
func.func @flattened(%x: !x) -> !y {
  %w = onnx.weight "w" : tensor<8x8xf32>
  %v = onnx.weight "v" : tensor<4x8xf32>
  %b = onnx.weight "b" : tensor<4xf32>
  %flat = onnx.constant dense<[-1, 8]> : tensor<2xi64>
  %back = onnx.constant dense<[2, -1, 4]> : tensor<3xi64>
  %0 = onnx.node "Reshape"(%x, %flat) : (!x, tensor<2xi64>) -> !rows
  %1 = onnx.node "MatMul"(%0, %w) : (!rows, tensor<8x8xf32>) -> !rows
  %2 = onnx.node "Relu"(%1) : (!rows) -> !rows
  %3 = onnx.node "Gemm"(%2, %v, %b) {transB = 1 : i64} : (!rows, tensor<4x8xf32>, tensor<4xf32>) -> !out
  %4 = onnx.node "Reshape"(%3, %back) : (!out, tensor<3xi64>) -> !y
  return %4 : !y
}

// -----

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!y = tensor<?x?x4xf32, #onnx.dims<"b", "s", "">>
// A weight under layout operators is a recipe; a product of two activations is no linear.
// CHECK-LABEL: func.func @recipe
// CHECK: %[[ALL:.+]] = lm.weight "all" : tensor<12x8xf32>
// CHECK: %[[PART:.+]] = lm.weight_slice %[[ALL]] offsets = [4, 0] strides = [1, 1] : tensor<12x8xf32> -> tensor<4x8xf32>
// CHECK-NOT: lm.weight_transpose
// CHECK: lm.linear %{{.+}}, %[[PART]] :
// CHECK: onnx.node "MatMul"
func.func @recipe(%x: !x, %z: tensor<8x4xf32>) -> (!y, !y) {
  %w = onnx.weight "all" : tensor<12x8xf32>
  %a, %b, %c = onnx.node "Split"(%w) {axis = 0 : i64, num_outputs = 3 : i64}
      : (tensor<12x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  %t = onnx.node "Transpose"(%b) {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %0 = onnx.node "MatMul"(%x, %t) : (!x, tensor<8x4xf32>) -> !y
  %1 = onnx.node "MatMul"(%x, %z) : (!x, tensor<8x4xf32>) -> !y
  return %0, %1 : !y, !y
}
