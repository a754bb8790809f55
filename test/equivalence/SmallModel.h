// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds small random language models as padded lm IR, the form that raise gives: what the
// equivalence tests transform.
#pragma once

#include "compiler/support/WeightStore.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <random>
#include <string>
#include <vector>

namespace sluicec::equivalence {

struct SmallLayer {
  int64_t window = 0;   // mask_window of its attention
  bool experts = false; // else a dense gated feed-forward
  bool normPerHead = false;
  bool sinks = false;
};

/// The shape of a model. Sizes are small and unlike each other, so that a mixed-up dimension shows.
struct SmallModel {
  std::string name;
  std::vector<SmallLayer> layers;
  int64_t vocabulary = 29, hidden = 24, heads = 6, kvHeads = 2, head = 8, inner = 20;
  int64_t numExperts = 5, topK = 2;
  bool repeatHeads = false; // writes grouped-query attention by repeating heads behind the cache
  bool repeatBeforeCache = false; // ... and in front of it
  bool positionInput = false;     // position_ids instead of counting the mask
  bool interleavedRope = false;
  bool stackedExperts = false; // gate and up are slices of one weight
  bool bias = false;           // on q, k, v and experts
  bool elementwise =
      false;         // a scaled embedding and a soft cap on logits in linalg.generic and arith
  bool tied = false; // the head is the embedding
  double softCap = 0;
  mlir::Type weightElement = {}; // null is f32
};

/// The module with one function @main; its weights are added to `store` with values from `seed`.
mlir::OwningOpRef<mlir::ModuleOp> buildSmallModel(const SmallModel &model,
                                                  support::WeightStore &store,
                                                  mlir::MLIRContext &context, uint32_t seed);

/// The models that every pass is tried on.
std::vector<SmallModel> smallModels(mlir::MLIRContext &context);

} // namespace sluicec::equivalence
