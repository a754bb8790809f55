// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter against numbers worked out by hand from the operations' definitions, and its
// errors.
#include "compiler/reference/Interpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace mlir;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

namespace sluicec::reference {
namespace {

using T = Tensor<double>;
using Value = RuntimeValue<double>;

/// Sums of a few f64 products: off by some units in the last place.
constexpr double kExact = 1e-12;

class Interpreting : public testing::Test {
protected:
  Interpreting() {
    context.loadDialect<lm::LmDialect, arith::ArithDialect, func::FuncDialect,
                        linalg::LinalgDialect, math::MathDialect, tensor::TensorDialect>();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string message;
  Work work;

  /// Runs "(arguments) -> results { body }"; empty after an error, which `message` then holds.
  std::vector<Value> run(StringRef function, std::vector<Value> arguments) {
    module = parseSourceString<ModuleOp>(("func.func @f" + function).str(), &context);
    EXPECT_TRUE(module);
    if (!module) {
      return {};
    }
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) { message += d.str(); });
    Interpreter<double> interpreter(*module->getOps<func::FuncOp>().begin(),
                                    [](StringRef) { return nullptr; });
    auto results = interpreter.run(arguments);
    work = interpreter.work();
    return succeeded(results) ? *results : std::vector<Value>();
  }

  static const T &tensor(const Value &v) { return *std::get<std::shared_ptr<const T>>(v); }
  static Value reals(ArrayRef<int64_t> shape, std::vector<double> v) {
    return asValue(T::ofReals(shape, std::move(v)));
  }
  static Value integers(ArrayRef<int64_t> shape, std::vector<int64_t> v) {
    return asValue(T::ofIntegers(shape, std::move(v)));
  }

  void expectReals(StringRef function, std::vector<Value> arguments, std::vector<double> expected) {
    std::vector<Value> results = run(function, std::move(arguments));
    ASSERT_FALSE(results.empty()) << message;
    EXPECT_THAT(tensor(results[0]).reals, Pointwise(DoubleNear(kExact), expected));
  }
};

TEST_F(Interpreting, LinearAddsBiasAndResidual) {
  expectReals(R"((%x: tensor<?x2xf32>, %r: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %w = lm.weight "w" = dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32> : tensor<3x2xf32>
    %b = lm.weight "b" = dense<[10.0, 20.0, 30.0]> : tensor<3xf32> : tensor<3xf32>
    %y = lm.linear %x, %w bias(%b) residual(%r) : (tensor<?x2xf32>, tensor<3x2xf32>, tensor<3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
    return %y : tensor<?x3xf32> })",
              {reals({2, 2}, {1, 1, 2, 0}), reals({2, 3}, {100, 100, 100, 0, 0, 0})},
              {113, 127, 141, 12, 26, 40});
  EXPECT_EQ(work.multiplyAdds, 2 * 3 * 2);
}

TEST_F(Interpreting, EmbeddingOfRecipe) {
  expectReals(R"((%i: tensor<?xi32>) -> tensor<?x2xf32> {
    %w = lm.weight "w" = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> : tensor<2x3xf32>
    %t = lm.weight_transpose %w perm = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    %y = lm.embedding %t, %i : (tensor<3x2xf32>, tensor<?xi32>) -> tensor<?x2xf32>
    return %y : tensor<?x2xf32> })",
              {integers({2}, {2, 0})}, {3, 6, 1, 4});
}

TEST_F(Interpreting, NormsPerGroupAndOfSum) {
  // Groups (3, 4) and (0, 2): mean squares 12.5 and 2.
  double a = 1 / std::sqrt(12.5 + 0.5), b = 1 / std::sqrt(2 + 0.5);
  expectReals(R"((%x: tensor<?x4xf32>, %r: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
    %w = lm.weight "w" = dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
    %y, %s = lm.rms_norm %x, %w residual(%r) {epsilon = 0.5, groups = 2 : i64} : (tensor<?x4xf32>, tensor<2xf32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    return %y, %s : tensor<?x4xf32>, tensor<?x4xf32> })",
              {reals({1, 4}, {1, 1, 1, 1}), reals({1, 4}, {2, 3, -1, 1})},
              {3 * a, 8 * a, 0, 4 * b});
  // Mean 2, variance 2/3.
  double c = 1 / std::sqrt(2.0 / 3 + 0.25);
  expectReals(R"((%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
    %w = lm.weight "w" = dense<[1.0, 1.0, 2.0]> : tensor<3xf32> : tensor<3xf32>
    %y = lm.layer_norm %x, %w bias(%w) {epsilon = 0.25} : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
    return %y : tensor<?x3xf32> })",
              {reals({1, 3}, {1, 2, 3})}, {1 - c, 1, 2 + 2 * c});
}

