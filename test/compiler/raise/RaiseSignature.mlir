// RUN: sluice-opt %s -split-input-file -raise-signature="config-context=64 config-window=4" -verify-diagnostics | FileCheck %s
// RUN: sluice-opt %s -split-input-file -raise-signature="config-context=64 config-window=4 trust-config" | FileCheck %s --check-prefix=TRUST

!ids = tensor<?x?xi64, #onnx.dims<"b", "s">>
!mask = tensor<?x?xi64, #onnx.dims<"b", "t">>
!x = tensor<?x?x8xf32, #onnx.dims<"b", "s", "">>
!past = tensor<?x1x?x8xf32, #onnx.dims<"b", "", "p", "">>
!cache = tensor<?x1x?x8xf32, #onnx.dims<"b", "", "p + s", "">>
!logits = tensor<?x?x32xf32, #onnx.dims<"b", "s", "">>
// Roles come from use; an argument that nothing uses goes; types lose the names of dimensions.
// CHECK: module attributes {lm.model = {context = 64 : i64, hidden = 8 : i64, layers = 1 : i64, vocab = 32 : i64}}
// CHECK-LABEL: func.func @roles
// CHECK-SAME: %{{.+}}: tensor<?x1x?x8xf32> {lm.layer = 0 : i64, lm.role = "past_value"}, %{{.+}}: tensor<?x?xi64> {lm.role = "token_ids"},
// CHECK-SAME: %{{.+}}: tensor<?x?xi64> {lm.role = "attention_mask"}, %{{.+}}: tensor<?x1x?x8xf32> {lm.layer = 0 : i64, lm.role = "past_key"})
// CHECK-SAME: -> (tensor<?x1x?x8xf32> {lm.layer = 0 : i64, lm.role = "present_key"}, tensor<?x?x32xf32> {lm.role = "logits"}, tensor<?x1x?x8xf32> {lm.layer = 0 : i64, lm.role = "present_value"})
// CHECK-NOT: mask_window
// TRUST: lm.padded_attention {{.*}}mask_window = 4
func.func @roles(%pv: !past, %ids: !ids, %unused: !ids, %mask: !mask, %pk: !past) -> (!cache, !logits, !cache) {
  %w = lm.weight "w" : tensor<32x8xf32>
  %x = lm.embedding %w, %ids : (tensor<32x8xf32>, !ids) -> !x
  %k = lm.padded_append %pk, %x : (!past, !x) -> !cache
  %v = lm.padded_append %pv, %x : (!past, !x) -> !cache
  // expected-warning @below {{graph and config.json disagree: the graph's attention window is 0, sliding_window is 4}}
  %a = lm.padded_attention %x, %k, %v mask(%mask) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f64} : (!x, !cache, !cache, !mask) -> !x
  %y = lm.linear %a, %w : (!x, tensor<32x8xf32>) -> !logits
  return %k, %y, %v : !cache, !logits, !cache
}
