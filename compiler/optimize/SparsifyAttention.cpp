// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sparsify-attention: windows written as masks become windows beyond which nothing is read or kept.
#include "compiler/optimize/ModelSignature.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_SPARSIFYATTENTION
#include "compiler/optimize/Passes.h.inc"

namespace {

struct SparsifyAttention : impl::SparsifyAttentionBase<SparsifyAttention> {
  using SparsifyAttentionBase::SparsifyAttentionBase;

  void runOnOperation() override {
    getOperation().walk([](lm::PaddedAttentionOp op) {
      int64_t masked = op.getMaskWindow(), window = op.getWindow();
      if (masked > 0) {
        op.setWindow(window > 0 ? std::min(window, masked) : masked);
        op.setMaskWindow(0);
      }
    });
  }
};

} // namespace
} // namespace sluicec::optimize