TEST_F(Interpreting, RopeTurnsPairs) {
  auto function = [](StringRef mode) {
    return (R"((%p: tensor<?xi32>, %x: tensor<?x5xf32>) -> tensor<?x5xf32> {
    %c, %s = lm.rope_table %p {frequencies = array<f64: 1.0, 0.5>, scale = 2.0} : (tensor<?xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
    %y = lm.rope %x, %c, %s {heads = 1 : i64)" +
            mode + R"(} : (tensor<?x5xf32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x5xf32>
    return %y : tensor<?x5xf32> })")
        .str();
  };
  double c1 = 2 * std::cos(3.0), s1 = 2 * std::sin(3.0), c2 = 2 * std::cos(1.5),
         s2 = 2 * std::sin(1.5);
  std::vector<Value> arguments{integers({1}, {3}), reals({1, 5}, {1, 2, 3, 4, 5})};
  expectReals(function(""), arguments,
              {c1 - 3 * s1, 2 * c2 - 4 * s2, 3 * c1 + s1, 4 * c2 + 2 * s2, 5});
  expectReals(function(", interleaved"), arguments,
              {c1 - 2 * s1, 2 * c1 + s1, 3 * c2 - 4 * s2, 4 * c2 + 3 * s2, 5});
}

TEST_F(Interpreting, RepeatedHeads) {
  expectReals(R"((%x: tensor<?x4xf32>) -> tensor<?x8xf32> {
    %y = lm.repeat_heads %x {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x4xf32>) -> tensor<?x8xf32>
    return %y : tensor<?x8xf32> })",
              {reals({1, 4}, {1, 2, 3, 4})}, {1, 2, 1, 2, 3, 4, 3, 4});
  expectReals(R"((%x: tensor<?x2x?x1xf32>) -> tensor<?x4x?x1xf32> {
    %y = lm.repeat_heads %x {heads = 2 : i64, repeats = 2 : i64} : (tensor<?x2x?x1xf32>) -> tensor<?x4x?x1xf32>
    return %y : tensor<?x4x?x1xf32> })",
              {reals({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6})}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
}

TEST_F(Interpreting, GatedActivations) {
  auto function = [](StringRef kind) {
    return ("(%g: tensor<?x2xf32>, %u: tensor<?x2xf32>) -> tensor<?x2xf32> {\n%y = "
            "lm.gated_activation %g, %u <kind = " +
            kind +
            R"(, alpha = 2.0 : f64, beta = 1.0 : f64, limit = 3.0 : f64> : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
    return %y : tensor<?x2xf32> })")
        .str();
  };
  // Gate -1 and 5 (clamped to 3), up -4 (clamped to -3) and 0.5; times up + 1.
  std::vector<Value> arguments{reals({1, 2}, {-1, 5}), reals({1, 2}, {-4, 0.5})};
  expectReals(function("silu"), arguments,
              {-1 / (1 + std::exp(2.0)) * -2, 3 / (1 + std::exp(-6.0)) * 1.5});
  expectReals(function("relu"), arguments, {0, 4.5});
  expectReals(function("gelu_erf"), arguments,
              {-0.5 * (1 + std::erf(-1 / std::sqrt(2.0))) * -2,
               1.5 * (1 + std::erf(3 / std::sqrt(2.0))) * 1.5});
  auto tanhForm = [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  expectReals(function("gelu_tanh"), arguments, {tanhForm(-1) * -2, tanhForm(3) * 1.5});
  expectReals(R"((%x: tensor<?x1xf32>) -> tensor<?x1xf32> {
    %w = lm.weight "w" = dense<[[2.0], [3.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
    %y = lm.gated_linear %x, %w <kind = relu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64> : (tensor<?x1xf32>, tensor<2x1xf32>) -> tensor<?x1xf32>
    return %y : tensor<?x1xf32> })",
              {reals({1, 1}, {5})}, {150});
}

