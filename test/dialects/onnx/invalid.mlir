// What the dialect's verifiers and parsers refuse.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{onnx.dims names 1 dimensions of a tensor of rank 2}}
func.func private @rank(tensor<?x?xf32, #onnx.dims<"a">>)

// -----

// expected-error @below {{onnx.dims names 'a' a dimension of static size 4}}
func.func private @static(tensor<4xf32, #onnx.dims<"a">>)

// -----

func.func @version(%x: tensor<4xf32>) {
  // expected-error @below {{unknown operator 'Foo' needs a version}}
  %0 = onnx.node "Foo"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @name(%x: tensor<4xf32>) {
  // expected-error @below {{has an empty op_type}}
  %0 = onnx.node ""(%x) version 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @yield(%c: tensor<i1>) {
  // expected-error @below {{has a subgraph that does not end in onnx.yield}}
  onnx.node "If"(%c) ({
    %0 = onnx.none
  }) : (tensor<i1>) -> ()
  return
}

// -----

// expected-error @below {{must be statically shaped tensor}}
%0 = onnx.weight "w" : tensor<?xf32>
