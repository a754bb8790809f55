// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes save, counted by the interpreter: experts, windows, cache blocks, logit rows.
#include "compiler/optimize/OptimizePipeline.h"
#include "dialects/lm/LmDialect.h"
#include "test/equivalence/Sequences.h"
#include "test/equivalence/SmallModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace sluicec::equivalence {

namespace {

class Work : public testing::Test {
protected:
  Work() {
    context.loadDialect<lm::LmDialect, arith::ArithDialect, func::FuncDialect,
                        linalg::LinalgDialect, math::MathDialect, tensor::TensorDialect>();
  }

  MLIRContext context;
  support::WeightStore store;

  OwningOpRef<ModuleOp> build(const SmallModel &model, const std::vector<std::string> &off = {}) {
    OwningOpRef<ModuleOp> module = buildSmallModel(model, store, context, 7);
    PassManager manager(&context);
    llvm::cantFail(optimize::buildOptimizePipeline(manager, {"keep", "keep", off}));
    EXPECT_TRUE(succeeded(manager.run(*module)));
    return module;
  }

  Driven run(ModuleOp module, const std::vector<Sequence> &sequences, double wantedRows = 1.0) {
    DriveOptions options;
    options.wantedRows = wantedRows;
    auto driven =
        drive(*module.getOps<func::FuncOp>().begin(), sequences, resolverOf(store), options);
    EXPECT_TRUE(succeeded(driven));
    return succeeded(driven) ? *driven : Driven();
  }

  /// One prompt of `prompt` tokens in chunks of 8, then `decoded` single tokens.
  static std::vector<Sequence> longSequence(int64_t prompt, int64_t decoded) {
    Sequence s;
    for (int64_t at = 0; at < prompt; at += 8) {
      s.chunks.push_back(std::min<int64_t>(8, prompt - at));
    }
    s.chunks.insert(s.chunks.end(), static_cast<size_t>(decoded), 1);
    s.tokens.assign(static_cast<size_t>(prompt + decoded), 3);
    return {s};
  }
};

TEST_F(Work, ExpertsCostByChoiceNotByNumber) {
  int64_t multiplyAdds[2];
  double flops[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    SmallModel model{"experts", {{0, true}}};
    model.numExperts = i == 0 ? 8 : 64;
    OwningOpRef<ModuleOp> module = build(model);
    auto sequences = longSequence(16, 0);
    multiplyAdds[i] = run(*module, sequences).work.multiplyAdds;
    // The router has a row per expert; that is not the experts' work.
    multiplyAdds[i] -= 16 * model.numExperts * model.hidden;
    int experts = 0;
    module->walk([&](lm::ExpertsOp op) {
      flops[i] += op.flops(16, 0);
      ++experts;
    });
    EXPECT_EQ(experts, 1);
  }
  EXPECT_EQ(multiplyAdds[0], multiplyAdds[1]);
  EXPECT_EQ(flops[0], flops[1]);
}

TEST_F(Work, WindowBoundsReadsAndBlocks) {
  SmallModel model{"windows", {{20}}};
  auto sequences = longSequence(160, 40);
  Driven sparse = run(*build(model), sequences),
         dense = run(*build(model, {"sparsify-attention"}), sequences);
  // Row i reads min(i + 1, 20) entries, or all i + 1 where the window is only a mask.
  EXPECT_EQ(sparse.work.attentionEntries, 20 * 21 / 2 + 180 * 20);
  EXPECT_EQ(dense.work.attentionEntries, 200 * 201 / 2);
  // 20 entries behind a step of 8 rows touch at most 3 blocks of 16; 200 tokens are 13 blocks.
  EXPECT_LE(sparse.mostBlocks, 3);
  EXPECT_EQ(dense.mostBlocks, 13);
}

TEST_F(Work, OneWindowLayerDoesNotKeepTheOthers) {
  SmallModel model{"windows", {{20}, {0}}};
  OwningOpRef<ModuleOp> module = build(model);
  // Two groups: one of 13 blocks, one of at most 3.
  EXPECT_LE(run(*module, longSequence(200, 0)).mostBlocks, 16);
}

TEST_F(Work, HeadSeesWantedRowsAlone) {
  SmallModel model{"dense", {{}}};
  model.tied = true;
  OwningOpRef<ModuleOp> module = build(model);
  auto sequences = longSequence(64, 0);
  Driven none = run(*module, sequences, 0.0), all = run(*module, sequences, 1.0);
  // Behind the last attention nothing is done for rows that nobody wants: output projection,
  // feed-forward and head.
  int64_t perRow = model.hidden * model.heads * model.head + 3 * model.inner * model.hidden +
                   model.vocabulary * model.hidden;
  EXPECT_EQ(all.work.multiplyAdds - none.work.multiplyAdds, 64 * perRow);
}

TEST_F(Work, SharedHeadsAreKeptOnce) {
  SmallModel model{"repeated heads", {{0}}};
  model.repeatHeads = true;
  auto cacheHeads = [](ModuleOp module) {
    int64_t heads = 0;
    module.walk([&](lm::CacheAppendOp op) { heads = op.getCache().getType().getKvHeads(); });
    return heads;
  };
  EXPECT_EQ(cacheHeads(*build(model)), model.kvHeads);
  EXPECT_EQ(cacheHeads(*build(model, {"share-kv-heads"})), model.heads);
  model.repeatHeads = false;
  model.repeatBeforeCache = true;
  EXPECT_EQ(cacheHeads(*build(model)), model.kvHeads);
}

} // namespace
} // namespace sluicec::equivalence