TEST_F(Interpreting, RouterChoosesAndWeighs) {
  auto function = [](StringRef attributes) {
    return ("(%l: tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>) {\n%w, %i = lm.route %l "
            "{top_k = 2 : i64, " +
            attributes +
            R"(} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>)
    return %w, %i : tensor<?x2xf32>, tensor<?x2xi32> })")
        .str();
  };
  std::vector<Value> logits{reals({1, 4}, {1, 2, 0, 2})}; // equal ones: the lower id first
  double e1 = std::exp(1.0), e2 = std::exp(2.0), all = e1 + 2 * e2 + 1,
         sigmoid = 1 / (1 + std::exp(-2.0));
  expectReals(function("score = #lm<score softmax_all>"), logits, {e2 / all, e2 / all});
  EXPECT_THAT(tensor(run(function("score = #lm<score softmax_all>"), logits)[1]).integers,
              ElementsAre(1, 3));
  expectReals(function("score = #lm<score softmax_all>, normalize, scale = 3.0"), logits,
              {1.5, 1.5});
  expectReals(function("score = #lm<score softmax_selected>"), {reals({1, 4}, {1, 2, 0, 1})},
              {e1 / (e1 + 1), 1 / (e1 + 1)});
  expectReals(function("score = #lm<score sigmoid>"), logits, {sigmoid, sigmoid});
  // A correction changes the choice, not the weights.
  std::vector<Value> results = run(R"((%l: tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>) {
    %c = lm.weight "c" = dense<[0.0, 0.0, 9.0, 0.0]> : tensor<4xf32> : tensor<4xf32>
    %w, %i = lm.route %l correction(%c) {top_k = 2 : i64, score = #lm<score sigmoid>} : (tensor<?x4xf32>, tensor<4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>)
    return %w, %i : tensor<?x2xf32>, tensor<?x2xi32> })",
                                   logits);
  EXPECT_THAT(tensor(results[1]).integers, ElementsAre(2, 1));
  EXPECT_THAT(tensor(results[0]).reals, Pointwise(DoubleNear(kExact), {0.5, sigmoid}));
}

TEST_F(Interpreting, ExpertsAreThoseChosen) {
  // Expert e multiplies by e + 1, then adds 10 * e.
  expectReals(
      R"((%x: tensor<?x1xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) -> tensor<?x1xf32> {
    %m = lm.weight "m" = dense<[[[1.0]], [[2.0]], [[3.0]]]> : tensor<3x1x1xf32> : tensor<3x1x1xf32>
    %b = lm.weight "b" = dense<[[0.0], [10.0], [20.0]]> : tensor<3x1xf32> : tensor<3x1xf32>
    %y = lm.grouped_linear %x, %i, %m bias(%b) : (tensor<?x1xf32>, tensor<?x2xi32>, tensor<3x1x1xf32>, tensor<3x1xf32>) -> tensor<?x2x1xf32>
    %z = lm.grouped_linear %y, %i, %m : (tensor<?x2x1xf32>, tensor<?x2xi32>, tensor<3x1x1xf32>) -> tensor<?x2x1xf32>
    %c = lm.combine %z, %w : (tensor<?x2x1xf32>, tensor<?x2xf32>) -> tensor<?x1xf32>
    return %c : tensor<?x1xf32> })",
      {reals({2, 1}, {5, 7}), integers({2, 2}, {2, 0, 1, 1}), reals({2, 2}, {0.5, 2, 1, 0})},
      {(5 * 3 + 20) * 3 * 0.5 + 5 * 2, (7 * 2 + 10) * 2});
}

TEST_F(Interpreting, PositionsCountRealTokens) {
  std::vector<Value> results =
      run(R"((%i: tensor<?x?xi64>, %m: tensor<?x?xi64>) -> tensor<?x?xi64> {
    %p = lm.padded_positions %i, %m : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
    return %p : tensor<?x?xi64> })",
          {integers({1, 3}, {0, 0, 0}), integers({1, 5}, {1, 0, 1, 0, 1})});
  EXPECT_THAT(tensor(results[0]).integers, ElementsAre(1, 2, 2));
}

