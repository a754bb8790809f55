// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every pass of compiler/optimize, found by its name in Passes.td, leaves each token's logits as
// they were; so does the whole pipeline with any of its optional passes switched off.
#include "compiler/optimize/OptimizePipeline.h"
#include "compiler/optimize/Passes.h"
#include "dialects/lm/LmDialect.h"
#include "test/equivalence/Sequences.h"
#include "test/equivalence/SmallModel.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace sluicec::equivalence {

namespace {

/// In f64 sums that are grouped otherwise differ by about 1e-14; a pass that changes what is
/// computed, be it one head or one rounding to f32 (6e-8 each, over hundreds of terms), shows above
/// this.
constexpr double kTolerance = 1e-6;

class PassEquivalence : public testing::Test {
protected:
  PassEquivalence() {
    static const bool registered = (optimize::registerOptimizePasses(), true);
    (void)registered;
    context.loadDialect<lm::LmDialect, arith::ArithDialect, func::FuncDialect,
                        linalg::LinalgDialect, math::MathDialect, tensor::TensorDialect>();
  }

  MLIRContext context;
  support::WeightStore store;

  /// A model with what its untransformed form computes.
  struct Case {
    SmallModel model;
    OwningOpRef<ModuleOp> padded;
    std::vector<Sequence> sequences;
    Logits expected;
    bool windowed;
  };

  Case makeCase(const SmallModel &model, bool inStep) {
    Case c{model,
           buildSmallModel(model, store, context, 7),
           raggedSequences(model.vocabulary, inStep, 3),
           {},
           false};
    EXPECT_TRUE(succeeded(verify(*c.padded)));
    for (const SmallLayer &layer : model.layers) {
      c.windowed |= layer.window > 0;
    }
    DriveOptions alone;
    alone.alone = true;
    auto driven = drive(mainOf(*c.padded), c.sequences, resolverOf(store), alone);
    EXPECT_TRUE(succeeded(driven)) << model.name;
    if (succeeded(driven)) {
      c.expected = driven->logits;
    }
    return c;
  }

  static func::FuncOp mainOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

  /// A copy behind `passes`; null where a pass fails.
  OwningOpRef<ModuleOp> transformed(ModuleOp module, StringRef passes, bool quiet = false) {
    OwningOpRef<ModuleOp> copy = module.clone();
    PassManager manager(&context);
    if (!passes.empty()) {
      EXPECT_TRUE(succeeded(parsePassPipeline(("func.func(" + passes + ")").str(), manager)));
    }
    std::unique_ptr<ScopedDiagnosticHandler> silence;
    if (quiet) {
      silence = std::make_unique<ScopedDiagnosticHandler>(&context,
                                                          [](Diagnostic &) { return success(); });
    }
    return succeeded(manager.run(*copy)) ? std::move(copy) : OwningOpRef<ModuleOp>();
  }

  /// Drives `module` in every way that its form has, and compares. A window counts padded entries
  /// in the padded form, so there padding must not lie between real tokens.
  void expectEqual(Case &c, ModuleOp module, const std::string &what, bool inStep) {
    std::vector<DriveOptions> ways(1);
    ways.front().alone = true;
    if (!c.windowed || inStep || isPacked(module)) {
      ways.push_back({Padding::Left});
    }
    if (!c.windowed || isPacked(module)) {
      ways.push_back({Padding::Right});
      ways.push_back({Padding::Holes, false, 0.4, 5});
    }
    for (const DriveOptions &way : ways) {
      auto driven = drive(mainOf(module), c.sequences, resolverOf(store), way);
      ASSERT_TRUE(succeeded(driven)) << c.model.name << ": " << what;
      EXPECT_LE(largestDifference(c.expected, driven->logits), kTolerance)
          << c.model.name << ": " << what << ", padding " << static_cast<int>(way.padding)
          << (way.alone ? ", alone" : "");
    }
  }

  static bool isPacked(ModuleOp module) {
    auto ids = cast<RankedTensorType>(mainOf(module).getArgument(0).getType());
    return ids.getRank() == 1;
  }

