// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The raise stage as one pipeline: onnx IR in, verified padded lm IR out.
#pragma once

#include "mlir/Pass/PassManager.h"

namespace sluicec::raise {

/// Facts of config.json, where it was read, and how far to trust them.
struct RaiseOptions {
  int64_t configContext = 0; // max_position_embeddings, 0 if unknown
  int64_t configWindow = -1; // sliding_window, 0 for none, -1 if unknown
  bool trustConfig = false;  // impose the configuration's window
};

/// Adds the raise passes to a pass manager over modules.
void buildRaisePipeline(mlir::OpPassManager &manager, const RaiseOptions &options);

} // namespace sluicec::raise