TEST_F(Interpreting, PaddedAttention) {
  auto function = [](StringRef attributes, StringRef sinksType = "") {
    return (R"((%q: tensor<?x?x2xf32>, %p: tensor<?x1x?x1xf32>, %r: tensor<?x?x1xf32>, %m: tensor<?x?xi64>) -> tensor<?x?x2xf32> {
    %s = lm.weight "sinks" = dense<[0.0, 1.0]> : tensor<2xf32> : tensor<2xf32>
    %k = lm.padded_append %p, %r : (tensor<?x1x?x1xf32>, tensor<?x?x1xf32>) -> tensor<?x1x?x1xf32>
    %o = lm.padded_attention %q, %k, %k mask(%m) )" +
            attributes + R"(, heads = 2 : i64, kv_heads = 1 : i64, scale = 0.5}
    : (tensor<?x?x2xf32>, tensor<?x1x?x1xf32>, tensor<?x1x?x1xf32>, tensor<?x?xi64>)" +
            sinksType + R"() -> tensor<?x?x2xf32>
    return %o : tensor<?x?x2xf32> })")
        .str();
  };
  // Keys and values 1, 2 (past), 3, 4 (new); two heads over one key-value head; scores key * query
  // / 2.
  std::vector<Value> arguments{reals({1, 2, 2}, {2, 0, 2, 0}), reals({1, 1, 2, 1}, {1, 2}),
                               reals({1, 2, 1}, {3, 4}), integers({1, 4}, {1, 1, 1, 1})};
  auto softmaxMean = [](std::vector<double> keys, double factor, double more = 0) {
    double sum = more, mean = 0;
    for (double k : keys) {
      sum += std::exp(k * factor);
      mean += std::exp(k * factor) * k;
    }
    return mean / sum;
  };
  expectReals(function("{soft_cap = 0.0"), arguments,
              {softmaxMean({1, 2, 3}, 1), softmaxMean({1, 2, 3}, 0), softmaxMean({1, 2, 3, 4}, 1),
               softmaxMean({1, 2, 3, 4}, 0)});
  for (StringRef window : {"{window = 2 : i64", "{mask_window = 2 : i64"}) {
    expectReals(function(window), arguments,
                {softmaxMean({2, 3}, 1), softmaxMean({2, 3}, 0), softmaxMean({3, 4}, 1),
                 softmaxMean({3, 4}, 0)});
    EXPECT_EQ(work.attentionEntries, window == "{window = 2 : i64" ? 4 : 7);
  }
  arguments[3] = integers({1, 4}, {1, 0, 1, 0});
  expectReals(function("{soft_cap = 0.0"), arguments,
              {softmaxMean({1, 3}, 1), softmaxMean({1, 3}, 0), softmaxMean({1, 3}, 1),
               softmaxMean({1, 3}, 0)});
  arguments[3] = integers({1, 4}, {0, 0, 0, 1}); // the first row sees nothing
  expectReals(function("{soft_cap = 0.0"), arguments, {0, 0, 4, 4});
  double capped = std::exp(3 * std::tanh(4.0 / 3));
  expectReals(function("sinks(%s) {soft_cap = 3.0", ", tensor<2xf32>"), arguments,
              {0, 0, 4 * capped / (capped + 1), 4 * 1 / (1 + std::exp(1.0))});
}

