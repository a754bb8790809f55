// RUN: sluice-opt %s -split-input-file -verify-raised -verify-diagnostics

!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
// The node that nothing could raise is named; the one behind it is a consequence.
func.func @left(%x: !x) -> !x {
  // expected-error @below {{Softsign of ([b, s, 8] f32) can't be raised here, expected a part of a language model}}
  %0 = onnx.node "Softsign"(%x) : (!x) -> !x
  %1 = onnx.node "Tanh"(%0) : (!x) -> !x
  return %1 : !x
}

// -----

// expected-error @below {{no argument is looked up in an embedding, expected token ids}}
func.func @no_ids(%x: tensor<?x?x8xf32>) -> (tensor<?x?x8xf32> {lm.role = "logits"}) {
  return %x : tensor<?x?x8xf32>
}
