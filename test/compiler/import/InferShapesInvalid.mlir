// What inference refuses, each with what was found and what was expected.
// RUN: sluice-opt %s --infer-shapes -split-input-file -verify-diagnostics

func.func @types(%x: tensor<4xf32>, %y: tensor<4xf16>) {
  // expected-error @below {{Mul: operands have different element types: operand 0 is f32, operand 1 is f16; expected the same type}}
  %0 = onnx.node "Mul"(%x, %y) : (tensor<4xf32>, tensor<4xf16>) -> tensor<4xf32>
  return
}

// -----

func.func @stated(%x: tensor<4xf32>) {
  // expected-error @below {{Neg: result 0 is stated as f16 in the file, but the operands give f32}}
  %0 = onnx.node "Neg"(%x) : (tensor<4xf32>) -> tensor<4xf16>
  return
}

// -----

func.func @reshape(%x: tensor<2x6xf32>) {
  %s = onnx.constant dense<[5, -1]> : tensor<2xi64>
  // expected-error @below {{Reshape: cannot reshape [2, 6] to [5, -1]: the number of elements differs}}
  %0 = onnx.node "Reshape"(%x, %s) : (tensor<2x6xf32>, tensor<2xi64>) -> tensor<*xf32>
  return
}

// -----

func.func @axis(%x: tensor<2x6xf32>) {
  // expected-error @below {{Concat: axis 2 is outside of a tensor of rank 2}}
  %0 = onnx.node "Concat"(%x, %x) {axis = 2 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @index(%x: tensor<2x6xf32>) {
  %i = onnx.constant dense<[0, 7]> : tensor<2xi64>
  // expected-error @below {{Gather: index 7 is outside of dimension 1 of size 6}}
  %0 = onnx.node "Gather"(%x, %i) {axis = 1 : i64} : (tensor<2x6xf32>, tensor<2xi64>) -> tensor<*xf32>
  return
}

// -----

func.func @heads(%x: tensor<1x3x196xf32>, %l: tensor<1xi32>, %t: tensor<i32>, %n: none) {
  // expected-error @below {{com.microsoft.GroupQueryAttention: num_heads (14) is not a multiple of kv_num_heads (4)}}
  %0 = onnx.node "com.microsoft.GroupQueryAttention"(%x, %n, %n, %n, %n, %l, %t) {num_heads = 14 : i64, kv_num_heads = 4 : i64}
      : (tensor<1x3x196xf32>, none, none, none, none, tensor<1xi32>, tensor<i32>) -> tensor<*xf32>
  return
}

// -----

func.func @experts(%x: tensor<3x8xf32>, %r: tensor<3x4xf32>, %w: tensor<5x6x8xf32>, %d: tensor<5x8x6xf32>, %n: none) {
  // expected-error @below {{com.microsoft.MoE: the router's number of experts is 4, expected 5}}
  %0 = onnx.node "com.microsoft.MoE"(%x, %r, %w, %n, %d) {k = 2 : i64} : (tensor<3x8xf32>, tensor<3x4xf32>, tensor<5x6x8xf32>, none, tensor<5x8x6xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @count(%x: tensor<3x8xf32>) {
  %k = onnx.constant dense<9> : tensor<1xi64>
  // expected-error @below {{TopK: k is 9, dimension 1 has size 8}}
  %v, %i = onnx.node "TopK"(%x, %k) : (tensor<3x8xf32>, tensor<1xi64>) -> (tensor<*xf32>, tensor<*xi64>)
  return
}