TEST_F(Interpreting, PagedAttentionAndItsErrors) {
  constexpr StringRef kFunction =
      R"((%q: tensor<?x1xf32>, %r: tensor<?x1xf32>, %b: !lm.batch, %c: !lm.cache<window = 20, element = f16, kvHeads = 1, keyHead = 1, valueHead = 1, layers = 1>)
      -> (tensor<?x1xf32>, !lm.cache<window = 20, element = f16, kvHeads = 1, keyHead = 1, valueHead = 1, layers = 1>) {
    %d = lm.cache_append %c, %r, %r, %b {layer = 0 : i64} : (!lm.cache<window = 20, element = f16, kvHeads = 1, keyHead = 1, valueHead = 1, layers = 1>, tensor<?x1xf32>, tensor<?x1xf32>, !lm.batch) -> !lm.cache<window = 20, element = f16, kvHeads = 1, keyHead = 1, valueHead = 1, layers = 1>
    %o = lm.attention %q, %d, %b {heads = 1 : i64, kv_heads = 1 : i64, layer = 0 : i64, scale = 1.0, window = 20 : i64} : (tensor<?x1xf32>, !lm.cache<window = 20, element = f16, kvHeads = 1, keyHead = 1, valueHead = 1, layers = 1>, !lm.batch) -> tensor<?x1xf32>
    return %o, %d : tensor<?x1xf32>, !lm.cache<window = 20, element = f16, kvHeads = 1, keyHead = 1, valueHead = 1, layers = 1> })";
  auto type = lm::CacheType::get(&context, 20, Float16Type::get(&context), 1, 1, 1, 1);
  auto cache = std::make_shared<PagedCache>(type, 1);
  auto batch = [](std::vector<int64_t> sequences, std::vector<int64_t> indices) {
    return std::make_shared<const Batch>(Batch{std::move(sequences), std::move(indices), {}});
  };
  cache->reserve(0, 0, 3);
  // A padding row in between; 2049 is no f16, its neighbour 2048 is kept.
  std::vector<Value> results =
      run(kFunction, {reals({3, 1}, {0, 9, 0}), reals({3, 1}, {2049, 7, 4}),
                      batch({0, -1, 0}, {0, 0, 1}), CacheValue{cache, 0}});
  ASSERT_FALSE(results.empty()) << message;
  EXPECT_THAT(tensor(results[0]).reals, ElementsAre(2048, 0, 1026));
  // The value of before the append is used up.
  EXPECT_TRUE(run(kFunction,
                  {reals({1, 1}, {0}), reals({1, 1}, {1}), batch({0}, {2}), CacheValue{cache, 0}})
                  .empty());
  EXPECT_NE(message.find("uses a cache value of before 1 later appends"), std::string::npos)
      << message;
  // Entry 16 lies behind the blocks that were reserved.
  message.clear();
  EXPECT_TRUE(run(kFunction,
                  {reals({1, 1}, {0}), reals({1, 1}, {1}), batch({0}, {16}), CacheValue{cache, 1}})
                  .empty());
  EXPECT_NE(message.find("has no block for entry 16 of sequence 0"), std::string::npos) << message;
  // At length 40 the first row sees from 21 on: block 0 is gone, block 1 is not.
  cache->reserve(0, 40, 41);
  EXPECT_EQ(cache->read(0, 0, 0), nullptr);
  EXPECT_EQ(cache->blocksInUse(), 2);
  message.clear();
  EXPECT_TRUE(run(kFunction, {reals({1, 1}, {0}), reals({1, 1}, {1}), batch({0}, {34}),
                              CacheValue{cache, cache->version}})
                  .empty());
  EXPECT_NE(
      message.find("reads entry 15 of sequence 0 for the row at 34, which has left the window"),
      std::string::npos)
      << message;
}

TEST_F(Interpreting, LogitRowsAreChosen) {
  auto batch = std::make_shared<const Batch>(Batch{{0, 0, 0}, {0, 1, 2}, {2, 0}});
  std::vector<Value> results = run(R"((%x: tensor<?x2xf32>, %b: !lm.batch) -> tensor<?x2xf32> {
    %y = lm.logit_rows %x, %b : (tensor<?x2xf32>, !lm.batch) -> tensor<?x2xf32>
    return %y : tensor<?x2xf32> })",
                                   {reals({3, 2}, {1, 2, 3, 4, 5, 6}), batch});
  EXPECT_THAT(tensor(results[0]).reals, ElementsAre(5, 6, 1, 2));
  EXPECT_EQ(work.logitRows, 2);
}

TEST_F(Interpreting, GenericLoops) {
  // A reduction with a broadcast factor and the loop's index: sum over j of x[i, j] * f[j] + j.
  expectReals(R"((%x: tensor<?x3xf32>, %f: tensor<3xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x3xf32>
    %zero = arith.constant 0.0 : f32
    %init = tensor.splat %zero[%n] : tensor<?xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
        ins(%x, %f : tensor<?x3xf32>, tensor<3xf32>) outs(%init : tensor<?xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %j = linalg.index 1 : index
      %ji = arith.index_cast %j : index to i32
      %jf = arith.sitofp %ji : i32 to f32
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %m, %jf : f32
      %t = arith.addf %s, %acc : f32
      linalg.yield %t : f32
    } -> tensor<?xf32>
    return %y : tensor<?xf32> })",
              {reals({2, 3}, {1, 2, 3, 4, 5, 6}), reals({3}, {1, 10, 100})}, {321 + 3, 654 + 3});
}