  OwningOpRef<ModuleOp> optimized(ModuleOp module, const optimize::OptimizeOptions &options) {
    OwningOpRef<ModuleOp> copy = module.clone();
    PassManager manager(&context);
    llvm::cantFail(optimize::buildOptimizePipeline(manager, options));
    EXPECT_TRUE(succeeded(manager.run(*copy)));
    return copy;
  }
};

/// Option names of all passes in compiler/optimize/Passes.td; tests run in the source's root.
std::vector<std::string> passNames() {
  std::vector<std::string> names;
  auto file = llvm::MemoryBuffer::getFile("compiler/optimize/Passes.td");
  EXPECT_TRUE(static_cast<bool>(file)) << "run from the top of the source tree";
  if (!file) {
    return names;
  }
  StringRef text = (*file)->getBuffer();
  llvm::Regex definition("def [A-Za-z]+ *: *OptimizePass<\"([a-z0-9-]+)\">");
  SmallVector<StringRef> match;
  while (definition.match(text, &match)) {
    names.push_back(match[1].str());
    text = text.drop_front(static_cast<size_t>(match[0].end() - text.begin()));
  }
  return names;
}

TEST_F(PassEquivalence, FormsAgreeHoweverPadded) {
  for (const SmallModel &model : smallModels(context)) {
    for (bool inStep : {false, true}) {
      Case c = makeCase(model, inStep);
      expectEqual(c, *c.padded, "padded", inStep);
    }
  }
}

TEST_F(PassEquivalence, EachPassKeepsTheLogits) {
  std::vector<std::string> names = passNames();
  ASSERT_GE(names.size(), 9U);
  const std::vector<std::string> prefixes = {
      "", "share-kv-heads,sparsify-attention", "page-kv-cache",
      "sparsify-attention,page-kv-cache,pack-tokens",
      "page-kv-cache,pack-tokens,fuse-experts,fuse-epilogues,fuse-norms"};
  std::map<std::string, int> applied;
  for (const SmallModel &model : smallModels(context)) {
    for (bool inStep : {false, true}) {
      Case c = makeCase(model, inStep);
      for (const std::string &prefix : prefixes) {
        OwningOpRef<ModuleOp> before = transformed(*c.padded, prefix);
        ASSERT_TRUE(before) << prefix;
        for (const std::string &name : names) {
          // A pass may refuse a form, not all of them.
          if (OwningOpRef<ModuleOp> after = transformed(*before, name, /*quiet=*/true)) {
            ++applied[name];
            expectEqual(c, *after, prefix + " then " + name, inStep);
          }
        }
      }
    }
  }
  for (const std::string &name : names) {
    EXPECT_GT(applied[name], 0) << name << " accepts no form";
  }
}

TEST_F(PassEquivalence, PipelineKeepsTheLogitsWithAnyPassOff) {
  std::vector<std::vector<std::string>> subsets{{}};
  std::vector<std::string> all;
  for (StringRef name : optimize::optionalPasses()) {
    subsets.push_back({name.str()});
    all.push_back(name.str());
  }
  subsets.push_back(all);
  std::mt19937 random(11);
  for (int i = 0; i < 4; ++i) {
    std::vector<std::string> some;
    llvm::copy_if(all, std::back_inserter(some),
                  [&](const std::string &) { return random() % 2 == 0; });
    subsets.push_back(some);
  }
  for (const SmallModel &model : smallModels(context)) {
    Case c = makeCase(model, false);
    for (const std::vector<std::string> &off : subsets) {
      OwningOpRef<ModuleOp> after = optimized(*c.padded, {"keep", "keep", off});
      expectEqual(c, *after, "without " + llvm::join(off, ", "), false);
    }
  }
}

TEST_F(PassEquivalence, RequiredPassesCannotBeSwitchedOff) {
  for (StringRef name : optimize::requiredPasses()) {
    PassManager manager(&context);
    llvm::Error error = optimize::buildOptimizePipeline(manager, {"keep", "keep", {name.str()}});
    EXPECT_NE(llvm::toString(std::move(error)).find(name.str()), std::string::npos);
  }
}

TEST_F(PassEquivalence, NarrowWeightsAndCacheStayNear) {
  // bf16 keeps 8 bits: each weight and cached value is off by up to 0.4 %, which a few layers of
  // sums average to about that. Experts are left out: a router on rounded activations may choose
  // differently.
  Case c = makeCase(smallModels(context)[0], false);
  OwningOpRef<ModuleOp> after = optimized(*c.padded, {"bf16", "bf16", {}});
  auto driven = drive(mainOf(*after), c.sequences, resolverOf(store), {});
  ASSERT_TRUE(succeeded(driven));
  double difference = largestDifference(c.expected, driven->logits);
  EXPECT_LE(difference, 0.05);
  EXPECT_GT(difference, 1e-4) << "nothing was rounded";
}

} // namespace
} // namespace sluicec::equivalence