TEST_F(Interpreting, ElementwiseCodeAndViews) {
  expectReals(R"((%x: tensor<2x6xf32>) -> tensor<2x2xf32> {
    %half = arith.truncf %x : tensor<2x6xf32> to tensor<2x6xf16>
    %back = arith.extf %half : tensor<2x6xf16> to tensor<2x6xf32>
    %e = tensor.expand_shape %back [[0], [1, 2]] output_shape [2, 3, 2] : tensor<2x6xf32> into tensor<2x3x2xf32>
    %s = tensor.extract_slice %e[0, 1, 0] [2, 1, 2] [1, 1, 1] : tensor<2x3x2xf32> to tensor<2x2xf32>
    %n = math.absf %s : tensor<2x2xf32>
    %c = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %less = arith.cmpf olt, %n, %c : tensor<2x2xf32>
    %y = arith.select %less, %n, %c : tensor<2x2xi1>, tensor<2x2xf32>
    return %y : tensor<2x2xf32> })",
              {reals({2, 6}, {0, 0, -0.5, 7, 0, 0, 0, 0, 2049, -3.0003, 0, 0})}, {0.5, 2, 3, 3});
}

TEST_F(Interpreting, SinglePrecisionRoundsEachMultiplyAdd) {
  module = parseSourceString<ModuleOp>(R"(func.func @f(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
    %w = lm.weight "w" = dense<[[1.0, 1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
    %y = lm.linear %x, %w : (tensor<?x2xf32>, tensor<1x2xf32>) -> tensor<?x1xf32>
    return %y : tensor<?x1xf32> })",
                                       &context);
  Interpreter<float> interpreter(*module->getOps<func::FuncOp>().begin(),
                                 [](StringRef) { return nullptr; });
  auto results = interpreter.run({asValue(Tensor<float>::ofReals({1, 2}, {16777216.0F, 1.0F}))});
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ(std::get<std::shared_ptr<const Tensor<float>>>(results->front())->reals.front(),
            16777216.0F);
}

TEST_F(Interpreting, ErrorsNameWhatIsWrong) {
  EXPECT_TRUE(run(R"((%i: tensor<?xi32>) -> tensor<?x2xf32> {
    %w = lm.weight "w" = dense<1.0> : tensor<3x2xf32> : tensor<3x2xf32>
    %y = lm.embedding %w, %i : (tensor<3x2xf32>, tensor<?xi32>) -> tensor<?x2xf32>
    return %y : tensor<?x2xf32> })",
                  {integers({1}, {3})})
                  .empty());
  EXPECT_NE(message.find("is asked for row 3 of 3"), std::string::npos) << message;
  message.clear();
  EXPECT_TRUE(run("(%x: tensor<?x2xf32>) { return }", {reals({1, 3}, {1, 2, 3})}).empty());
  EXPECT_NE(message.find("argument is 'tensor<?x2xf32>', found [1, 3]"), std::string::npos)
      << message;
  message.clear();
  EXPECT_TRUE(run(R"((%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xf32> {
    %z = arith.addf %x, %y : tensor<?x2xf32>
    return %z : tensor<?x2xf32> })",
                  {reals({1, 2}, {1, 2}), reals({2, 2}, {1, 2, 3, 4})})
                  .empty());
  EXPECT_NE(message.find("operands of different sizes"), std::string::npos) << message;
  message.clear();
  EXPECT_TRUE(run(R"((%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
    %e = tensor.empty() : tensor<3x2xf32>
    %y = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
    return %y : tensor<3x2xf32> })",
                  {reals({2, 3}, {1, 2, 3, 4, 5, 6})})
                  .empty());
  EXPECT_NE(message.find("(linalg.transpose) cannot be interpreted"), std::string::npos) << message;
}

} // namespace
} // namespace sluicec::reference
